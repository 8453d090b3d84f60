"""What one clock change does to a cron schedule. Pure: no Django, no clock.

Owns the comparison of that night with any other. Invariant: a schedule is touched exactly when the plain calendar has
one of its times among those that the change skips or repeats; what is said of it is what `jobs/recurrence.py` does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from jobs import dst
from jobs.cron import Fields
from jobs.series import joined

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_HOUR_SECONDS = 3600
_LISTED = 3


class Effect(StrEnum):
    MOVED = "MOVED"  # a fixed time that is skipped: it fires when the gap ends
    ONCE = "ONCE"  # a fixed time that comes twice: it fires the first time
    FEWER = "FEWER"  # it follows real time, and some of its times are skipped
    MORE = "MORE"  # it follows real time, and some of its times come twice


@dataclass(frozen=True)
class Touch:
    """What is different about that day."""

    effect: Effect
    times: tuple[datetime, ...]  # of the wall clock, naive: those that are skipped or come twice
    fires_at: datetime | None  # of a fixed time: when it fires, or when the first of several does
    usual: int  # how often it fires on such a day
    that_day: int
    says: str


@dataclass(frozen=True)
class Bounds:
    """The first and the last moment at which a schedule may fire."""

    start: datetime | None = None
    end: datetime | None = None

    def hold(self, instant: datetime) -> bool:
        return (self.start is None or self.start <= instant) and (self.end is None or instant <= self.end)


def changes(zone: ZoneInfo, *, after: datetime, until: datetime) -> Iterator[dst.Change]:
    """All changes of a zone's clocks strictly after one moment and up to another."""
    change = dst.next_change(zone, after, until=until)
    while change is not None:
        yield change
        change = dst.next_change(zone, change.instant, until=until)


def touch(fields: Fields, zone: ZoneInfo, change: dst.Change, bounds: Bounds | None = None) -> Touch | None:
    """None: that night is like any other."""
    first, end = odd_hours(change)
    bounds = bounds or Bounds()
    times = [wall for wall in _walls(fields, first, end) if _may_fire(wall, zone, change, bounds)]
    if not times:
        return None
    is_gap = change.after > change.before
    usual = _usual(fields, zone, change, bounds)
    if not fields.is_fixed_time:
        that_day = usual - len(times) if is_gap else usual + len(times)
        return Touch(
            Effect.FEWER if is_gap else Effect.MORE,
            tuple(times),
            None,
            usual,
            that_day,
            f"fires {that_day:,} instead of {usual:,} times that day: {_how(times, is_gap=is_gap)}",
        )
    if not is_gap:
        at = dst.instants_of(zone, times[0])[0]
        word = "at" if len(times) == 1 else "from"
        says = f"{_how(times, is_gap=False)}: it fires the first time only, {word} {_clock(at, zone)}"
        return Touch(Effect.ONCE, tuple(times), at, usual, usual, says)
    return _moved(fields, zone, change, times, usual)


def odd_hours(change: dst.Change) -> tuple[datetime, datetime]:
    """The wall-clock times that are skipped or come twice: from the first, up to but without the second."""
    first, end = change.skips
    return min(first, end), max(first, end)


def shifts_against_utc(fields: Fields, change: dst.Change) -> bool:
    """Whether its fires come at other times of UTC from then on; not if each hour of each day is like the next."""
    days = (fields.day, fields.month, fields.weekday)
    if not fields.hour.is_every or not all(field.is_every for field in days):
        return True
    shift = round((change.after - change.before).total_seconds())
    within_the_hour = {minute * 60 + second for minute in fields.minute.values for second in fields.second.values}
    return within_the_hour != {(place + shift) % _HOUR_SECONDS for place in within_the_hour}


def _moved(fields: Fields, zone: ZoneInfo, change: dst.Change, times: Sequence[datetime], usual: int) -> Touch:
    _, end = odd_hours(change)
    has_own = any(_walls(fields, end, end + _SECOND))
    at, how = _clock(change.instant, zone), _how(times, is_gap=True)
    if has_own:
        says = f"{how}, and {'falls' if len(times) == 1 else 'fall'} together with its fire at {at}"
    else:
        says = f"{how}: it fires {'' if len(times) == 1 else 'once '}at {at} instead"
    that_day = usual - len(times) + (0 if has_own else 1)
    return Touch(Effect.MOVED, tuple(times), change.instant, usual, that_day, says)


def _may_fire(wall: datetime, zone: ZoneInfo, change: dst.Change, bounds: Bounds) -> bool:
    if bounds == Bounds():
        return True
    instants = dst.instants_of(zone, wall) or (change.instant,)
    return any(bounds.hold(instant) for instant in instants)


def _usual(fields: Fields, zone: ZoneInfo, change: dst.Change, bounds: Bounds) -> int:
    """How many of its times lie in the day, or days, that the change belongs to."""
    first, end = odd_hours(change)
    day, days = first.date(), (_last_day(end) - first.date()).days + 1
    if bounds == Bounds():
        a_day = len(fields.hour.values) * len(fields.minute.values) * len(fields.second.values)
        return a_day * sum(fields.falls_on(day + number * _DAY) for number in range(days))
    midnight = datetime.combine(day, datetime.min.time())
    return sum(_may_fire(wall, zone, change, bounds) for wall in _walls(fields, midnight, midnight + days * _DAY))


def _last_day(end: datetime) -> date:
    return (end - _SECOND).date()


def _walls(fields: Fields, first: datetime, end: datetime) -> Iterator[datetime]:
    """Its times in a calendar without clock changes, in order: from the first moment, up to but without the end."""
    day = first.date()
    while day <= _last_day(end):
        if fields.falls_on(day):
            for wall in _times_of_day(fields, day, first, end):
                if first <= wall < end:
                    yield wall
        day += _DAY


def _times_of_day(fields: Fields, day: date, first: datetime, end: datetime) -> Iterator[datetime]:
    """Without the hours that lie outside: most schedules have one."""
    for hour in fields.hour.values:
        start = datetime(day.year, day.month, day.day, hour)  # noqa: DTZ001 - what the clocks on the wall show
        if start + timedelta(hours=1) <= first or start >= end:
            continue
        for minute in fields.minute.values:
            for second in fields.second.values:
                yield start.replace(minute=minute, second=second)


def _how(times: Sequence[datetime], *, is_gap: bool) -> str:
    if len(times) > _LISTED:
        named = f"{_time(times[0])} to {_time(times[-1])}"
    else:
        named = joined([_time(wall) for wall in times])
    if len(times) == 1:
        return f"{named} {'does not exist' if is_gap else 'comes twice'}"
    return f"{named} {'do not exist' if is_gap else 'come twice'}"


def _time(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"


def _clock(instant: datetime, zone: ZoneInfo) -> str:
    local, utc = instant.astimezone(zone), instant.astimezone(UTC)
    return f"{_time(local)} {local:%Z} ({_time(utc)} UTC)"
