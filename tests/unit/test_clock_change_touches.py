"""What a clock change does to a schedule: it is told of each that it touches, and of no other."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs import cron, dst
from jobs.clock_changes import Bounds, Effect, changes, odd_hours, shifts_against_utc, touch
from jobs.recurrence import Cron
from tests.unit import cron_oracle
from tests.unit.clock_changes import CHANGES
from tests.unit.fire_times import utc

DAY = timedelta(days=1)
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def the_change(zone: str, day: str) -> dst.Change:
    """The first one after the start of that day."""
    start = utc(day)
    change = dst.next_change(dst.zone_named(zone), start, until=start + 2 * DAY)
    assert change is not None
    return change


def told(expression: str, zone: str, day: str) -> tuple[str, str] | None:
    found = touch(cron.parse(expression), dst.zone_named(zone), the_change(zone, day))
    return None if found is None else (found.effect.value, found.says)


@pytest.mark.parametrize(
    ("expression", "zone", "day", "effect", "says"),
    [
        (
            *("30 2 * * *", BERLIN, "2027-03-27", "MOVED"),
            "02:30 does not exist: it fires at 03:00 CEST (01:00 UTC) instead",
        ),
        (
            *("0,30 2 * * *", BERLIN, "2027-03-27", "MOVED"),
            "02:00 and 02:30 do not exist: it fires once at 03:00 CEST (01:00 UTC) instead",
        ),
        (
            *("0 2,3 * * *", BERLIN, "2027-03-27", "MOVED"),
            "02:00 does not exist, and falls together with its fire at 03:00 CEST (01:00 UTC)",
        ),
        (
            *("30 2 * * *", BERLIN, "2027-10-30", "ONCE"),
            "02:30 comes twice: it fires the first time only, at 02:30 CEST (00:30 UTC)",
        ),
        (
            *("0 * * * *", BERLIN, "2027-03-27", "FEWER"),
            "fires 23 instead of 24 times that day: 02:00 does not exist",
        ),
        ("0 * * * *", BERLIN, "2027-10-30", "MORE", "fires 25 instead of 24 times that day: 02:00 comes twice"),
        (
            *("*/5 * * * *", BERLIN, "2027-10-30", "MORE"),
            "fires 300 instead of 288 times that day: 02:00 to 02:55 come twice",
        ),
        (
            *("15 1 * * *", NEW_YORK, "2027-11-07", "ONCE"),
            "01:15 comes twice: it fires the first time only, at 01:15 EDT (05:15 UTC)",
        ),
        (
            *("15 2 * * *", "Australia/Lord_Howe", "2027-10-02", "MOVED"),  # by half an hour
            "02:15 does not exist: it fires at 02:30 +11 (15:30 UTC) instead",
        ),
        (
            *("0 0 * * *", "Africa/Cairo", "2027-04-29", "MOVED"),  # midnight does not exist
            "00:00 does not exist: it fires at 01:00 EEST (22:00 UTC) instead",
        ),
        (
            *("0 0 * * *", "America/Santiago", "2027-09-04", "MOVED"),
            "00:00 does not exist: it fires at 01:00 -03 (04:00 UTC) instead",
        ),
        (
            *("30 23 * * *", "America/Santiago", "2027-04-03", "ONCE"),
            "23:30 comes twice: it fires the first time only, at 23:30 -03 (02:30 UTC)",
        ),
        (
            *("15 30 2 * * *", BERLIN, "2027-03-27", "MOVED"),
            "02:30:15 does not exist: it fires at 03:00 CEST (01:00 UTC) instead",
        ),
    ],
)
def test_what_is_different_about_that_night_is_said(
    expression: str, zone: str, day: str, effect: str, says: str
) -> None:
    assert told(expression, zone, day) == (effect, says)


@pytest.mark.parametrize(
    ("expression", "zone", "day"),
    [
        ("0 3 * * *", BERLIN, "2027-03-27"),
        ("59 1 * * *", BERLIN, "2027-03-27"),
        ("30 2 * * 1", BERLIN, "2027-03-27"),  # a Sunday
        ("30 2 1 * *", BERLIN, "2027-10-30"),
        ("45 2 * * *", "Australia/Lord_Howe", "2027-10-02"),
        ("*/10 9-17 * * *", NEW_YORK, "2027-03-13"),
    ],
)
def test_of_a_night_like_any_other_nothing_is_said(expression: str, zone: str, day: str) -> None:
    assert told(expression, zone, day) is None


def test_utc_has_no_changes() -> None:
    assert list(changes(ZoneInfo("UTC"), after=utc("2026-01-01"), until=utc("2036-01-01"))) == []


def test_all_changes_of_a_span_are_found_in_order() -> None:
    found = changes(dst.zone_named(BERLIN), after=utc("2026-11-18"), until=utc("2027-11-18"))
    assert [change.instant for change in found] == [utc("2027-03-28 01:00"), utc("2027-10-31 01:00")]


def test_what_ends_before_the_change_or_begins_after_it_is_not_touched() -> None:
    fields, zone, change = cron.parse("30 2 * * *"), dst.zone_named(BERLIN), the_change(BERLIN, "2027-03-27")
    at = change.instant
    second = timedelta(seconds=1)
    assert touch(fields, zone, change, Bounds(at, at)) is not None
    assert touch(fields, zone, change, Bounds(end=at - second)) is None
    assert touch(fields, zone, change, Bounds(start=at + second)) is None


def test_bounds_count_in_how_often_it_fires_that_day() -> None:
    change = the_change(BERLIN, "2027-10-30")
    noon = Bounds(end=utc("2027-10-31 11:00"))  # 12:00 in Berlin
    found = touch(cron.parse("0 * * * *"), dst.zone_named(BERLIN), change, noon)
    assert found is not None
    assert (found.usual, found.that_day) == (13, 14)


@pytest.mark.parametrize(
    ("expression", "zone", "day", "shifts"),
    [
        ("0 9 * * *", BERLIN, "2027-03-27", True),
        ("0 * * * *", BERLIN, "2027-03-27", False),
        ("0 * * * 1", BERLIN, "2027-03-27", True),  # a Monday begins at another time of UTC
        ("0 * * * *", "Australia/Lord_Howe", "2027-10-02", True),  # by half an hour
        ("*/30 * * * *", "Australia/Lord_Howe", "2027-10-02", False),
    ],
)
def test_who_keeps_the_time_of_day_fires_at_another_time_of_utc(
    expression: str, zone: str, day: str, shifts: bool
) -> None:
    assert shifts_against_utc(cron.parse(expression), the_change(zone, day)) is shifts


HOURS = st.one_of(st.just("*"), st.sampled_from(["*/2", "*/3", "1-3", "22-2", "0,12"]), st.integers(0, 23).map(str))
MINUTES = st.one_of(st.just("*"), st.sampled_from(["*/5", "*/20", "0,30", "15-45/15"]), st.integers(0, 59).map(str))
DAYS = st.sampled_from(["* * *", "* * 0", "* * 6", "* * 1-5", "1 * *", "l * *", "*/2 * *", "* 3,10 *"])
ZONES = [change for change in CHANGES if not change[0].startswith("Pacific/Apia")]


@given(hour=HOURS, minute=MINUTES, days=DAYS, place=st.sampled_from(ZONES))
@example("0", "0", "* * *", ("America/Santiago", "2026-09-06 04:00"))
@example("2", "15", "* * *", ("Australia/Lord_Howe", "2026-10-03 15:30"))
@example("*", "*/20", "* * *", ("Europe/Berlin", "2026-10-25 01:00"))
def test_a_schedule_is_touched_exactly_if_its_fires_are_not_those_of_the_plain_calendar(
    hour: str, minute: str, days: str, place: tuple[str, str]
) -> None:
    """By a walk over the real wall clock, minute by minute, that shares no code with ours."""
    zone, instant = place[0], utc(place[1])
    change = the_change(zone, f"{instant - timedelta(hours=1):%Y-%m-%d %H:%M}")
    assert change.instant == instant
    first, end = odd_hours(change)
    expression = f"{minute} {hour} {days}"
    # All of the days that it belongs to, by the wall clock.
    start = datetime.combine(first.date(), datetime.min.time())
    stop = datetime.combine((end - timedelta(seconds=1)).date(), datetime.min.time()) + DAY
    pattern = cron_oracle.Pattern(expression)
    minutes = (start + number * timedelta(minutes=1) for number in range((stop - start) // timedelta(minutes=1)))
    plain = [wall for wall in minutes if pattern.matches_minute(wall)]
    local = ZoneInfo(zone)
    fires = cron_oracle.fires(expression, zone, instant - 3 * DAY, instant + 3 * DAY)
    walls = [fire.astimezone(local).replace(tzinfo=None) for fire in fires]
    real = [wall.replace(fold=0) for wall in walls if start <= wall.replace(fold=0) < stop]
    is_ambiguous = any(len(dst.instants_of(local, wall)) > 1 for wall in plain)
    found = touch(Cron(expression, zone).fields, local, change)
    assert (found is not None) == (sorted(real) != plain or is_ambiguous)
    if found is not None:
        assert (found.usual, found.that_day) == (len(plain), len(real))
        assert set(found.times) <= set(plain)
        if found.effect in (Effect.MOVED, Effect.ONCE):
            assert found.fires_at is not None
            assert found.fires_at.astimezone(local).replace(tzinfo=None, fold=0) in real
            assert found.fires_at.tzinfo is UTC
