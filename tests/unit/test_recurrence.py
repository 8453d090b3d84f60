"""Cron, Every and Once on a plain calendar: the next fire, and what is refused."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobs.recurrence import Cron, Every, InvalidSchedule, Once
from tests.unit.fire_times import fires, utc

TEN_YEARS = 10 * 366 * 24 * 3600  # leap days and all

# ── The plain calendar ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "start", "following"),
    [
        ("0 12 * * *", "2026-06-15 11:59:59.999999", "2026-06-15 12:00"),
        ("0 12 * * *", "2026-06-15 12:00:00", "2026-06-16 12:00"),
        ("0 12 * * *", "2026-06-15 12:00:00.000001", "2026-06-16 12:00"),
        ("* * * * *", "2026-06-15 11:59:59.999999", "2026-06-15 12:00"),
        ("* * * * *", "2026-06-15 12:00:00", "2026-06-15 12:01"),
        ("* * * * *", "2026-06-15 12:00:00.000001", "2026-06-15 12:01"),
        ("* * * * * *", "2026-06-15 12:00:00.999999", "2026-06-15 12:00:01"),
        ("30 0 12 * * *", "2026-06-15 12:00:30", "2026-06-16 12:00:30"),
    ],
)
def test_a_fire_is_strictly_after_the_moment_asked_from(expression: str, start: str, following: str) -> None:
    assert Cron(expression).next_after(utc(start)) == utc(following)


@pytest.mark.parametrize(
    ("expression", "following"),
    [
        ("15 14 1 * *", "2026-07-01 14:15"),
        ("15 30 14 1 * *", "2026-07-01 14:30:15"),
        ("*/20 * * * * *", "2026-06-15 12:00:20"),
        ("5,35 9-17/4 * * *", "2026-06-15 13:05"),
        ("0 0 * jan mon", "2027-01-04 00:00"),
        ("0 0 * * 7", "2026-06-21 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
    ],
)
def test_five_fields_begin_with_minutes_and_six_with_seconds(expression: str, following: str, noon: datetime) -> None:
    assert Cron(expression).next_after(noon) == utc(following)


@pytest.mark.parametrize(
    ("alias", "following"),
    [
        ("@hourly", "2026-06-15 13:00"),
        ("@daily", "2026-06-16 00:00"),
        ("@midnight", "2026-06-16 00:00"),
        ("@weekly", "2026-06-21 00:00"),
        ("@monthly", "2026-07-01 00:00"),
        ("@yearly", "2027-01-01 00:00"),
        ("@annually", "2027-01-01 00:00"),
    ],
)
def test_an_alias_stands_for_its_expression(alias: str, following: str, noon: datetime) -> None:
    assert Cron(alias).next_after(noon) == utc(following)


@pytest.mark.parametrize("expression", ["", "* * * *", "* * * * * * *", "@reboot", "*****"])
def test_a_wrong_number_of_fields_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Cron(expression)
    assert str(refusal.value) == (
        f"The cron expression {expression!r} must have 5 fields (minute hour day month weekday), "
        "or 6 with the seconds first."
    )


@pytest.mark.parametrize(
    "expression",
    [
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "60 0 0 * * *",
        "*/0 * * * *",
        "a b c d e",
        "hour * * * *",
    ],
)
def test_a_field_that_cannot_be_read_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Cron(expression)
    assert str(refusal.value).startswith(f"The cron expression {expression!r} cannot be read: ")
    assert str(refusal.value).endswith(".")


@pytest.mark.parametrize(
    "expression",
    [
        "R 3 * * *",
        "R(0-5) * * * *",
        "R(0-50)/5 * * * *",
        "H * * * *",
        "H/15 * * * *",
        "0 H(1-3) * * *",
        "r 3 * * *",
        "h * * * *",
        "0 0 r * *",
        "0 0 * H *",
        "0 0 * * R",
        "R 0 0 * * *",
        "1,R * * * *",
        "0 H(1-3),5 * * *",
        "0 0 * mar,r(4-6) *",
    ],
)
def test_a_random_or_hashed_item_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Cron(expression)
    assert str(refusal.value) == (
        f"The cron expression {expression!r} asks for a random or hashed value; name the value."
    )


@pytest.mark.parametrize(
    ("expression", "following"),
    [
        ("0 0 1 MAR *", "2027-03-01 00:00"),
        ("0 0 1 apr *", "2027-04-01 00:00"),
        ("0 0 1 apr,MAR *", "2027-03-01 00:00"),
        ("0 0 * * FRI", "2026-06-19 00:00"),
        ("0 0 * * thu", "2026-06-18 00:00"),
        ("0 0 * * Fri,Thu", "2026-06-18 00:00"),
        ("0 0 * * thu-FRI", "2026-06-18 00:00"),
    ],
)
def test_a_name_with_an_r_or_an_h_in_it_is_no_random_item(expression: str, following: str, noon: datetime) -> None:
    assert Cron(expression).next_after(noon) == utc(following)


@pytest.mark.parametrize(
    ("expression", "following"),
    [
        ("0 3-3 * * *", ["2026-06-16 03:00", "2026-06-17 03:00"]),
        ("0 3-3/2 * * *", ["2026-06-16 03:00", "2026-06-17 03:00"]),
        ("5-5 * * * *", ["2026-06-15 12:05", "2026-06-15 13:05"]),
        ("0-0 * * * *", ["2026-06-15 13:00", "2026-06-15 14:00"]),
        ("5-5 0 * * * *", ["2026-06-15 12:00:05", "2026-06-15 13:00:05"]),
        ("5-5,7,9-9 * * * *", ["2026-06-15 12:05", "2026-06-15 12:07", "2026-06-15 12:09"]),
        ("0 0 20-20 * *", ["2026-06-20 00:00", "2026-07-20 00:00"]),
        ("0 0 1 mar-mar *", ["2027-03-01 00:00", "2028-03-01 00:00"]),
        ("0 0 * * mon-mon", ["2026-06-22 00:00", "2026-06-29 00:00"]),
        ("0 0 * * MON-mon", ["2026-06-22 00:00", "2026-06-29 00:00"]),
        ("0 0 * * 7-7", ["2026-06-21 00:00", "2026-06-28 00:00"]),
    ],
)
def test_a_range_with_equal_ends_is_that_one_value(expression: str, following: list[str]) -> None:
    found = fires(expression, "UTC", "2026-06-15 12:00", len(following))
    assert found == [utc(text) for text in following]


@pytest.mark.parametrize(
    ("expression", "following"),
    [
        ("1-15 * * * *", ["2026-06-15 12:01", "2026-06-15 12:02"]),
        ("11-12 * * * *", ["2026-06-15 12:11", "2026-06-15 12:12", "2026-06-15 13:11"]),
        ("0 22-2 * * *", ["2026-06-15 22:00", "2026-06-15 23:00", "2026-06-16 00:00"]),  # past midnight
        ("2-20/2 * * * *", ["2026-06-15 12:02", "2026-06-15 12:04"]),
    ],
)
def test_a_range_whose_ends_only_look_alike_is_a_range(expression: str, following: list[str]) -> None:
    found = fires(expression, "UTC", "2026-06-15 12:00", len(following))
    assert found == [utc(text) for text in following]


def test_an_expression_of_200_characters_is_read_and_a_longer_one_refused(noon: datetime) -> None:
    longest = "0 0 * * *".ljust(200)
    assert Cron(longest).next_after(noon) == utc("2026-06-16 00:00")
    with pytest.raises(InvalidSchedule) as refusal:
        Cron(longest + " ")
    assert str(refusal.value) == "A cron expression may have 200 characters, not more."


@pytest.mark.parametrize("zone", ["", "Mars/Base", "Europe", "../etc/passwd", "Europe/Berlin\0", "+02:00", "x" * 300])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Cron("0 0 * * *", zone)
    assert str(refusal.value) == f"{zone!r} is no time zone; use an IANA name such as 'Europe/Berlin' or 'UTC'."


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "* * 30 2 *"])
def test_a_date_that_never_comes_has_no_fire(expression: str, noon: datetime) -> None:
    assert Cron(expression, "Europe/Berlin").next_after(noon) is None


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 13 * 5", ["07-03", "07-10", "07-13", "07-17"]),  # the 13th or a Friday: neither field begins with a star
        ("0 0 */2 * 1", ["07-13", "07-27", "08-03", "08-17"]),  # an odd day and a Monday: one field begins with a star
        (
            "0 0 13 * */2",
            ["08-13", "09-13", "10-13", "12-13"],
        ),  # the 13th if it is a Sunday, Tuesday, Thursday, Saturday
        ("0 0 13 * *", ["07-13", "08-13"]),
        ("0 0 * * 5", ["07-03", "07-10"]),
    ],
)
def test_day_of_month_and_weekday_combine_as_in_debians_cron(expression: str, days: list[str]) -> None:
    assert [f"{fire:%m-%d}" for fire in fires(expression, "UTC", "2026-06-30 12:00", len(days))] == days


# ── Every and Once ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("start", "following"),
    [
        ("2026-06-15 12:00:00", "2026-06-15 12:01:30"),
        ("2026-06-15 12:01:29.999999", "2026-06-15 12:01:30"),
        ("2026-06-15 12:01:30", "2026-06-15 12:03:00"),
        ("2026-06-15 11:59:59", "2026-06-15 12:00:00"),
        ("2026-06-15 11:00:00", "2026-06-15 11:01:30"),
        ("1970-01-01 00:00:00", "1970-01-01 00:01:30"),
        ("2926-06-15 12:00:01", "2926-06-15 12:01:30"),
    ],
)
def test_an_interval_keeps_phase_with_its_anchor(start: str, following: str, noon: datetime) -> None:
    assert Every(seconds=90, anchor=noon).next_after(utc(start)) == utc(following)


def test_an_interval_runs_in_real_time_across_a_clock_change() -> None:
    anchor = datetime(2026, 11, 1, 0, 30, tzinfo=ZoneInfo("America/New_York"))
    hourly = Every(seconds=3600, anchor=anchor)
    assert hourly.next_after(utc("2026-11-01 05:30")) == utc("2026-11-01 06:30")
    assert hourly.next_after(utc("2026-11-01 06:30")) == utc("2026-11-01 07:30")


@pytest.mark.parametrize("seconds", [0, -1, TEN_YEARS + 1, 10**12])
def test_an_interval_below_one_second_or_above_ten_years_is_refused(seconds: int, noon: datetime) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Every(seconds=seconds, anchor=noon)
    assert str(refusal.value) == f"An interval must be 1 second to 10 years, not {seconds} seconds."


@pytest.mark.parametrize("seconds", [1, TEN_YEARS])
def test_an_interval_of_one_second_or_ten_years_is_taken(seconds: int, noon: datetime) -> None:
    assert Every(seconds=seconds, anchor=noon).next_after(noon) == noon + timedelta(seconds=seconds)


def test_an_anchor_without_a_time_zone_is_refused(noon: datetime) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Every(seconds=60, anchor=noon.replace(tzinfo=None))
    assert str(refusal.value) == "The anchor 2026-06-15T12:00:00 has no time zone; add one, such as +00:00."


def test_an_instant_without_a_time_zone_is_refused(noon: datetime) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Once(noon.replace(tzinfo=None))
    assert str(refusal.value) == "The instant 2026-06-15T12:00:00 has no time zone; add one, such as +00:00."


def test_once_fires_at_its_instant_and_never_again() -> None:
    once = Once(datetime(2026, 6, 15, 14, tzinfo=ZoneInfo("Europe/Berlin")))
    assert once.next_after(utc("2026-06-15 11:59:59.999999")) == utc("2026-06-15 12:00")
    assert once.next_after(utc("2026-06-15 12:00")) is None


@pytest.mark.parametrize(
    "recurrence",
    [
        Cron("30 2 * * *", "Asia/Tokyo"),
        Cron("*/5 * * * *", "Asia/Tokyo"),
        Every(60, datetime(2026, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))),
        Once(datetime(2027, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))),
    ],
)
def test_a_fire_is_told_in_utc_whatever_zone_was_asked_in(recurrence: Cron | Every | Once, noon: datetime) -> None:
    following = recurrence.next_after(noon.astimezone(ZoneInfo("America/New_York")))
    assert following is not None
    assert following.tzinfo is UTC
    assert following == recurrence.next_after(noon)


@pytest.mark.parametrize(("expression", "plain"), [("0 3-03 * * *", "0 3 * * *"), ("0 0 * * mon-1", "0 0 * * 1")])
def test_equal_ends_may_be_written_differently(expression: str, plain: str, noon: datetime) -> None:
    assert Cron(expression).next_after(noon) == Cron(plain).next_after(noon)


@pytest.mark.parametrize("expression", ["*/5-5 * * * *", "3-3/0 * * * *", "1-1-1 * * * *"])
def test_what_only_looks_like_a_range_with_equal_ends_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule):
        Cron(expression)


@pytest.mark.parametrize("seconds", [1.5, "5", True])
def test_an_interval_that_is_no_whole_number_is_refused(seconds: object, noon: datetime) -> None:
    with pytest.raises(InvalidSchedule, match="a whole number of seconds"):
        Every(seconds=seconds, anchor=noon)  # type: ignore[arg-type]


@pytest.mark.parametrize("year", [1, 1969, 9999])
def test_an_instant_outside_of_reach_is_refused(year: int) -> None:
    with pytest.raises(InvalidSchedule, match="between the years 1970 and 9998"):
        Once(datetime(year, 6, 1, tzinfo=UTC))
