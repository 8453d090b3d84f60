"""How many attempts of one job may run at once.

Owns the lock per job and the question whether there is room. Invariant: whoever changes how many of a limited job run
holds its lock until the change is committed; counting without it let two through at once in nearly every try. A job
without a limit takes no lock and pays nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection
from django.db.models import Exists, OuterRef

from executions.models import Execution
from executions.states import Overlap

_LOCK = 0x6F6E_6A6F  # the class of our advisory locks; the job's number is the other half


@dataclass(frozen=True)
class Limit:
    """What a job says about running several at once."""

    job_id: int
    most: int | None
    overlap: Overlap

    def has_room(self) -> bool:
        return self.most is None or Execution.objects.running().filter(job_id=self.job_id).count() < self.most


def is_limited() -> Exists:
    """A condition on executions that asks the job as it is now, since a limit may have been set after the plan."""
    job = Execution._meta.get_field("job").related_model
    return Exists(job._default_manager.filter(pk=OuterRef("job_id"), max_concurrency__isnull=False))


def lock(job_ids: Iterable[int]) -> None:
    """Hold these jobs until the transaction ends. Before any row is locked, and in order: nobody waits in a ring.

    SQLite has one writer at a time, so a transaction there holds everything already.
    """
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        for job_id in sorted(set(job_ids)):
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK, job_id % 2**31])
