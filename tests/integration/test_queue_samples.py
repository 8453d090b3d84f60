"""What waited in the queues, minute by minute."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from beat.upkeep import queue_samples as duty
from executions import lifecycle, queue_samples
from executions.models import Execution, QueueSample
from tests.making import a_job, asked_for, claimed, planned, seconds

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def waiting(queue: str, count: int, *, since: datetime) -> list[Execution]:
    """Due executions of one job, all since the same moment."""
    rows = asked_for(a_job(now=since, queue=queue), count, now=since)
    Execution.objects.with_ids([row.pk for row in rows]).update(available_at=since)
    return rows


def test_what_is_due_and_what_is_queued_waits_and_what_runs_does_not(noon: datetime) -> None:
    due, queued, running, _later = asked_for(a_job(now=noon), 4, now=noon - seconds(2))
    lifecycle.mark_queued([queued, running], now=noon)
    claimed(running, now=noon)
    assert queue_samples.sample(noon) == 1
    (sample,) = QueueSample.objects.all()
    assert (sample.at, sample.queue, sample.waiting) == (noon, "default", 2)
    assert due.available_at == noon - seconds(2)
    assert sample.oldest_seconds == 2


def test_a_queue_in_which_nothing_waits_has_no_samples_after_the_one_that_says_so(noon: datetime) -> None:
    ends = {1: waiting("mail", 2, since=noon), 2: waiting("batch", 3, since=noon)}
    waiting("default", 1, since=noon)
    for minute in range(5):
        lifecycle.cancel([row.pk for row in ends.get(minute, [])], reason="x", now=noon)
        queue_samples.sample(noon + minute * MINUTE)
    assert queue_samples.history(noon) == {
        "mail": [(noon, 2), (noon + MINUTE, 0)],
        "batch": [(noon, 3), (noon + MINUTE, 3), (noon + 2 * MINUTE, 0)],
        "default": [(noon + minute * MINUTE, 1) for minute in range(5)],
    }
    ended = QueueSample.objects.get(queue="batch", waiting=0)
    assert ended.oldest_seconds is None


def test_a_series_that_nobody_went_on_with_is_ended_whenever_somebody_looks_again(noon: datetime) -> None:
    rows = waiting("batch", 1, since=noon)
    queue_samples.sample(noon)
    lifecycle.cancel([rows[0].pk], reason="x", now=noon)
    later = noon + timedelta(hours=5)
    waiting("default", 1, since=later)
    queue_samples.sample(later)
    assert queue_samples.history(noon) == {"batch": [(noon, 1), (later, 0)], "default": [(later, 1)]}


def test_two_who_look_in_the_same_minute_leave_one_sample(noon: datetime) -> None:
    waiting("default", 1, since=noon)
    queue_samples.sample(noon + seconds(3))
    waiting("default", 1, since=noon)
    queue_samples.sample(noon + seconds(59))
    assert queue_samples.history(noon) == {"default": [(noon, 1)]}


def test_a_history_begins_with_the_moment_asked_for(noon: datetime) -> None:
    waiting("default", 1, since=noon)
    for minute in (2, 0, 1):
        queue_samples.sample(noon + minute * MINUTE)
    assert queue_samples.history(noon + MINUTE) == {"default": [(noon + MINUTE, 1), (noon + 2 * MINUTE, 1)]}
    assert queue_samples.history(noon + 3 * MINUTE) == {}


def test_a_queue_grows_by_its_history(noon: datetime) -> None:
    waiting("default", 10, since=noon)
    queue_samples.sample(noon)
    waiting("default", 40, since=noon)
    later = noon + 10 * MINUTE
    samples = queue_samples.history(later - timedelta(hours=1))["default"]
    assert queue_samples.is_growing(samples, 50, now=later)


def test_the_duty_samples_every_minute_and_forgets_after_a_day(noon: datetime) -> None:
    planned(a_job(now=noon), noon)
    assert duty.DUTY.every == MINUTE
    assert duty.DUTY.run(noon) == 1
    day = timedelta(days=1)
    duty.DUTY.run(noon + day)
    assert len(queue_samples.history(noon)["default"]) == 2
    duty.DUTY.run(noon + day + seconds(1))
    assert queue_samples.history(noon) == {"default": [(noon + day, 1)]}


def test_many_queues_cost_as_many_queries_as_few(noon: datetime) -> None:
    asked = []
    for minute, many in enumerate((1, 20)):
        for number in range(many):
            waiting(f"queue-{minute}-{number}", 1, since=noon)
        with CaptureQueriesContext(connection) as queries:
            queue_samples.sample(noon + minute * MINUTE)
            queue_samples.history(noon)
        asked.append(len(queries))
    assert asked[1] <= asked[0] + 1  # the first time there is no sample to look at
