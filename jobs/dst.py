"""Wall clock to instants: what a zone's clock changes mean. Pure: no Django.

Owns time zones and where their offset changes. Everything else asks here, so that no other module reasons about gaps
and repeats.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from jobs.refusals import InvalidSchedule

_SECOND = timedelta(seconds=1)
# Files of a zone database that are no zones of the world, or mean another one on each machine.
_NO_ZONES = ("localtime", "posixrules", "Factory", "posix/", "right/")
LAST_YEAR = 9900  # croniter looks fifty years ahead, and Python's calendar ends with the year 9999
# Since 1970 no zone has changed its clocks twice within six days; a test reads them all.
_ONE_CHANGE_AT_MOST = timedelta(days=6)


@lru_cache(maxsize=1024)
def zone_named(name: str) -> ZoneInfo:
    """The zone of an IANA name."""
    try:
        if name.startswith(_NO_ZONES):
            raise ValueError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidSchedule("timezone", f"{name[:80]!r} is no time zone; {_remedy(name)}") from None


def _remedy(name: str) -> str:
    """The nearest names of places. An abbreviation or an offset is near to much that means something else."""
    wanted = name.strip().replace(" ", "_").lower()
    names = sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith((*_NO_ZONES, "Etc/")))
    by_lower = {zone.lower().split("/")[-1]: zone for zone in names} | {zone.lower(): zone for zone in names}
    near = [wanted] if wanted in by_lower else get_close_matches(wanted, by_lower, n=3, cutoff=0.7)
    if near and len(wanted) > 4:
        return f"did you mean {' or '.join(dict.fromkeys(repr(by_lower[match]) for match in near))}?"
    return "use an IANA name, mostly that of a city, such as 'Europe/Berlin', or 'UTC'."


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
    """All changes of a zone in one UTC year, found by looking every few days and closing in on where they differ."""
    found = []
    start, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    before = offset_at(zone, start)
    while start < end:
        stop = min(start + _ONE_CHANGE_AT_MOST, end)
        after = offset_at(zone, stop)
        if after != before:
            low, high = start, stop
            while high - low > _SECOND:
                middle = low + (high - low) // _SECOND // 2 * _SECOND
                low, high = (middle, high) if offset_at(zone, middle) == before else (low, middle)
            found.append(Change(high, before, after))
        start, before = stop, after
    return tuple(found)


def next_change(zone: ZoneInfo, instant: datetime, *, until: datetime) -> Change | None:
    """The first change strictly after one instant and up to another."""
    if until - instant <= _ONE_CHANGE_AT_MOST and offset_at(zone, instant) == offset_at(zone, until):
        return None
    for year in range(instant.year, until.year + 1):
        changes = changes_in_year(zone, year)
        index = bisect_right([change.instant for change in changes], instant)
        if index < len(changes):
            return changes[index] if changes[index].instant <= until else None
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
    change = next_change(zone, landing - timedelta(days=2), until=landing)
    while change is not None:
        first, end = change.skips
        if first <= wall < end:
            return change.instant
        change = next_change(zone, change.instant, until=landing)
    raise ValueError(f"{wall} exists in {zone.key}")
