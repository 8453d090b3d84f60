"""What celery beat does when clocks change, and where we differ. Pure: no Django, no Celery.

Celery finds the next time of a crontab on the wall clock of its zone, after the wall clock of the last run, and reads
it as the first of two, or with the offset of before the gap: a time that does not exist comes later by the length of
the gap, and the second pass of an hour that comes twice is left out, whatever the crontab says. Invariant: what is said
to differ is what these rules and ours make of one expression, instant by instant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from jobs import dst
from jobs.recurrence import Cron

_AROUND = timedelta(hours=3)
_AHEAD = timedelta(days=430)  # both changes of a year, whenever it begins


@dataclass(frozen=True)
class Differing:
    """The fires of one night that only one of the two has."""

    change: dst.Change
    only_there: tuple[datetime, ...]
    only_here: tuple[datetime, ...]


def differing(expression: str, timezone: str, *, now: datetime) -> list[Differing]:
    """The changes of the next year, and a little more, at which an expression fires otherwise there."""
    zone = dst.zone_named(timezone)
    nights = []
    change = dst.next_change(zone, now, until=now + _AHEAD)
    while change is not None:
        if found := _at(expression, timezone, change):
            nights.append(found)
        change = dst.next_change(zone, change.instant, until=now + _AHEAD)
    return nights


@lru_cache(maxsize=4096)
def _at(expression: str, timezone: str, change: dst.Change) -> Differing | None:
    around = _AROUND + abs(change.after - change.before)
    start, end = change.instant - around, change.instant + around
    here = _fires(Cron(expression, timezone).next_after, start, end)
    there = _fires(lambda moment: next_there(expression, timezone, moment), start, end)
    if here == there:
        return None
    return Differing(change, tuple(sorted(there - here)), tuple(sorted(here - there)))


def next_there(expression: str, timezone: str, moment: datetime) -> datetime | None:
    """The next fire that celery beat finds after a run at this moment."""
    zone, calendar = dst.zone_named(timezone), Cron(expression)
    wall = moment.astimezone(zone).replace(tzinfo=UTC, fold=0)
    while True:
        following = calendar.next_after(wall)
        if following is None:
            return None
        wall = following
        instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if instant > moment:
            return instant


def _fires(next_after: Callable[[datetime], datetime | None], start: datetime, end: datetime) -> set[datetime]:
    found: set[datetime] = set()
    moment = next_after(start)
    while moment is not None and moment <= end:
        found.add(moment)
        moment = next_after(moment)
    return found
