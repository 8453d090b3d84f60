"""Cron where clocks change.

Two kinds of proof: instants written out by hand for the cases that people ask about, and an oracle that follows a
zone's real wall clock minute by minute.
"""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from jobs import dst
from jobs.recurrence import Cron
from tests.unit.fire_times import fires, utc

MINUTE = timedelta(minutes=1)


# ── The spring gap ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("zone", "expression", "start", "following"),
    [
        ("America/New_York", "30 2 * * *", "2027-03-13 12:00", ["2027-03-14 07:00", "2027-03-15 06:30"]),
        ("Europe/Berlin", "30 2 * * *", "2027-03-27 12:00", ["2027-03-28 01:00", "2027-03-29 00:30"]),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03 12:00", ["2026-10-03 15:30", "2026-10-04 15:15"]),
        ("America/Santiago", "0 0 * * *", "2026-09-05 12:00", ["2026-09-06 04:00", "2026-09-07 03:00"]),
    ],
)
def test_a_fixed_time_in_the_gap_fires_once_right_after_it(
    zone: str, expression: str, start: str, following: list[str]
) -> None:
    assert fires(expression, zone, start, 2) == [utc(text) for text in following]


def test_several_fixed_times_in_one_gap_are_one_fire() -> None:
    found = fires("0,20,40 2,3 * * *", "America/New_York", "2027-03-14 06:59", 4)
    assert found == [utc(f"2027-03-14 {time}") for time in ("07:00", "07:20", "07:40")] + [utc("2027-03-15 06:00")]


def test_a_wildcard_passes_over_the_gap() -> None:
    assert fires("*/30 * * * *", "America/New_York", "2027-03-14 06:00", 3) == [
        utc("2027-03-14 06:30"),
        utc("2027-03-14 07:00"),  # 03:00, since 02:00 and 02:30 were not
        utc("2027-03-14 07:30"),
    ]


def test_a_fixed_time_on_a_day_that_was_skipped_fires_once_right_after_it() -> None:
    # Samoa went from the end of 29 December 2011 straight to 31 December.
    assert fires("0 9 * * *", "Pacific/Apia", "2011-12-29 00:00", 3) == [
        utc("2011-12-29 19:00"),
        utc("2011-12-30 10:00"),  # for the 30th, at the first instant of the 31st
        utc("2011-12-30 19:00"),
    ]


# ── The repeated hour ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("zone", "expression", "start", "following"),
    [
        ("America/New_York", "30 1 * * *", "2026-10-31 12:00", ["2026-11-01 05:30", "2026-11-02 06:30"]),
        ("Europe/Berlin", "30 2 * * *", "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2027-04-03 12:00", ["2027-04-03 14:45", "2027-04-04 15:15"]),
        ("America/Santiago", "30 23 * * 6", "2027-04-03 12:00", ["2027-04-04 02:30", "2027-04-11 03:30"]),
    ],
)
def test_a_fixed_time_in_the_repeated_hour_fires_the_first_time_only(
    zone: str, expression: str, start: str, following: list[str]
) -> None:
    assert fires(expression, zone, start, 2) == [utc(text) for text in following]


@pytest.mark.parametrize("asked_from", ["2026-11-01 06:00", "2026-11-01 06:10", "2026-11-01 06:59:59.5"])
def test_asked_from_inside_the_second_pass_a_fixed_time_waits_for_the_next_day(asked_from: str) -> None:
    assert fires("30 1 * * *", "America/New_York", asked_from, 1) == [utc("2026-11-02 06:30")]


def test_a_wildcard_fires_in_both_passes() -> None:
    found = fires("*/10 * * * *", "America/New_York", "2026-11-01 05:55", 7)  # from 01:55 EDT
    assert found == [utc("2026-11-01 06:00") + n * 10 * MINUTE for n in range(7)]  # 01:00 EST to 02:00 EST


def test_a_wildcard_minute_in_a_fixed_hour_fires_in_both_passes() -> None:
    found = fires("*/30 1 * * *", "America/New_York", "2026-11-01 04:00", 5)
    assert found == [utc(f"2026-11-01 0{time}") for time in ("5:00", "5:30", "6:00", "6:30")] + [
        utc("2026-11-02 06:00")
    ]


# ── The oracle: minute by minute over the real wall clock ────────────────────────────────────────────────────────

CHANGES = [
    ("America/New_York", "2026-11-01 06:00"),
    ("America/New_York", "2027-03-14 07:00"),
    ("Europe/Berlin", "2026-10-25 01:00"),
    ("Europe/Berlin", "2027-03-28 01:00"),
    ("Europe/Dublin", "2027-03-28 01:00"),  # summer is the standard time here, and winter the exception
    ("Australia/Lord_Howe", "2026-10-03 15:30"),  # half an hour forward
    ("Australia/Lord_Howe", "2027-04-03 15:00"),  # half an hour back
    ("America/Santiago", "2026-09-06 04:00"),  # midnight does not exist
    ("America/Santiago", "2027-04-04 03:00"),  # the hour before midnight comes twice
    ("Antarctica/Troll", "2027-03-28 01:00"),  # two hours
    ("Pacific/Apia", "2011-12-30 10:00"),  # a whole day does not exist
    ("Asia/Kathmandu", "1985-12-31 18:30"),  # a quarter of an hour, at midnight of the new year
]
EXPRESSIONS = [
    "30 2 * * *",
    "0 0 * * *",
    "15,45 1-3 * * *",
    "0-59/20 0,2,23 * * *",
    "5 */2 * * *",
    "*/10 1 * * *",
    "*/7 * * * *",
    "30 * * * *",
    "0 3 */2 * 0",
    "45 23,1 30 * 6",
]


