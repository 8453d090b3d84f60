"""Schedules with a start or an end."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidSchedule
from tests.unit.fire_times import utc

INSTANT = timedelta(microseconds=1)
DAILY = Cron("0 12 * * *")


def test_the_start_is_included() -> None:
    within = Within(DAILY, start=utc("2026-06-20 12:00"))
    assert within.next_after(utc("2026-06-15 12:00")) == utc("2026-06-20 12:00")
    assert within.next_after(utc("2026-06-20 12:00") - INSTANT) == utc("2026-06-20 12:00")
    assert within.next_after(utc("2026-06-20 12:00")) == utc("2026-06-21 12:00")


def test_a_fire_just_before_the_start_is_left_out() -> None:
    within = Within(DAILY, start=utc("2026-06-20 12:00") + INSTANT)
    assert within.next_after(utc("2026-06-15 12:00")) == utc("2026-06-21 12:00")


def test_the_end_is_included() -> None:
    within = Within(DAILY, end=utc("2026-06-20 12:00"))
    assert within.next_after(utc("2026-06-20 12:00") - INSTANT) == utc("2026-06-20 12:00")
    assert within.next_after(utc("2026-06-20 12:00")) is None


def test_a_fire_just_after_the_end_is_left_out() -> None:
    within = Within(DAILY, end=utc("2026-06-20 12:00") - INSTANT)
    assert within.next_after(utc("2026-06-19 11:59")) == utc("2026-06-19 12:00")
    assert within.next_after(utc("2026-06-19 12:00")) is None


@pytest.mark.parametrize(
    ("recurrence", "following"),
    [
        (DAILY, "2026-06-16 12:00"),
        (Every(3600, utc("2026-01-01 00:30")), "2026-06-15 13:30"),
        (Once(utc("2026-07-01 00:00")), "2026-07-01 00:00"),
    ],
)
def test_nothing_fires_at_the_start_by_itself(recurrence: Cron | Every | Once, following: str) -> None:
    within = Within(recurrence, start=utc("2026-06-15 13:00"))
    assert within.next_after(utc("2026-06-15 00:00")) == utc(following)


def test_asked_after_the_start_the_start_no_longer_matters() -> None:
    within = Within(DAILY, start=utc("2026-06-01 00:00"))
    assert within.next_after(utc("2026-06-15 12:00")) == DAILY.next_after(utc("2026-06-15 12:00"))


def test_without_bounds_it_is_the_recurrence_itself() -> None:
    assert Within(DAILY).next_after(utc("2026-06-15 12:00")) == utc("2026-06-16 12:00")


def test_a_start_that_is_also_the_end_leaves_one_fire() -> None:
    only = utc("2026-06-20 12:00")
    within = Within(DAILY, start=only, end=only)
    assert within.next_after(utc("2026-06-15 12:00")) == only
    assert within.next_after(only) is None


def test_between_bounds_without_a_match_there_is_no_fire() -> None:
    within = Within(DAILY, start=utc("2026-06-20 12:01"), end=utc("2026-06-21 11:59"))
    assert within.next_after(utc("2026-06-15 12:00")) is None


@pytest.mark.parametrize("at", ["2026-06-20 11:59", "2026-06-22 12:01"])
def test_an_instant_out_of_bounds_never_fires(at: str) -> None:
    within = Within(Once(utc(at)), start=utc("2026-06-20 12:00"), end=utc("2026-06-22 12:00"))
    assert within.next_after(utc("2026-06-15 12:00")) is None


def test_a_schedule_that_has_no_more_fires_has_none_within_bounds() -> None:
    within = Within(Once(utc("2026-06-01 00:00")), end=utc("2026-07-01 00:00"))
    assert within.next_after(utc("2026-06-01 00:00")) is None


def test_bounds_question_and_schedule_may_be_in_different_zones() -> None:
    tokyo, new_york = ZoneInfo("Asia/Tokyo"), ZoneInfo("America/New_York")
    start = datetime(2026, 6, 20, 19, tzinfo=tokyo)  # 10:00 UTC, noon in Berlin
    end = datetime(2026, 6, 21, 6, tzinfo=new_york)  # 10:00 UTC
    within = Within(Cron("0 12 * * *", "Europe/Berlin"), start=start, end=end)
    first = within.next_after(datetime(2026, 6, 1, tzinfo=new_york))
    assert first == utc("2026-06-20 10:00")
    assert first is not None
    assert first.tzinfo is UTC
    assert within.next_after(datetime(2026, 6, 20, 19, tzinfo=tokyo)) == utc("2026-06-21 10:00")
    assert within.next_after(datetime(2026, 6, 21, 6, tzinfo=new_york)) is None


def test_an_end_before_the_start_is_refused() -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Within(DAILY, start=utc("2026-06-20 12:00"), end=utc("2026-06-20 11:59:59"))
    assert str(refusal.value) == (
        "The end 2026-06-20T11:59:59+00:00 comes before the start 2026-06-20T12:00:00+00:00; "
        "choose a later end or an earlier start."
    )
    assert refusal.value.field == "end"


def test_an_end_is_compared_with_the_start_as_an_instant() -> None:
    noon_in_tokyo = datetime(2026, 6, 20, 12, tzinfo=ZoneInfo("Asia/Tokyo"))  # 03:00 UTC
    Within(DAILY, start=noon_in_tokyo, end=utc("2026-06-20 03:00"))
    with pytest.raises(InvalidSchedule, match="comes before the start"):
        Within(DAILY, start=noon_in_tokyo, end=utc("2026-06-20 02:59"))


@pytest.mark.parametrize("bound", ["start", "end"])
def test_a_bound_without_a_time_zone_is_refused(bound: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        Within(DAILY, **{bound: datetime(2026, 6, 20, 12)})  # noqa: DTZ001 - what is refused
    assert str(refusal.value) == f"The {bound} 2026-06-20T12:00:00 has no time zone; add one, such as +00:00."
    assert refusal.value.field == bound


@pytest.mark.parametrize("bound", ["start", "end"])
@pytest.mark.parametrize("year", [1969, 9901])
def test_a_bound_outside_of_reach_is_refused(bound: str, year: int) -> None:
    with pytest.raises(InvalidSchedule, match=f"^The {bound} .* between the years 1970 and 9900") as refusal:
        Within(DAILY, **{bound: datetime(year, 6, 20, tzinfo=UTC)})
    assert refusal.value.field == bound
