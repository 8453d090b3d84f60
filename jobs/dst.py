"""Wall clock to instants: what a zone's clock changes mean. Pure: no Django.

Owns where a zone's offset changes. Everything else asks here, so that no other module reasons about gaps and repeats.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, order=True)
class Change:
    """At `instant` the zone's offset from UTC goes from `before` to `after`."""

    instant: datetime
    before: timedelta
    after: timedelta

    @property
    def skips(self) -> tuple[datetime, datetime]:
        """The naive wall-clock times that do not exist: from the first, up to but without the second."""
        naive = self.instant.replace(tzinfo=None)
        return naive + self.before, naive + self.after


def offset_at(zone: ZoneInfo, instant: datetime) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


@lru_cache(maxsize=4096)
def changes_in_year(zone: ZoneInfo, year: int) -> tuple[Change, ...]:
    """All changes of a zone in one UTC year, found by looking at each day and closing in on those that differ."""
    found = []
    day = datetime(year, 1, 1, tzinfo=UTC)
    end = datetime(year + 1, 1, 1, tzinfo=UTC) if year < 9999 else datetime.max.replace(tzinfo=UTC) - timedelta(days=2)
    before = offset_at(zone, day)
    while day < end:
        next_day = min(day + timedelta(days=1), end)
        after = offset_at(zone, next_day)
        if after != before:
            low, high = day, next_day
            while high - low > _SECOND:
                middle = low + (high - low) // _SECOND // 2 * _SECOND
                low, high = (middle, high) if offset_at(zone, middle) == before else (low, middle)
            found.append(Change(high, before, after))
        day, before = next_day, after
    return tuple(found)


def next_change(zone: ZoneInfo, instant: datetime) -> Change | None:
    """The first change strictly after an instant, within this year and the next."""
    for year in (instant.year, instant.year + 1):
        if year > 9998:
            return None
        changes = changes_in_year(zone, year)
        index = bisect_right([change.instant for change in changes], instant)
        if index < len(changes):
            return changes[index]
    return None


def instants_of(zone: ZoneInfo, wall: datetime) -> tuple[datetime, ...]:
    """The instants at which the zone's clocks show a naive time: none in a gap, two in a repeated hour, else one."""
    found = []
    for fold in (0, 1):
        instant = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall and instant not in found:
            found.append(instant)
    return tuple(sorted(found))


def end_of_gap(zone: ZoneInfo, wall: datetime) -> datetime:
    """The first instant after the gap that swallows a naive time."""
    # Read with the offset of before the gap (fold=0), the time lands past the change; so it lies in the day before.
    landing = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    change = next_change(zone, landing - timedelta(days=2))
    while change is not None:
        first, end = change.skips
        if first <= wall < end:
            return change.instant
        change = next_change(zone, change.instant)
    raise ValueError(f"{wall} exists in {zone.key}")
