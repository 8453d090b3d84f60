"""Skipped stretches, parted: some of their fires run after all. Pure: no Django.

Invariant: what was told of a stretch before and after the fires that are taken out is still told, and by no number that
is not known. The schedule may have been another one when the stretch was recorded; then today's cannot say which fires
are left, and the parts reach as far as the gap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.misfires import COUNT_LIMIT, Skipped, passed_fires
from jobs.recurrence import Recurrence

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True)
class Left:
    """What stays of a stretch before and after the gap."""

    before: Skipped | None
    after: Skipped | None


def take_out(fires: Sequence[datetime], stretch: Skipped, recurrence: Recurrence) -> Left:
    """Take fires out of a stretch: all that the schedule has in it from the first to the last of these."""
    first, last = fires[0], fires[-1]
    before, after = first > stretch.first, last < stretch.last
    if not _is_of(recurrence, stretch):
        return Left(
            Skipped(stretch.first, first - _INSTANT, None) if before else None,
            Skipped(last + _INSTANT, stretch.last, None) if after else None,
        )
    following = recurrence.next_after(last) if after else None
    return Left(
        passed_fires(recurrence, due_at=stretch.first, until=first - _INSTANT) if before else None,
        passed_fires(recurrence, due_at=following, until=stretch.last) if following is not None else None,
    )


def _is_of(recurrence: Recurrence, stretch: Skipped) -> bool:
    """Whether the schedule has the fires that were recorded, as far as the record tells."""
    if recurrence.next_after(stretch.first - _INSTANT) != stretch.first:
        return False
    counted = passed_fires(recurrence, due_at=stretch.first, until=stretch.last)
    if counted is None or counted.last != stretch.last:
        return False
    is_long = counted.count is None or counted.count >= COUNT_LIMIT
    return counted.count == stretch.count or (stretch.count is None and is_long)
