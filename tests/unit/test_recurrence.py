"""Cron, Every and Once on a plain calendar: the next fire, and what is refused."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobs.recurrence import Cron, Every, Once, shared_cron
from jobs.refusals import InvalidSchedule
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


@pytest.mark.parametrize(
    "zone",
    [
        *("", "Mars/Base", "../etc/passwd", "+02:00", "localtime", "Factory", "posix/UTC", "right/UTC"),
        *("GMT+2", "UTC+1", "CEST", "PST"),  # near to names that mean something else
    ],
)
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Cron("0 0 * * *", zone)
    assert (
        str(refusal.value)
        == f"{zone!r} is no time zone; use an IANA name, mostly that of a city, such as 'Europe/Berlin', or 'UTC'."
    )
    assert refusal.value.field == "timezone"


@pytest.mark.parametrize(
    ("zone", "nearest"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Europe/Berlin\0", "Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_names(zone: str, nearest: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Cron("0 0 * * *", zone)
    assert str(refusal.value).startswith(f"{zone!r} is no time zone; did you mean {nearest!r}")
    assert str(refusal.value).endswith("?")
    assert refusal.value.field == "timezone"


def test_of_a_long_wrong_zone_only_the_start_is_shown() -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Cron("0 0 * * *", "x" * 300)
    shown = "x" * 80
    assert (
        str(refusal.value)
        == f"{shown!r} is no time zone; use an IANA name, mostly that of a city, such as 'Europe/Berlin', or 'UTC'."
    )


def test_a_folder_of_the_zone_database_is_no_zone() -> None:
    with pytest.raises(InvalidSchedule, match=r"^'Europe' is no time zone; did you mean 'Europe/"):
        Cron("0 0 * * *", "Europe")


def test_a_date_that_will_not_come_for_fifty_years_has_no_fire(noon: datetime) -> None:
    # A day that is the 1st or the 31st is never the second Monday.
    assert Cron("0 0 */30 * 1#2", "Europe/Berlin").next_after(noon) is None
    assert Cron("* * */30 * 1#2", "Europe/Berlin").next_after(noon) is None


@pytest.mark.parametrize("expression", ["0 0 29 2 *", "* * 29 2 *", "0 0 1 1 *", "* * * * * *"])
def test_at_the_end_of_the_calendar_there_is_no_fire(expression: str) -> None:
    assert Cron(expression, "America/New_York").next_after(utc("9899-12-31 23:59:59")) is not None
    assert Cron(expression, "America/New_York").next_after(utc("9900-01-01 00:00")) is None
    assert Cron(expression, "America/New_York").next_after(utc("9999-12-31 23:59:59.999999")) is None


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
    assert refusal.value.field == "every"


@pytest.mark.parametrize("seconds", [1, TEN_YEARS])
def test_an_interval_of_one_second_or_ten_years_is_taken(seconds: int, noon: datetime) -> None:
    assert Every(seconds=seconds, anchor=noon).next_after(noon) == noon + timedelta(seconds=seconds)


def test_at_the_end_of_the_calendar_an_interval_ends(noon: datetime) -> None:
    for seconds in (1, TEN_YEARS):
        assert Every(seconds=seconds, anchor=noon).next_after(utc("9899-12-31 23:59:59")) is not None
        assert Every(seconds=seconds, anchor=noon).next_after(utc("9900-01-01 00:00")) is None
        assert Every(seconds=seconds, anchor=noon).next_after(utc("9999-12-31 23:59:59.999999")) is None


def test_an_anchor_without_a_time_zone_is_refused(noon: datetime) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Every(seconds=60, anchor=noon.replace(tzinfo=None))
    assert str(refusal.value) == "The anchor 2026-06-15T12:00:00 has no time zone; add one, such as +00:00."
    assert refusal.value.field == "anchor"


def test_an_instant_without_a_time_zone_is_refused(noon: datetime) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Once(noon.replace(tzinfo=None))
    assert str(refusal.value) == "The instant 2026-06-15T12:00:00 has no time zone; add one, such as +00:00."
    assert refusal.value.field == "once"


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


@pytest.mark.parametrize("seconds", [1.5, "5", True, None])
def test_an_interval_that_is_no_whole_number_is_refused(seconds: object, noon: datetime) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Every(seconds=seconds, anchor=noon)  # type: ignore[arg-type]
    assert str(refusal.value) == f"An interval must be a whole number of seconds, not {seconds!r}."
    assert refusal.value.field == "every"


@pytest.mark.parametrize("moment", [None, "2026-06-15T12:00:00Z", date(2026, 6, 15)])
def test_what_is_no_date_with_a_time_is_refused(moment: object, noon: datetime) -> None:
    kind = type(moment).__name__
    with pytest.raises(InvalidSchedule, match=f"^The instant must be a date with a time, not {kind}.$"):
        Once(moment)  # type: ignore[arg-type]
    with pytest.raises(InvalidSchedule, match=f"^The anchor must be a date with a time, not {kind}.$"):
        Every(60, moment)  # type: ignore[arg-type]


@pytest.mark.parametrize("year", [1, 1969, 9901, 9999])
def test_an_instant_outside_of_reach_is_refused(year: int) -> None:
    with pytest.raises(InvalidSchedule, match="between the years 1970 and 9900"):
        Once(datetime(year, 6, 1, tzinfo=UTC))


@pytest.mark.parametrize("year", [1970, 9900])
def test_an_instant_just_within_reach_is_taken(year: int) -> None:
    at = datetime(year, 6, 1, tzinfo=UTC)
    assert Once(at).next_after(at - timedelta(seconds=1)) == at


# ── Shared ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("expression", ["0 3 * * *", "0 3 * * thu", "@hourly", "0 0 1 mar *"])
def test_jobs_that_say_the_same_share_one_cron_whatever_their_keys(expression: str) -> None:
    assert shared_cron(expression, "UTC", "one") is shared_cron(expression, "UTC", "two")


@pytest.mark.parametrize("expression", ["H 3 * * *", "0 h * * *", "0,H 3 * * *", "H(0-5) H(0-7) * * *", "0 0 * * H"])
def test_where_there_is_an_h_each_key_has_a_cron_of_its_own(expression: str) -> None:
    assert shared_cron(expression, "UTC", "one") == Cron(expression, "UTC", "one")
    assert shared_cron(expression, "UTC", "two") == Cron(expression, "UTC", "two")


def test_another_zone_is_another_cron(noon: datetime) -> None:
    assert shared_cron("0 3 * * *", "UTC", "").next_after(noon) == utc("2026-06-16 03:00")
    assert shared_cron("0 3 * * *", "Asia/Tokyo", "").next_after(noon) == utc("2026-06-15 18:00")
