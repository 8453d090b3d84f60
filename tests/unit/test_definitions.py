"""A definition that cannot work is refused with its field before the database is touched.

None of these tests may use the database: pytest-django fails any that tries.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from executions.queues import DEAD_LETTERS
from jobs.definitions import InvalidDefinition, create
from jobs.recurrence import Cron, Once


def refusal_of(now: datetime, **given: Any) -> InvalidDefinition:
    with pytest.raises(InvalidDefinition) as refusal:
        create(**{"key": "report", "task": "jobs.demo.hello", "now": now, **given})
    return refusal.value


@pytest.mark.parametrize("key", ["", " ", "-a", ".a", "a b", "a\n", "ä", "a,b", "x" * 201])
def test_a_key_that_cannot_stand_in_a_url_is_refused(key: str, noon: datetime) -> None:
    refusal = refusal_of(noon, key=key)
    assert refusal.field == "key"
    assert str(refusal) == (
        f"The key {key!r} must be 1 to 200 letters, digits and . _ : @ / - and start with a letter or digit."
    )


@pytest.mark.parametrize("task", ["", "x" * 256])
def test_a_task_without_a_name_or_with_too_long_a_name_is_refused(task: str, noon: datetime) -> None:
    refusal = refusal_of(noon, task=task)
    assert refusal.field == "task"
    assert str(refusal) == "The task must be the registered name of a Celery task, up to 255 characters."


@pytest.mark.parametrize("queue", ["", "a b", "a/b", "-a", "x" * 101, DEAD_LETTERS])
def test_a_queue_that_cannot_be_is_refused(queue: str, noon: datetime) -> None:
    refusal = refusal_of(noon, queue=queue)
    assert refusal.field == "queue"
    assert str(refusal) == f"The queue {queue!r} must be 1 to 100 letters, digits and . _ - and not {DEAD_LETTERS!r}."


@pytest.mark.parametrize("priority", [-1, 10])
def test_a_priority_outside_0_to_9_is_refused(priority: int, noon: datetime) -> None:
    refusal = refusal_of(noon, priority=priority)
    assert refusal.field == "priority"
    assert str(refusal) == f"The priority must be 0 (low) to 9 (critical), not {priority}."


@pytest.mark.parametrize("max_attempts", [0, -1])
def test_less_than_one_attempt_is_refused(max_attempts: int, noon: datetime) -> None:
    refusal = refusal_of(noon, max_attempts=max_attempts)
    assert refusal.field == "max_attempts"
    assert str(refusal) == f"max_attempts must be at least 1, not {max_attempts}."


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", float("nan"), float("inf"), object()], ids=ascii)
def test_arguments_that_are_not_json_are_refused(value: object, noon: datetime) -> None:
    refusal = refusal_of(noon, kwargs={"value": value})
    assert refusal.field == "kwargs"
    assert str(refusal).startswith("The arguments must be plain JSON: ")


def test_arguments_that_contain_themselves_are_refused(noon: datetime) -> None:
    circle: list[object] = []
    circle.append(circle)
    assert refusal_of(noon, kwargs={"value": circle}).field == "kwargs"


@pytest.mark.parametrize("given", [{"kwargs": {"a": "x" * 40}}, {"args": ["x" * 40]}], ids=["kwargs", "args"])
def test_arguments_above_the_limit_are_refused_with_both_sizes(given: dict[str, Any], noon: datetime, settings) -> None:
    settings.ONBEAT_JOBS_PAYLOAD_BYTES = 40
    assert "bytes and the limit is 40; store large data elsewhere and pass a reference." in str(
        refusal_of(noon, **given)
    )


def test_by_default_64_kilobytes_of_arguments_are_the_limit(noon: datetime, settings) -> None:
    settings.ONBEAT_JOBS_PAYLOAD_BYTES = 64 * 1024
    around = len('[[], {"a": ""}]')
    refusal = refusal_of(noon, kwargs={"a": "x" * (64 * 1024 - around + 1)})
    assert str(refusal).startswith("The arguments take 65537 bytes and the limit is 65536;")


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(seconds=-1), timedelta(days=-400)])
def test_a_schedule_whose_only_fire_has_passed_is_refused(delay: timedelta, noon: datetime) -> None:
    refusal = refusal_of(noon, schedule=Once(noon + delay))
    assert refusal.field == "schedule"
    assert str(refusal) == "The schedule never fires after now; choose a date that will come."


def test_a_schedule_that_never_fires_is_refused(noon: datetime) -> None:
    assert refusal_of(noon, schedule=Cron("0 0 30 2 *")).field == "schedule"
