"""The fires that are to come, and what differs between two versions."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.differences import Difference, differences
from jobs.recurrence import Cron, Every, Once, Within
from jobs.upcoming import between, is_fire, latest, upcoming


def test_the_next_fires_come_in_order_and_after_the_moment(noon: datetime) -> None:
    minute = timedelta(minutes=1)
    assert upcoming(Every(60, noon), after=noon, count=3) == [noon + minute, noon + 2 * minute, noon + 3 * minute]
    assert upcoming(Cron("0 12 * * *"), after=noon - minute, count=1) == [noon]


def test_there_are_no_more_than_there_are(noon: datetime) -> None:
    assert upcoming(Once(noon), after=noon - timedelta(days=1), count=5) == [noon]
    assert upcoming(Once(noon), after=noon, count=5) == []
    bounded = Within(Every(60, noon), end=noon + timedelta(minutes=2))
    assert len(upcoming(bounded, after=noon, count=5)) == 2


def test_fields_that_differ_are_named_with_what_they_are_in() -> None:
    before = {"a": 1, "schedule": {"cron": "x", "zone": "UTC"}, "kwargs": {"deep": {"b": 1}}, "same": [1]}
    after = {"a": 1.0, "schedule": {"cron": "y", "zone": "UTC"}, "kwargs": {"deep": {"b": 2}}, "same": [1], "new": 0}
    assert differences(before, after) == [
        Difference("a", 1, 1.0),
        Difference("kwargs", {"deep": {"b": 1}}, {"deep": {"b": 2}}),
        Difference("new", None, 0),
        Difference("schedule.cron", "x", "y"),
    ]


def test_a_schedule_that_came_or_went_is_one_difference() -> None:
    assert differences({"schedule": None}, {"schedule": {"cron": "x"}}) == [Difference("schedule", None, {"cron": "x"})]
    assert differences({"schedule": {"cron": "x"}}, {"schedule": None})[0].after is None


@pytest.mark.parametrize("cron", ["* * * * * *", "* * * * *", "0 9 * * 1-5", "30 2 * * *", "0 0 29 2 *", "* * 1 1 *"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_the_latest_fire_is_the_one_with_no_other_up_to_the_moment(noon: datetime, cron: str, zone: str) -> None:
    recurrence = Cron(cron, zone)
    long_ago = noon - timedelta(days=9 * 366)
    for moment in (noon, noon + timedelta(days=133, seconds=7), datetime(2027, 3, 28, 1, 0, tzinfo=UTC)):
        found = latest(recurrence, after=long_ago, until=moment)
        assert found is not None
        assert found <= moment
        assert is_fire(recurrence, found)
        following = recurrence.next_after(found)
        assert following is not None
        assert following > moment


def test_there_is_no_latest_fire_where_there_is_none(noon: datetime) -> None:
    day = timedelta(days=1)
    assert latest(Cron("0 0 29 2 *"), after=noon - 300 * day, until=noon) is None
    assert latest(Once(noon), after=noon, until=noon + day) is None
    assert latest(Once(noon), after=noon - day, until=noon + day) == noon
    assert latest(Every(60, noon), after=noon - day, until=noon) == noon


def test_fires_between_two_moments_include_the_last(noon: datetime) -> None:
    minute = timedelta(minutes=1)
    assert list(between(Every(60, noon), after=noon, until=noon + 2 * minute)) == [noon + minute, noon + 2 * minute]
    assert list(between(Every(60, noon), after=noon, until=noon)) == []
