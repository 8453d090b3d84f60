"""What becomes of fires whose time has passed. Pure: no Django.

The beat was down, or the database was away. Fires within the grace all run, late. Of older ones the latest runs, once,
and the others are told in one row: a fire that does not run says why.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from jobs.recurrence import Recurrence

# Counting is for the reader of the row. A stretch with more fires than this is recorded without a count.
COUNT_LIMIT = 500


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
) -> FirePlan:
    """All fires from `due_at` up to `horizon`, at most `limit` of them; those older than the grace as one.

    `left` is how many the schedule may still have in all; what was skipped does not count.
    """
    skipped = None
    limit = limit if left is None else min(limit, left)
    fire: datetime | None = due_at
    if due_at < now - grace:
        fire, skipped = _latest(recurrence, due_at=due_at, before=now - grace)
    fire_times: list[datetime] = []
    while fire is not None and fire <= horizon and len(fire_times) < limit:
        fire_times.append(fire)
        fire = recurrence.next_after(fire)
    is_used_up = left is not None and len(fire_times) >= left
    return FirePlan(tuple(fire_times), skipped, None if is_used_up else fire)


def passed_fires(recurrence: Recurrence, *, due_at: datetime, until: datetime) -> Skipped | None:
    """The stretch of all fires from `due_at` up to a moment, both included."""
    if due_at > until:
        return None
    last, before = _latest(recurrence, due_at=due_at, before=until + timedelta(microseconds=1))
    if before is None:
        return Skipped(due_at, last, 1)
    return Skipped(due_at, last, None if before.count is None else before.count + 1)


def _latest(recurrence: Recurrence, *, due_at: datetime, before: datetime) -> tuple[datetime, Skipped | None]:
    """The latest fire older than `before`, and the stretch before it."""
    passed = [due_at, *islice(_fires(recurrence, after=due_at, before=before), COUNT_LIMIT)]
    if len(passed) == 1:
        return due_at, None
    if len(passed) <= COUNT_LIMIT:
        return passed[-1], Skipped(due_at, passed[-2], len(passed) - 1)
    # Too many to walk: look only at the end, through a window that grows until it holds two fires.
    window = (passed[-1] - due_at) / 100
    tail: list[datetime] = []
    while len(tail) < 2:
        tail = list(_fires(recurrence, after=max(passed[-3], before - window), before=before))
        window *= 2
    return tail[-1], Skipped(due_at, tail[-2], None)


def _fires(recurrence: Recurrence, *, after: datetime, before: datetime) -> Iterator[datetime]:
    fire = recurrence.next_after(after)
    while fire is not None and fire < before:
        yield fire
        fire = recurrence.next_after(fire)
