"""The latest executions of many jobs are found by one statement."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from executions import lifecycle, recent
from executions.models import Execution
from executions.states import State
from jobs.models import Job
from tests.making import a_job, asked_for, claimed, planned, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon)


def fires(job: Job, count: int, until: datetime) -> list[Execution]:
    """A minute apart, the latest first."""
    return [planned(job, until - timedelta(minutes=number)) for number in range(count)]


def test_the_latest_come_first_and_no_more_than_are_wanted(job: Job, noon: datetime) -> None:
    rows = fires(job, 7, noon)
    found = recent.of_jobs([job.pk], count=5, now=noon)
    assert [each.id for each in found[job.pk]] == [row.pk for row in rows[:5]]
    assert [each.fire_time for each in found[job.pk]] == [row.fire_time for row in rows[:5]]


def test_what_is_still_to_come_is_left_out(job: Job, noon: datetime) -> None:
    rows = asked_for(job, 3, now=noon)
    assert [each.id for each in recent.of_jobs([job.pk], count=9, now=noon)[job.pk]] == [rows[0].pk]


def test_each_has_what_its_row_says(job: Job, noon: datetime) -> None:
    ran, skipped = fires(job, 2, noon)
    lifecycle.succeed(claimed(ran, now=noon + seconds(1)), result=None, now=noon + seconds(3.5))
    lifecycle.cancel([skipped.pk], reason='it\'s <b>not</b> "wanted" – ü', now=noon)
    first, second = recent.of_jobs([job.pk], count=2, now=noon)[job.pk]
    assert (first.state, first.seconds, first.attempt, first.reason) == (State.SUCCEEDED, 2.5, 1, "")
    assert (first.started_at, first.finished_at) == (noon + seconds(1), noon + seconds(3.5))
    assert (second.state, second.seconds, second.started_at) == (State.CANCELLED, None, None)
    assert second.reason == 'it\'s <b>not</b> "wanted" – ü'


@pytest.mark.parametrize("microsecond", [0, 1, 500_000, 123_456])
def test_moments_are_exact_and_in_order_whatever_their_parts_of_a_second(
    job: Job, noon: datetime, microsecond: int
) -> None:
    """Databases write 12:00:00 and 12:00:00.5 each in their way."""
    moments = [noon, noon + timedelta(microseconds=microsecond + 1), noon + timedelta(seconds=1)]
    for moment in moments:
        planned(job, moment)
    found = recent.of_jobs([job.pk], count=9, now=noon + seconds(2))[job.pk]
    assert [each.fire_time for each in found] == moments[::-1]


def test_each_job_has_its_own_and_one_without_any_is_left_out(noon: datetime) -> None:
    jobs = [a_job(now=noon) for _ in range(4)]
    wanted = {
        job.pk: [row.pk for row in fires(job, count, noon)] for job, count in zip(jobs, (1, 2, 3, 0), strict=True)
    }
    found = recent.of_jobs([job.pk for job in jobs[1:]], count=9, now=noon)
    assert {pk: [each.id for each in rows] for pk, rows in found.items()} == {
        job.pk: wanted[job.pk] for job in jobs[1:3]
    }


def test_no_jobs_are_not_asked_for(noon: datetime) -> None:
    with CaptureQueriesContext(connection) as statements:
        assert recent.of_jobs([], count=9, now=noon) == {}
    assert len(statements) == 0


@pytest.mark.parametrize("count", [1, 20])
def test_it_is_one_statement_for_any_number_of_jobs(noon: datetime, count: int) -> None:
    ids = [a_job(now=noon).pk for _ in range(count)]
    with CaptureQueriesContext(connection) as statements:
        recent.of_jobs(ids, count=30, now=noon)
    assert len(statements) == 1
