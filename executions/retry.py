"""When a failed attempt is tried again. Pure: no Django.

Owns the arithmetic of backoff. Invariant: a delay never exceeds the cap and never shrinks from one attempt to the next.
"""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Exponential:
    """`initial`, then twice as long each time, up to `cap`."""

    initial: timedelta = timedelta(seconds=30)
    cap: timedelta = timedelta(hours=1)

    def delay(self, failures: int) -> timedelta:
        """How long to wait after the given number of failures (1 after the first)."""
        delay = self.initial
        for _ in range(failures - 1):
            if not timedelta(0) < delay < self.cap:
                break
            delay *= 2
        return min(self.cap, delay)


DEFAULT_BACKOFF = Exponential()
DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_MAX_LOST = 3


def may_try_again(*, attempt: int, lost: int, max_attempts: int) -> bool:
    """Whether a failed attempt leaves another one. Lost attempts have a limit of their own and do not count here."""
    return attempt - lost < max_attempts
