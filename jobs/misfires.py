"""What becomes of fires whose time has passed. Pure: no Django.

The beat was down, or the database was away. Fires within the grace all run, late. Of older ones the latest few run, as
many as the schedule's policy says, and the others are told in one row: a fire that does not run says why. A call plans
a limited number; the next goes on where it stopped, so that what was left to run is not skipped for that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from jobs.recurrence import Recurrence

# Counting is for the reader of the row. A stretch with more fires than this is recorded without a count.
COUNT_LIMIT = 500
DEFAULT_MISFIRE_LIMIT = 100
MOST_MISFIRES = 1000
_SECOND = timedelta(seconds=1)


class Misfire(StrEnum):
    """Which of the fires older than the grace still run."""

    SKIP = "SKIP"  # none
    FIRE_ONCE = "FIRE_ONCE"  # the latest
    FIRE_ALL = "FIRE_ALL"  # the latest so many, up to a limit


@dataclass(frozen=True)
class Skipped:
    first: datetime
    last: datetime
    count: int | None


@dataclass(frozen=True)
class FirePlan:
    """What one look at a schedule decided: which fires to plan, which stretch was skipped, what comes next."""

    fire_times: tuple[datetime, ...]
    skipped: Skipped | None
    next_fire_at: datetime | None


def plan_fires(
    recurrence: Recurrence,
    *,
    due_at: datetime,
    now: datetime,
    horizon: datetime,
    grace: timedelta,
    limit: int,
    left: int | None = None,
    misfire: Misfire = Misfire.FIRE_ONCE,
    misfire_limit: int = DEFAULT_MISFIRE_LIMIT,
) -> FirePlan:
    """All fires from `due_at` up to `horizon`, at most `limit` of them; of those older than the grace the latest few.

    `left` is how many the schedule may still have in all; what was skipped does not count.
    """
    skipped = None
    limit = limit if left is None else min(limit, left)
    fire: datetime | None = due_at
    if due_at < now - grace:
        latest = _most_to_run(misfire, misfire_limit)
        fire, skipped = _skip_all_but(latest, recurrence, due_at=due_at, before=now - grace)
    fire_times: list[datetime] = []
    while fire is not None and fire <= horizon and len(fire_times) < limit:
        fire_times.append(fire)
        fire = recurrence.next_after(fire)
    is_used_up = left is not None and len(fire_times) >= left
    return FirePlan(tuple(fire_times), skipped, None if is_used_up else fire)


def why_skipped(misfire: Misfire, misfire_limit: int) -> str:
    """The reason on the row of a stretch that `plan_fires` skipped."""
    match _most_to_run(misfire, misfire_limit):
        case 0:
            remedy = "the policy is to skip them"
        case 1:
            remedy = "the latest fire runs instead"
        case most:
            remedy = f"at most the latest {most} run"
    return f"misfire: no beat could plan these in time; {remedy}"


def passed_fires(recurrence: Recurrence, *, due_at: datetime, until: datetime) -> Skipped | None:
    """The stretch of all fires from `due_at` up to a moment, both included."""
    if due_at > until:
        return None
    return _skip_all_but(0, recurrence, due_at=due_at, before=until + timedelta(microseconds=1))[1]


def _most_to_run(misfire: Misfire, misfire_limit: int) -> int:
    match misfire:
        case Misfire.SKIP:
            return 0
        case Misfire.FIRE_ONCE:
            return 1
        case Misfire.FIRE_ALL:
            return misfire_limit


def _skip_all_but(
    latest: int, recurrence: Recurrence, *, due_at: datetime, before: datetime
) -> tuple[datetime | None, Skipped | None]:
    """Skip what is older than `before`, except so many of the latest: the first fire that remains, and the stretch."""
    passed = [due_at, *islice(_fires(recurrence, after=due_at, before=before), COUNT_LIMIT + latest)]
    if len(passed) <= latest:
        return due_at, None
    if len(passed) <= COUNT_LIMIT + latest:
        count = len(passed) - latest
        skipped = Skipped(due_at, passed[count - 1], count)
    else:
        last = _before_the_latest(latest, recurrence, after=due_at, before=before)
        skipped = Skipped(due_at, last, None)
    return recurrence.next_after(skipped.last), skipped


def _before_the_latest(latest: int, recurrence: Recurrence, *, after: datetime, before: datetime) -> datetime:
    """The fire that so many others follow between two moments, which have more between them than can be walked.

    Looks at the end through a window that grows until it holds enough, and shrinks where it holds far too many.
    """
    enough = latest + 1
    too_early, start, too_late = after, before - enough * _SECOND, before  # fires are a second apart or more
    while True:
        tail = list(islice(_fires(recurrence, after=start, before=before), 2 * enough))
        if enough <= len(tail) < 2 * enough:
            return tail[-enough]
        if len(tail) < enough:
            too_late = start
        else:
            too_early = start
        start = max(before - 2 * (before - too_late), too_early + (too_late - too_early) / 2)


def _fires(recurrence: Recurrence, *, after: datetime, before: datetime) -> Iterator[datetime]:
    fire = recurrence.next_after(after)
    while fire is not None and fire < before:
        yield fire
        fire = recurrence.next_after(fire)
