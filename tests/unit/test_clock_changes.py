"""Cron where clocks change.

Two kinds of proof: instants written out by hand for the cases that people ask about, and an oracle that follows a
zone's real wall clock minute by minute.
"""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobs import dst
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidSchedule
from tests.unit import cron_oracle
from tests.unit.clock_changes import CHANGES
from tests.unit.fire_times import fires, utc

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


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


@pytest.mark.parametrize("hour", [0, 11, 13, 23])
def test_any_fixed_time_on_a_day_that_was_skipped_fires_right_after_it(hour: int) -> None:
    assert fires(f"0 {hour} * * *", "Pacific/Apia", "2011-12-30 09:59:59", 1) == [utc("2011-12-30 10:00")]


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


def moments_to_ask_from(change: datetime, expected: list[datetime]) -> Iterator[datetime]:
    start = change - 2 * DAY
    yield from (start + n * 240 * MINUTE for n in range(24))
    yield from (start + timedelta(minutes=20 + n * 290, seconds=31, microseconds=7) for n in range(19))
    for turn in (change, *expected[:: len(expected) // 6 + 1]):
        yield from (turn - timedelta(microseconds=1), turn, turn + timedelta(microseconds=1))


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_the_oracle_looks_at_a_real_clock_change(zone: str, change: str) -> None:
    local, instant = ZoneInfo(zone), utc(change)
    assert (instant - MINUTE).astimezone(local).utcoffset() != instant.astimezone(local).utcoffset()


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_around_a_clock_change_every_fire_is_the_oracles(zone: str, change: str, expression: str) -> None:
    cron, end = Cron(expression, zone), utc(change) + 2 * DAY
    expected = list(cron_oracle.fires(expression, zone, utc(change) - 2 * DAY, end))
    for moment in moments_to_ask_from(utc(change), expected):
        following = cron.next_after(moment)
        index = bisect_right(expected, moment)
        if index < len(expected):
            assert following == expected[index], f"asked from {moment}"
        else:
            assert following is not None, f"asked from {moment}"
            assert following >= end, f"asked from {moment}"


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
    later = autumn + timedelta(days=400)
    assert dst.next_change(berlin, autumn - timedelta(seconds=1), until=later) == dst.Change(autumn, 2 * hour, hour)
    assert dst.next_change(berlin, autumn, until=later) == dst.Change(spring, hour, 2 * hour)
    assert dst.next_change(berlin, autumn, until=spring) == dst.Change(spring, hour, 2 * hour)
    assert dst.next_change(berlin, autumn, until=spring - timedelta(seconds=1)) is None
    assert dst.next_change(ZoneInfo("UTC"), autumn, until=later) is None


def test_an_instant_may_lie_between_two_changes_that_are_a_week_apart() -> None:
    # Recife began its summer time on 8 October 2000, and ended it on the 15th.
    recife, hour = ZoneInfo("America/Recife"), timedelta(hours=1)
    begin, end = utc("2000-10-08 03:00"), utc("2000-10-15 02:00")
    assert dst.changes_in_year(recife, 2000)[-2:] == (
        dst.Change(begin, -3 * hour, -2 * hour),
        dst.Change(end, -2 * hour, -3 * hour),
    )
    assert dst.next_change(recife, begin - hour, until=end + hour) == dst.Change(begin, -3 * hour, -2 * hour)


@pytest.mark.parametrize(
    ("wall", "end"), [("2027-03-28 02:00", "2027-03-28 01:00"), ("2027-03-28 02:59:59", "2027-03-28 01:00")]
)
def test_a_gap_ends_with_the_change(wall: str, end: str) -> None:
    assert dst.end_of_gap(ZoneInfo("Europe/Berlin"), datetime.fromisoformat(wall)) == utc(end)


@pytest.mark.parametrize("wall", ["2027-03-28 01:59:59", "2027-03-28 03:00", "2026-10-25 02:30"])
def test_a_time_that_exists_is_in_no_gap(wall: str) -> None:
    with pytest.raises(ValueError, match="exists in Europe/Berlin"):
        dst.end_of_gap(ZoneInfo("Europe/Berlin"), datetime.fromisoformat(wall))


# ── Moments of one zone ──────────────────────────────────────────────────────────────────────────────────────────
# Python compares and subtracts two moments of the same ZoneInfo by their wall clocks, whatever their folds.

NEW_YORK = ZoneInfo("America/New_York")
FIRST_PASS = datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK)  # 05:30 UTC
SECOND_PASS = FIRST_PASS.replace(fold=1)  # 06:30 UTC


def test_python_takes_both_passes_for_the_same_moment() -> None:
    assert FIRST_PASS.astimezone(UTC) != SECOND_PASS.astimezone(UTC)
    assert FIRST_PASS == SECOND_PASS
    assert not FIRST_PASS < SECOND_PASS


def test_an_instant_in_the_second_pass_comes_after_the_first() -> None:
    assert Once(SECOND_PASS).next_after(FIRST_PASS) == utc("2026-11-01 06:30")
    assert Once(SECOND_PASS).next_after(SECOND_PASS.replace(minute=29)) == utc("2026-11-01 06:30")
    assert Once(SECOND_PASS).next_after(SECOND_PASS) is None
    assert Once(FIRST_PASS).next_after(SECOND_PASS.replace(minute=10)) is None
    assert Once(FIRST_PASS.replace(minute=40)).next_after(SECOND_PASS) is None


def test_an_interval_tells_the_passes_apart() -> None:
    half_hourly = Every(1800, FIRST_PASS)
    assert half_hourly.next_after(FIRST_PASS) == utc("2026-11-01 06:00")
    assert half_hourly.next_after(SECOND_PASS) == utc("2026-11-01 07:00")
    assert half_hourly.next_after(SECOND_PASS.replace(minute=10)) == utc("2026-11-01 06:30")
    three_hourly = Every(3 * 3600, datetime(2026, 10, 31, 23, 30, tzinfo=NEW_YORK))  # before the change, 03:30 UTC
    assert three_hourly.next_after(FIRST_PASS) == utc("2026-11-01 06:30")
    assert three_hourly.next_after(SECOND_PASS) == utc("2026-11-01 09:30")
    assert Every(3600, SECOND_PASS).next_after(SECOND_PASS) == utc("2026-11-01 07:30")


def test_a_cron_tells_the_passes_apart() -> None:
    quarterly = Cron("*/15 * * * *", "America/New_York")
    for _ in range(2):  # from memory, too
        assert quarterly.next_after(FIRST_PASS) == utc("2026-11-01 05:45")
        assert quarterly.next_after(SECOND_PASS) == utc("2026-11-01 06:45")
    hourly = Cron("40 * * * *", "America/New_York")
    assert hourly.next_after(FIRST_PASS.replace(minute=50)) == utc("2026-11-01 06:40")
    assert hourly.next_after(SECOND_PASS.replace(minute=45)) == utc("2026-11-01 07:40")
    assert hourly.next_after(FIRST_PASS) == utc("2026-11-01 05:40")
    nightly = Cron("45 1 * * *", "America/New_York")
    assert nightly.next_after(FIRST_PASS) == utc("2026-11-01 05:45")
    assert nightly.next_after(SECOND_PASS) == utc("2026-11-02 06:45")


def test_bounds_tell_the_passes_apart() -> None:
    from_the_second = Within(Every(600, FIRST_PASS), start=SECOND_PASS)
    assert from_the_second.next_after(FIRST_PASS) == utc("2026-11-01 06:30")
    assert from_the_second.next_after(FIRST_PASS.replace(minute=50)) == utc("2026-11-01 06:30")
    assert from_the_second.next_after(SECOND_PASS) == utc("2026-11-01 06:40")
    to_the_first = Within(Every(600, FIRST_PASS), end=FIRST_PASS)
    assert to_the_first.next_after(FIRST_PASS.replace(minute=20)) == utc("2026-11-01 05:30")
    assert to_the_first.next_after(SECOND_PASS.replace(minute=0)) is None
    to_the_second = Within(Every(600, FIRST_PASS), end=SECOND_PASS.replace(minute=10))
    assert to_the_second.next_after(FIRST_PASS.replace(minute=55)) == utc("2026-11-01 06:00")
    assert Within(Once(SECOND_PASS), FIRST_PASS, SECOND_PASS).next_after(FIRST_PASS) == utc("2026-11-01 06:30")


def test_an_end_in_the_first_pass_comes_before_a_start_in_the_second() -> None:
    Within(Every(600, FIRST_PASS), start=FIRST_PASS.replace(minute=50), end=SECOND_PASS)
    with pytest.raises(InvalidSchedule) as refusal:
        Within(Every(600, FIRST_PASS), start=SECOND_PASS, end=FIRST_PASS.replace(minute=50))
    assert refusal.value.field == "end"
