"""How much later than its schedule says a fire comes. Pure: no Django.

Jobs that fire at the same instant spread out over their jitter. Invariant: the same fire always gets the same jitter,
on every machine and in every release.
"""

from datetime import datetime, timedelta
from hashlib import blake2b

from executions.identity import milliseconds

MOST_JITTER_SECONDS = 86_400


def jitter_of(job_key: str, fire_time: datetime, *, seconds: int) -> timedelta:
    """From nothing up to, but without, so many seconds; to the millisecond."""
    if seconds == 0:
        return timedelta(0)
    digest = blake2b(f"{job_key} {milliseconds(fire_time)}".encode(), digest_size=8).digest()
    return timedelta(milliseconds=int.from_bytes(digest, "big") % (seconds * 1000))
