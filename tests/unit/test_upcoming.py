"""The fires that are to come, and what differs between two versions."""

from datetime import datetime, timedelta

from jobs.differences import Difference, differences
from jobs.recurrence import Cron, Every, Once, Within
from jobs.upcoming import upcoming


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
