"""When a failed attempt is tried again. Pure: no Django.

Owns the arithmetic of backoff and which errors deserve another attempt. Invariant: a delay never exceeds the cap and
never shrinks from one failure to the next, jitter included, and the same execution always gets the same delays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_MAX_LOST = 3
DEFAULT_INITIAL_SECONDS = 30
DEFAULT_CAP_SECONDS = 3600
MOST_SECONDS = 30 * 24 * 3600


class Backoff(StrEnum):
    EXPONENTIAL = "EXPONENTIAL"  # the initial delay, then twice as long each time
    LINEAR = "LINEAR"  # the initial delay, then one more of it each time
    FIXED = "FIXED"  # the initial delay each time


@dataclass(frozen=True)
class RetryPolicy:
    """How often, how soon and after which errors."""

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff: Backoff = Backoff.EXPONENTIAL
    initial_seconds: int = DEFAULT_INITIAL_SECONDS
    cap_seconds: int = DEFAULT_CAP_SECONDS
    jitter: float = 0.0  # the share of a delay that may fall away: 0 none, 1 all of it
    retry_on: tuple[str, ...] = ()  # only these errors are tried again; nothing named: all
    give_up_on: tuple[str, ...] = ()  # never these

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> "RetryPolicy":
        """From what a job keeps: what differs from the default, lists for tuples. A newer release may keep more."""
        known = {field.name for field in fields(cls)}
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if name in known
        }
        return cls(**plain)

    def to_store(self) -> dict[str, Any]:
        """What differs from the default, without the number of attempts: that stands on its own."""
        standard = RetryPolicy()
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "max_attempts"}
        return {name: value for name, value in values.items() if value != getattr(standard, name)}

    def delay(self, failures: int, *, spread: float = 0.0) -> timedelta:
        """How long to wait after the given number of failures (1 after the first)."""
        seconds = min(self._seconds(failures), self.cap_seconds)
        return timedelta(seconds=seconds * (1 - self.jitter * spread))

    def _seconds(self, failures: int) -> int:
        match Backoff(self.backoff):
            case Backoff.EXPONENTIAL:
                # The exponent is bounded before the power is taken: ten thousand failures are no number to compute.
                return self.initial_seconds << min(failures - 1, MOST_SECONDS.bit_length())
            case Backoff.LINEAR:
                return self.initial_seconds * failures
            case Backoff.FIXED:
                return self.initial_seconds

    def deserves_retry(self, error_kinds: tuple[str, ...]) -> bool:
        """Whether an error of these kinds is tried again. Giving up goes before."""
        if not set(self.give_up_on).isdisjoint(error_kinds):
            return False
        return not self.retry_on or not set(self.retry_on).isdisjoint(error_kinds)


def spread_of(execution_id: UUID) -> float:
    """0 up to 1, the same for every attempt of one execution and different from execution to execution."""
    return (execution_id.int & 0xFFFF_FFFF) / 0x1_0000_0000


def kinds_of(error: BaseException) -> tuple[str, ...]:
    """The names under which a policy may mean an error: its class and those above it, with and without the module."""
    classes = type(error).__mro__[:-1]  # all but `object`
    return tuple(name for cls in classes for name in (cls.__qualname__, f"{cls.__module__}.{cls.__qualname__}"))


def may_try_again(*, attempt: int, lost: int, max_attempts: int) -> bool:
    """Whether a failed attempt leaves another one. Lost attempts have a limit of their own and do not count here."""
    return attempt - lost < max_attempts
