"""Moments and durations as people type them: what is meant, and what is refused."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.models import Kind, Schedule
from jobs.refusals import InvalidRun
from terminal.moments import ago, ahead, clock, duration_of, moment_of, zone_of

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)
HOSTILE = [
    "",
    " ",
    "soon",
    "-1h",
    "+1h",
    "1.5h",
    "1h30m",
    "2H",
    "1 hour",
    "٣h",
    "²",
    "0x10",
    "1e3",
    "inf",
    "nan",
    "\x00",
    "\x1b[31m",
    "9999999999",
    "2026-13-01",
    "2026-02-30",
    "2026-11-01T25:00",
    "2026-11-01 07:30 Europe/Berlin",
    "0000-01-01",
    "10000-01-01",
    "x" * 10_000,
]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("90s", 90),
        ("15m", 900),
        ("15min", 900),
        ("2h", 7200),
        ("3d", 259_200),
        ("1w", 604_800),
        (" 2 h ", 7200),
        ("007", 7),
        ("1h\n", 3600),
        ("999999999", 999_999_999),
    ],
)
def test_a_duration_is_seconds_or_has_a_unit(text: str, seconds: int) -> None:
    assert duration_of("every", text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRun) as refused:
        duration_of("every", text)
    said = str(refused.value)
    assert said.startswith("--every '")
    assert said.endswith("is no duration; write one such as 90s, 15m, 2h or 3d.")
    assert said.isprintable()
    assert len(said) < 200
    assert refused.value.field == "every"


def test_a_duration_beyond_any_calendar_is_refused() -> None:
    with pytest.raises(InvalidRun, match=r"^--every '999999999w' is longer than any calendar; choose a shorter one\.$"):
        duration_of("every", "999999999w")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("20261101", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T07:30", datetime(2026, 11, 1, 7, 30, tzinfo=UTC)),
        ("2026-11-01 07:30:15", datetime(2026, 11, 1, 7, 30, 15, tzinfo=UTC)),
        ("2026-11-01T07:30Z", datetime(2026, 11, 1, 7, 30, tzinfo=UTC)),
        ("2026-11-01T07:30+02:00", datetime(2026, 11, 1, 5, 30, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_date_or_a_date_with_a_time(text: str, moment: datetime) -> None:
    assert moment_of("at", text) == moment


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_moment_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRun) as refused:
        moment_of("at", text)
    said = str(refused.value)
    assert said.startswith("--at '")
    assert said.endswith("is no moment; write a date such as 2026-11-01, or 2026-11-01T07:30.")
    assert said.isprintable()
    assert len(said) < 250


def test_without_an_offset_the_clocks_of_the_zone_are_meant() -> None:
    assert moment_of("at", "2026-11-01T07:30", BERLIN) == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    assert moment_of("at", "2026-07-01", BERLIN) == datetime(2026, 6, 30, 22, tzinfo=UTC)
    assert moment_of("at", "2026-07-01T00:00Z", BERLIN) == datetime(2026, 7, 1, tzinfo=UTC)


def test_a_day_that_ends_a_range_is_meant_whole() -> None:
    assert moment_of("to", "2026-11-01", is_end=True) == datetime(2026, 11, 1, 23, 59, 59, 999_999, tzinfo=UTC)
    # The day of the change has 25 hours.
    start, end = (moment_of("to", "2026-10-25", BERLIN, is_end=is_end) for is_end in (False, True))
    assert end - start == timedelta(hours=25) - timedelta(microseconds=1)


def test_a_repeated_hour_begins_with_its_first_and_ends_with_its_second() -> None:
    first, second = (moment_of("to", "2026-10-25T02:30", BERLIN, is_end=is_end) for is_end in (False, True))
    assert (first, second) == (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC))


def test_a_time_that_clocks_leave_out_is_when_they_go_on() -> None:
    assert moment_of("at", "2026-03-29T02:30", BERLIN) == datetime(2026, 3, 29, 1, tzinfo=UTC)


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"])
def test_what_lies_beyond_the_calendar_in_utc_is_refused(text: str) -> None:
    with pytest.raises(InvalidRun, match="is no moment"):
        moment_of("at", text)


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31", "0001-01-01T00:00", "9999-12-31T23:59:59"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "America/Adak"])
@pytest.mark.parametrize("is_end", [False, True])
def test_the_ends_of_the_calendar_are_a_moment_or_refused(text: str, zone: str, is_end: bool) -> None:
    with suppress(InvalidRun):
        assert moment_of("at", text, ZoneInfo(zone), is_end=is_end).astimezone(UTC).tzinfo is UTC


def test_ago_and_ahead_are_from_now_or_a_moment() -> None:
    assert ago("since", "2h", now=NOW) == NOW - timedelta(hours=2)
    assert ahead("until", "2h", now=NOW) == NOW + timedelta(hours=2)
    assert ahead("until", " 2h ", now=NOW) == NOW + timedelta(hours=2)
    assert ago("since", "90", now=NOW) == NOW - timedelta(seconds=90)
    assert (
        ago("since", "2026-11-01", now=NOW)
        == ahead("until", "2026-11-01", now=NOW)
        == datetime(2026, 11, 1, tzinfo=UTC)
    )
    assert ahead("at", "2026-11-01T07:30", now=NOW, zone=BERLIN) == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["99999999w", "999999999w"])
def test_further_than_the_calendar_is_refused_both_ways(text: str) -> None:
    for way in (ago, ahead):
        with pytest.raises(InvalidRun, match="is longer than any calendar; choose a shorter one"):
            way("since", text, now=NOW)


@given(st.text(max_size=40))
def test_any_text_is_understood_or_refused_in_a_sentence(text: str) -> None:
    for said in (
        lambda: duration_of("at", text) >= timedelta(),
        lambda: moment_of("at", text).tzinfo is not None,
        lambda: ago("at", text, now=NOW).tzinfo is not None,
        lambda: ahead("at", text, now=NOW).tzinfo is not None,
    ):
        with suppress(InvalidRun):
            assert said()


@given(st.datetimes().filter(lambda wall: 1950 < wall.year < 9999), st.sampled_from(["UTC", "Asia/Kolkata"]))
def test_what_the_clock_shows_is_read_as_the_same_moment(wall: datetime, zone: str) -> None:
    moment = moment_of("at", wall.isoformat(), ZoneInfo(zone))
    assert moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wall


def test_the_clock_tells_both_times_where_they_differ() -> None:
    assert clock(NOW) == "2026-11-18 12:30:00 UTC"
    assert clock(NOW, BERLIN) == "2026-11-18 13:30:00 CET (2026-11-18 12:30:00 UTC)"
    assert clock(None) == "-"


def test_only_a_readable_cron_has_a_zone_of_its_own() -> None:
    cron = Schedule(kind=Kind.CRON, expression="0 7 * * *", timezone="Europe/Berlin")
    assert zone_of(None).key == "UTC"
    assert zone_of(Schedule(kind=Kind.EVERY, expression="60", timezone="Europe/Berlin", anchor_at=NOW)).key == "UTC"
    cron.timezone = "Mars/Olympus"
    assert zone_of(cron).key == "UTC"