@cache
def wall_clock(zone: str, change: str) -> tuple[tuple[datetime, datetime], ...]:
    """Each minute of the two days before and after a change, as instant and as what the clocks on the wall show."""
    start, local = utc(change) - timedelta(days=2), ZoneInfo(zone)
    instants = (start + n * MINUTE for n in range(4 * 24 * 60))
    return tuple((instant, instant.astimezone(local).replace(tzinfo=None, fold=0)) for instant in instants)


def values(field: str, low: int, high: int) -> set[int]:
    """What a cron field stands for: `*`, numbers, ranges, steps and lists of these."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin, end = (low, high) if span == "*" else (int(first), int(last or first))
        found.update(range(begin, end + 1, int(step or 1)))
    return found


class Pattern:
    """A cron expression, read without croniter."""

    def __init__(self, expression: str) -> None:
        minute, hour, day, month, weekday = expression.split()
        self.is_fixed_time = not minute.startswith("*") and not hour.startswith("*")
        self.needs_both_days = day.startswith("*") or weekday.startswith("*")
        self.minutes, self.hours = values(minute, 0, 59), values(hour, 0, 23)
        self.days, self.months, self.weekdays = values(day, 1, 31), values(month, 1, 12), values(weekday, 0, 6)

    def matches(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        is_day, is_weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (is_day and is_weekday) if self.needs_both_days else (is_day or is_weekday)


def expected_fires(expression: str, zone: str, change: str) -> Iterator[datetime]:
    pattern = Pattern(expression)
    (_, latest), *rest = wall_clock(zone, change)
    for instant, wall in rest:
        if not pattern.is_fixed_time:
            is_fire = pattern.matches(wall)
        else:  # the minutes that the clocks reach for the first time: none in a second pass, many after a gap
            reached = range(1, (wall - latest) // MINUTE + 1)
            is_fire = any(pattern.matches(latest + n * MINUTE) for n in reached)
        latest = max(latest, wall)
        if is_fire:
            yield instant


def moments_to_ask_from(zone: str, change: str, expected: list[datetime]) -> Iterator[datetime]:
    instants = [instant for instant, _ in wall_clock(zone, change)]
    yield from instants[::240]
    yield from (instant + timedelta(seconds=31, microseconds=7) for instant in instants[20::290])
    for turn in (utc(change), *expected[:: len(expected) // 6 + 1]):
        yield from (turn - timedelta(microseconds=1), turn, turn + timedelta(microseconds=1))


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_the_oracle_looks_at_a_real_clock_change(zone: str, change: str) -> None:
    local, instant = ZoneInfo(zone), utc(change)
    assert (instant - MINUTE).astimezone(local).utcoffset() != instant.astimezone(local).utcoffset()


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_around_a_clock_change_every_fire_is_the_oracles(zone: str, change: str, expression: str) -> None:
    cron = Cron(expression, zone)
    expected = list(expected_fires(expression, zone, change))
    last_minute = wall_clock(zone, change)[-1][0]
    for moment in moments_to_ask_from(zone, change, expected):
        following = cron.next_after(moment)
        index = bisect_right(expected, moment)
        if index < len(expected):
            assert following == expected[index], f"asked from {moment}"
        else:
            assert following is not None, f"asked from {moment}"
            assert following > last_minute, f"asked from {moment}"


# ── A zone's clock changes ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("zone", "wall", "instants"),
    [
        ("Europe/Berlin", "2026-06-15 12:00", ["2026-06-15 10:00"]),
        ("Europe/Berlin", "2027-03-28 02:30", []),
        ("Europe/Berlin", "2026-10-25 02:30", ["2026-10-25 00:30", "2026-10-25 01:30"]),
    ],
)
def test_a_wall_clock_time_comes_once_never_or_twice(zone: str, wall: str, instants: list[str]) -> None:
    found = dst.instants_of(ZoneInfo(zone), datetime.fromisoformat(wall))
    assert found == tuple(utc(text) for text in instants)


def test_the_next_change_is_strictly_after_the_instant_and_may_lie_in_the_next_year() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    autumn, spring = utc("2026-10-25 01:00"), utc("2027-03-28 01:00")
    hour = timedelta(hours=1)
    assert dst.next_change(berlin, autumn - timedelta(seconds=1)) == dst.Change(autumn, 2 * hour, hour)
    assert dst.next_change(berlin, autumn) == dst.Change(spring, hour, 2 * hour)
    assert dst.next_change(ZoneInfo("UTC"), autumn) is None
