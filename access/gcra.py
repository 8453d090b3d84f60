"""How many requests a limit allows: the generic cell rate algorithm.

Owns the arithmetic, in whole microseconds, so that a burst is counted without rounding. All that is remembered of a
name is the moment at which its bucket is full again. Invariant: in any stretch of time no more is allowed than a full
bucket and what that time gives back.
"""

import math
from dataclasses import dataclass

_SECOND_US = 1_000_000
# Within these a moment in microseconds is a whole number to Lua too.
_HIGHEST_MOST = 1_000_000_000
_LONGEST_SECONDS = 366 * 24 * 3600


@dataclass(frozen=True)
class Taken:
    """What became of a request."""

    is_allowed: bool
    remaining: int
    # 0 if it was allowed, infinite if it asked for more than a full bucket holds.
    retry_after_seconds: float


@dataclass(frozen=True)
class Limit:
    """A bucket of `most`, to which one is given back every `interval_us`."""

    most: int
    interval_us: int

    @classmethod
    def of(cls, most: int, per_seconds: float) -> "Limit":
        """Rounded to the strict side; one in a microsecond is the fastest."""
        if not (0 <= most <= _HIGHEST_MOST and 0 < per_seconds <= _LONGEST_SECONDS):
            raise ValueError(
                f"{most} in {per_seconds} seconds is no limit: say 0 to {_HIGHEST_MOST}, in up to {_LONGEST_SECONDS}."
            )
        return cls(most=most, interval_us=math.ceil(per_seconds * _SECOND_US / max(most, 1)))

    @property
    def refill_us(self) -> int:
        """How long an empty bucket takes to be full."""
        return self.most * self.interval_us

    def payable(self, cost: int) -> int:
        """The cost as it is reckoned with: what is beyond the bucket is all the same, and numbers stay small."""
        if cost < 1:
            raise ValueError(f"A request cannot cost {cost}: say 1 or more.")
        return min(cost, self.most + 1)

    def answer(self, *, is_allowed: bool, remaining: int, wait_us: int, cost: int) -> Taken:
        if is_allowed:
            return Taken(is_allowed=True, remaining=remaining, retry_after_seconds=0.0)
        wait_seconds = wait_us / _SECOND_US if cost <= self.most else math.inf
        return Taken(is_allowed=False, remaining=remaining, retry_after_seconds=wait_seconds)


def take(limit: Limit, *, cost: int, full_at_us: int, now_us: int) -> tuple[Taken, int]:
    """What becomes of the request, and when the bucket is full again after it. A script does the same in Redis."""
    # No bucket is emptier than empty: a clock that was set back locks nobody out for longer than a refill.
    full_at_us = min(max(full_at_us, now_us), now_us + limit.refill_us)
    full_then_us = full_at_us + limit.payable(cost) * limit.interval_us
    wait_us = full_then_us - now_us - limit.refill_us
    is_allowed = wait_us <= 0
    if is_allowed:
        full_at_us = full_then_us
    remaining = (limit.refill_us - (full_at_us - now_us)) // limit.interval_us
    return limit.answer(is_allowed=is_allowed, remaining=remaining, wait_us=wait_us, cost=cost), full_at_us
