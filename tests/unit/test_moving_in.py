"""What each column of another beat's task becomes here, and what is told of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.moving_in.sources import (
    BEAT_SCHEDULE,
    DJANGO_CELERY_BEAT,
    Clocked,
    Crontab,
    Interval,
    NoSchedule,
    Pattern,
    Source,
    Task,
)
from jobs.moving_in.translation import CannotMove, LeftOut, Moved, Wishes, translated

NOW = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
HOURLY = Interval(3_600_000_000)
NOON = Crontab("0", "12", "*", "*", "*", "UTC")
Outcome = Moved | LeftOut | CannotMove


def outcome(
    pattern: Pattern = NOON, *, source: Source = DJANGO_CELERY_BEAT, wishes: Wishes | None = None, **more: Any
) -> Outcome:
    more = {"last_run_at": NOW, **more} if source.is_live else more
    task = Task(**{"name": "a name", "task": "shop.bill", "pattern": pattern, **more})
    return translated(task, key="a-name", source=source, wishes=wishes or Wishes(), now=NOW)


def moved(pattern: Pattern = NOON, **more: Any) -> Moved:
    found = outcome(pattern, **more)
    assert isinstance(found, Moved), found
    return found


def schedule(pattern: Pattern, **more: Any) -> dict[str, Any]:
    return dict(moved(pattern, **more).body["schedule"])


def about(found: Moved) -> list[str]:
    return [note.about for note in found.notes]


def cannot(pattern: Pattern = NOON, **more: Any) -> str:
    found = outcome(pattern, **more)
    assert isinstance(found, CannotMove), found
    return found.why


def left_out(pattern: Pattern = NOON, **more: Any) -> str:
    found = outcome(pattern, **more)
    assert isinstance(found, LeftOut), found
    return found.why


def test_a_plain_task_becomes_a_plain_job_without_a_note() -> None:
    found = moved(queue="mail", priority=4, args='["a", 1]', kwargs='{"b": null}')
    assert found.body == {
        "key": "a-name",
        "target": {"task": "shop.bill"},
        "args": ["a", 1],
        "kwargs": {"b": None},
        "schedule": {"cron": "0 12 * * *", "timezone": "UTC"},
        "queue": "mail",
        "priority": 4,
        "tags": ["from-django-celery-beat"],
    }
    assert found.notes == ()
    assert found.is_enabled


def test_what_is_wished_for_all_of_them_is_in_each() -> None:
    body = moved(wishes=Wishes(owner="shop", lives_elsewhere=True, attempts=1, timezone="Asia/Tokyo")).body
    assert body["owner"] == "shop"
    assert body["target"] == {"task": "shop.bill", "lives_elsewhere": True}
    assert body["retry"] == {"max_attempts": 1}
    assert body["schedule"]["timezone"] == "Asia/Tokyo"


def test_a_task_that_is_switched_off_has_a_tag_of_its_own_so_that_the_others_can_be_resumed_alone() -> None:
    found = moved(is_enabled=False)
    assert not found.is_enabled
    assert found.body["tags"] == ["disabled-in-django-celery-beat"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"last_run_at": NOW - timedelta(minutes=7)}, "2026-06-15T11:53:00Z"),
        ({"last_run_at": NOW - timedelta(minutes=7, microseconds=1)}, "2026-06-15T11:52:59Z"),
        ({"last_run_at": None, "changed_at": NOW - timedelta(minutes=3)}, "2026-06-15T11:57:00Z"),
        ({"last_run_at": None, "start_time": NOW + timedelta(hours=5)}, "2026-06-15T17:00:00Z"),
        # It is counted from the last run unless that is over when it may start: then it runs at its start.
        ({"last_run_at": NOW, "start_time": NOW + timedelta(hours=5)}, "2026-06-15T17:00:00Z"),
        ({"last_run_at": NOW, "start_time": NOW + timedelta(minutes=30)}, "2026-06-15T12:00:00Z"),
    ],
)
def test_an_interval_goes_on_in_its_rhythm(more: dict[str, Any], expected: str) -> None:
    found = moved(HOURLY, **more)
    assert found.body["schedule"]["every"] == 3600
    assert found.body["schedule"]["anchor"] == expected
    assert found.notes == ()


def test_an_interval_that_never_ran_and_one_of_a_beat_schedule_begin_when_they_are_stored() -> None:
    assert schedule(HOURLY, last_run_at=None) == {"every": 3600}
    assert schedule(HOURLY, source=BEAT_SCHEDULE) == {"every": 3600}


@pytest.mark.parametrize(("microseconds", "seconds"), [(500_000, "0.5"), (1_500_000, "1.5"), (0, "0"), (-1, "-1e-06")])
def test_an_interval_that_is_no_whole_number_of_seconds_cannot_be_moved(microseconds: int, seconds: str) -> None:
    assert cannot(Interval(microseconds)).startswith(f"Its interval is {seconds} s")


def test_an_interval_that_is_too_long_cannot_be_moved() -> None:
    assert "1 second to 10 years" in cannot(Interval(10**15))


@pytest.mark.parametrize(
    ("hours", "zone", "notes", "anchor"),
    [
        (1, "Europe/Berlin", [], "2019-12-31T23:00:00Z"),
        (1, "Asia/Kolkata", [], "2019-12-31T18:30:00Z"),
        (2, "UTC", ["rounding"], "2020-01-01T00:00:00Z"),
        (24, "UTC", [], "2020-01-01T00:00:00Z"),
        (24, "Europe/Berlin", ["rounding"], "2019-12-31T23:00:00Z"),
    ],
)
def test_an_interval_that_is_rounded_keeps_to_whole_hours_and_days_of_its_zone(
    hours: int, zone: str, notes: list[str], anchor: str
) -> None:
    found = moved(Interval(hours * 3_600_000_000, is_rounded=True, timezone=zone), source=BEAT_SCHEDULE)
    assert found.body["schedule"]["anchor"] == anchor
    assert about(found) == notes


def test_a_moment_becomes_a_job_that_fires_once() -> None:
    assert schedule(Clocked(NOW + timedelta(days=1)), is_one_off=True, last_run_at=None) == {
        "once": {"at": "2026-06-16T12:00:00Z"}
    }


def test_a_moment_that_is_past_is_left_out_if_it_ran_and_told_if_it_did_not() -> None:
    past = Clocked(NOW - timedelta(days=1))
    assert "its one moment was 2026-06-14 12:00:00 UTC" in left_out(past, is_enabled=False, last_run_at=None)
    assert "to run once, and did" in left_out(past, is_one_off=True, total_run_count=1)
    assert "is past, and it has not run" in cannot(past, is_one_off=True, last_run_at=None)


def test_a_one_off_fires_one_time_and_none_if_it_did() -> None:
    assert schedule(NOON, is_one_off=True)["max_fires"] == 1
    assert left_out(NOON, is_one_off=True, total_run_count=3) == "it was to run once, and did"
    found = moved(NOON, is_one_off=True, is_enabled=False)
    assert about(found) == ["one-off"]


def test_an_expiry_is_the_end_one_second_before_since_there_it_no_longer_fires_at_it() -> None:
    found = moved(expires=NOW + timedelta(days=1))
    assert found.body["schedule"]["end"] == "2026-06-16T11:59:59Z"
    assert about(found) == ["expiry"]
    assert schedule(NOON, expires=NOW + timedelta(days=1, milliseconds=500))["end"] == "2026-06-16T12:00:00Z"
    assert left_out(expires=NOW) == "it expired at 2026-06-15 12:00:00 UTC"


def test_a_start_is_a_bound_and_a_crontab_that_would_fire_at_it_is_told() -> None:
    found = moved(start_time=NOW + timedelta(days=1))
    assert found.body["schedule"]["start"] == "2026-06-16T12:00:00Z"
    assert about(found) == ["start"]
    assert about(moved(start_time=NOW - timedelta(days=1))) == []


@pytest.mark.parametrize(
    ("pattern", "last_run_at", "is_late"),
    [
        (HOURLY, NOW - timedelta(hours=1, minutes=9), False),  # it may have run: there it is written down later
        (HOURLY, NOW - timedelta(hours=1, minutes=11), True),
        (NOON, NOW - timedelta(hours=23), False),
        (NOON, NOW - timedelta(hours=49), True),
    ],
)
def test_what_is_late_there_is_told_since_it_does_not_run_at_once_here(
    pattern: Pattern, last_run_at: datetime, is_late: bool
) -> None:
    assert about(moved(pattern, last_run_at=last_run_at)) == (["overdue"] if is_late else [])
    assert about(moved(pattern, last_run_at=last_run_at, is_enabled=False)) == []


@pytest.mark.parametrize(
    ("more", "expected", "says"),
    [
        ({"priority": 255}, "priority", "Its priority is 255, and 9 is the highest here"),
        ({"headers": '{"a": 1}'}, "headers", "not kept"),
        ({"exchange": "x"}, "routing", "the exchange 'x' with the routing key ''"),
        ({"routing_key": "y", "queue": "mail"}, "routing", "here it goes to the queue 'mail'"),
        ({"expire_seconds": 30}, "expiry", "waits for more than 30 s is dropped"),
        ({"description": "why"}, "description", "not kept"),
        ({"other_options": ("countdown", "compression")}, "options", "compression, countdown"),
    ],
)
def test_what_is_otherwise_here_is_noted(more: dict[str, Any], expected: str, says: str) -> None:
    found = moved(**more)
    assert about(found) == [expected]
    assert says in found.notes[0].says


def test_a_deadline_for_starting_becomes_the_grace_after_which_a_fire_is_skipped() -> None:
    assert schedule(NOON, starting_deadline_seconds=120)["misfire"] == {"policy": "skip", "grace": 120}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"args": "{}"}, "Its args are not a list in JSON: '{}'."),
        ({"args": "[" * 100_000}, "Its args are not a list in JSON"),
        ({"kwargs": "{'a': 1}"}, "Its kwargs are not an object in JSON"),
        ({"priority": -1}, "Its priority is -1"),
        ({"pattern": NoSchedule("It is strange.", "")}, "It is strange."),
        ({"pattern": Crontab("0", "12", "*", "*", "*", "Mars/Olympus")}, "'Mars/Olympus' is no time zone"),
        ({"pattern": Crontab("0", "12", "13", "*", "5", "UTC")}, "which no cron expression here can say"),
    ],
)
def test_what_cannot_be_moved_says_why(more: dict[str, Any], says: str) -> None:
    assert says in cannot(**more)


def test_the_task_that_celery_beat_adds_by_itself_is_left_out() -> None:
    assert "adds this task by itself" in left_out(task="celery.backend_cleanup")


@pytest.mark.parametrize(
    ("minute", "hour", "cron", "says"),
    [
        # In the repeated hour it goes on here, and there it stops.
        ("*/30", "*", "*/30 * * * *", "on 2026-10-25, it fires only here at 01:00, 01:30 UTC."),
        # The same as there, since it is written without a star.
        ("0", "*/2", "0 0-23/2 * * *", ""),
        ("*/15", "1-3", "0-59/15 1-3 * * *", ""),
        ("30", "7", "30 7 * * *", ""),
        ("30", "2", "30 2 * * *", "on 2027-03-28, it fires only here at 01:00 UTC and only there at 01:30 UTC."),
    ],
)
def test_what_clock_changes_do_is_the_same_or_told(minute: str, hour: str, cron: str, says: str) -> None:
    found = moved(Crontab(minute, hour, "*", "*", "*", "Europe/Berlin"))
    assert found.body["schedule"] == {"cron": cron, "timezone": "Europe/Berlin"}
    assert [note.says for note in found.notes] == ([f"When clocks change in Europe/Berlin, {says}"] if says else [])
