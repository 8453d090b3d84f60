"""What cron should do, told by walking a zone's real wall clock minute by minute. Shares no code with jobs.

The rule is Debian's: a fixed-time job (neither minute nor hour begins with `*`) fires when its wall-clock time is first
reached: in a gap once, right after it, and in a repeated hour in the first pass only. Any other job fires whenever the
clocks show its time.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from zoneinfo import ZoneInfo

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NUMBERS = {name: str(number) for number, name in [*enumerate(MONTH_NAMES, 1), *enumerate(WEEKDAY_NAMES)]}


def number(text: str) -> int:
    return int(NUMBERS.get(text, text))


def hashed(key: str, name: str) -> int:
    return int(sha256(f"{key}\0{name}".encode()).hexdigest()[:16], 16)


def values(text: str, low: int, high: int, hash_of_key: int) -> set[int]:
    """What the plain items of a field stand for: `*`, numbers, names, ranges, steps, `H` and lists of these."""
    found: set[int] = set()
    for item in text.split(","):
        if "#" in item or "l" in item.replace("jul", ""):
            continue
        span, _, step = item.partition("/")
        if span.startswith("h"):
            first, last = span[2:-1].split("-") if "(" in span else (str(low), str(28 if high == 31 else high))
            if step:
                found.update(range(int(first) + hash_of_key % int(step), int(last) + 1, int(step)))
            else:
                found.add(int(first) + hash_of_key % (int(last) - int(first) + 1))
            continue
        if span in ("*", "?"):
            begin, end = low, high
        else:
            ends = span.split("-")
            begin = number(ends[0])
            end = number(ends[1]) if len(ends) == 2 else (high if step else begin)
        every = [*range(begin, end + 1)] if begin <= end else [*range(begin, high + 1), *range(low, end + 1)]
        found.update(every[:: int(step or 1)])
    return found


class Pattern:
    """A cron expression, read on its own."""

    def __init__(self, expression: str, key: str = "") -> None:
        texts = expression.lower().split()
        second, minute, hour, day, month, weekday = texts if len(texts) == 6 else ["0", *texts]
        self.is_fixed_time = not minute.startswith("*") and not hour.startswith("*")
        self.needs_both_days = day.startswith(("*", "?")) or weekday.startswith(("*", "?"))
        self.seconds = sorted(values(second, 0, 59, hashed(key, "second")))
        self.minutes = values(minute, 0, 59, hashed(key, "minute"))
        self.hours = values(hour, 0, 23, hashed(key, "hour"))
        self.days = values(day, 1, 31, hashed(key, "day of month"))
        self.has_last_day = "l" in day.split(",")
        self.months = values(month, 1, 12, hashed(key, "month"))
        self.weekdays = {value % 7 for value in values(weekday, 0, 6, hashed(key, "weekday"))}
        self.special_weekdays = [item for item in weekday.split(",") if "#" in item or "l" in item]
        self._dates: dict[date, bool] = {}

    def matches_minute(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.matches_date(wall.date())

    def matches_date(self, day: date) -> bool:
        if day not in self._dates:
            is_day = day.day in self.days or (self.has_last_day and (day + DAY).day == 1)
            is_weekday = day.isoweekday() % 7 in self.weekdays
            is_weekday = is_weekday or any(is_special(day, item) for item in self.special_weekdays)
            matches = (is_day and is_weekday) if self.needs_both_days else (is_day or is_weekday)
            self._dates[day] = matches and day.month in self.months
        return self._dates[day]


def is_special(day: date, item: str) -> bool:
    """Whether a date is the nth or the last of its weekday in its month: `5#3`, `5l`, `l5`."""
    weekday, _, nth = item.partition("#")
    if number(weekday.strip("l")) % 7 != day.isoweekday() % 7:
        return False
    return (day.day + 6) // 7 == int(nth) if nth else (day + 7 * DAY).month != day.month


@lru_cache(maxsize=1000)
def walls_of_day(zone: str, day: date) -> tuple[datetime, ...]:
    """What the clocks on the wall show at each minute of a UTC day."""
    midnight, local = datetime(day.year, day.month, day.day, tzinfo=UTC), ZoneInfo(zone)
    walls = tuple((midnight + n * MINUTE).astimezone(local).replace(tzinfo=None, fold=0) for n in range(24 * 60))
    assert walls[0].second == walls[-1].second == 0, "the oracle walks by whole minutes"
    return walls


def fires(expression: str, zone: str, start: datetime, end: datetime, key: str = "") -> Iterator[datetime]:
    """All fires after one moment and before another."""
    pattern, day = Pattern(expression, key), start.astimezone(UTC).date()
    while day <= end.date():
        # A day on the wall may be another than in UTC, and a gap may swallow a whole one.
        if any(pattern.matches_date(day + n * DAY) for n in (-2, -1, 0, 1, 2)):
            yield from (fire for fire in _fires_of_day(pattern, zone, day) if start < fire < end)
        day += DAY


def _fires_of_day(pattern: Pattern, zone: str, day: date) -> Iterator[datetime]:
    latest = max(walls_of_day(zone, day - DAY))
    instant = datetime(day.year, day.month, day.day, tzinfo=UTC)
    for wall in walls_of_day(zone, day):
        is_reached = wall > latest
        if pattern.is_fixed_time:
            skipped = (latest + n * MINUTE for n in range(1, (wall - latest) // MINUTE))
            in_gap = any(map(pattern.matches_minute, skipped))
        else:
            is_reached, in_gap = True, False
        seconds = pattern.seconds if is_reached and pattern.matches_minute(wall) else []
        yield from (instant + timedelta(seconds=second) for second in sorted({*seconds, *([0] if in_gap else [])}))
        latest, instant = max(latest, wall), instant + MINUTE
