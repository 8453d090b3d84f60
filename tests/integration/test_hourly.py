"""What the hours were like, read from their counts and totals alone."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from executions import lifecycle, statistics
from executions.hourly import Hour, Percentiles, hours
from executions.models import Execution, HourlyCount, HourlyTotal
from executions.states import State
from jobs.models import Job
from tests.making import a_job, claimed, planned, seconds, succeeded

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
UNKNOWN = Percentiles(p50=None, p95=None, p99=None, mean=None, longest=None)


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon)


def counted(noon: datetime, *, job_id: int | None = None, queue: str = "") -> Hour:
    """The hour that begins at noon, counted anew."""
    statistics.roll_up(noon, hours=1)
    (hour,) = hours(start=noon, end=noon + HOUR, job_id=job_id, queue=queue)
    return hour


# ── Which hours ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_hours_come_oldest_first_and_without_empty_ones(job: Job, noon: datetime) -> None:
    for age in (0, 3, 1):
        planned(job, noon - age * HOUR)
    statistics.roll_up(noon, hours=5)
    found = hours(start=noon - 5 * HOUR, end=noon + HOUR)
    assert [hour.hour for hour in found] == [noon - 3 * HOUR, noon - HOUR, noon]


def test_the_first_moment_is_included_and_the_last_is_not(job: Job, noon: datetime) -> None:
    for age in range(4):
        planned(job, noon - age * HOUR)
    statistics.roll_up(noon, hours=5)
    assert [hour.hour for hour in hours(start=noon - 2 * HOUR, end=noon)] == [noon - 2 * HOUR, noon - HOUR]


def test_moments_may_be_in_any_zone(job: Job, noon: datetime) -> None:
    planned(job, noon)
    statistics.roll_up(noon)
    there = ZoneInfo("Asia/Kathmandu")
    (hour,) = hours(start=noon.astimezone(there), end=(noon + HOUR).astimezone(there))
    assert hour.hour == noon
    assert hour.hour.utcoffset() == timedelta()


# ── Whose ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_hour_is_of_one_job_of_one_queue_or_of_everything(job: Job, noon: datetime) -> None:
    other = a_job(now=noon, queue="batch")
    third = a_job(now=noon, queue="batch")
    succeeded(job, noon, after=1, ran=1)
    for number in range(2):
        succeeded(other, noon + seconds(number), after=10, ran=10)
    for number in range(4):
        succeeded(third, noon + seconds(number), after=100, ran=100)
    whole = counted(noon)
    of_job, of_queue = counted(noon, job_id=job.pk), counted(noon, queue="batch")
    of_both = counted(noon, job_id=third.pk, queue="batch")
    assert [one.fires for one in (whole, of_job, of_queue, of_both)] == [7, 1, 6, 4]
    assert [one.lateness.longest for one in (whole, of_job, of_queue, of_both)] == [100, 1, 100, 100]
    assert [one.lateness.mean for one in (whole, of_job, of_queue, of_both)] == [421 / 7, 1, 70, 100]
    assert [one.duration.p50 for one in (whole, of_job, of_queue, of_both)] == [
        pytest.approx(exact, rel=0.1) for exact in (100, 1, 100, 100)
    ]
    assert hours(start=noon, end=noon + HOUR, job_id=job.pk, queue="batch") == []


# ── What they tell ───────────────────────────────────────────────────────────────────────────────────────────────


def test_counts_are_by_state_and_fires_are_all_of_them(job: Job, noon: datetime) -> None:
    other = a_job(now=noon)
    for each in (job, other):
        succeeded(each, noon)
        planned(each, noon + seconds(1))
    claimed(planned(job, noon + seconds(2)), now=noon + seconds(2))
    stretch = job.new_skipped_row(noon + seconds(3), noon + seconds(9), 7, reason="x", now=noon)
    lifecycle.record_skipped([stretch], now=noon)
    hour = counted(noon)
    assert hour.counts == {State.SUCCEEDED: 2, State.SCHEDULED: 2, State.RUNNING: 1, State.SKIPPED: 7}
    assert hour.fires == 12
    assert hour.started == 3


def test_percentiles_are_right_to_ten_percent_over_jobs_and_states(noon: datetime) -> None:
    jobs = [a_job(now=noon, max_attempts=1) for _ in range(4)]
    for number in range(1, 101):
        moment = noon + seconds(number)
        start = moment + seconds(number / 100)
        claim = claimed(planned(jobs[number % 4], moment), now=start)
        end = start + seconds(number * number)
        if number % 2:
            lifecycle.succeed(claim, result=None, now=end)
        else:
            lifecycle.fail(claim, error="x", now=end)
    hour = counted(noon)
    assert hour.counts == {State.SUCCEEDED: 50, State.DEAD: 50}
    late, ran = hour.lateness, hour.duration
    assert (late.p50, late.p95, late.p99) == tuple(pytest.approx(exact, rel=0.1) for exact in (0.5, 0.95, 0.99))
    assert (ran.p50, ran.p95, ran.p99) == tuple(pytest.approx(exact, rel=0.1) for exact in (50**2, 95**2, 99**2))
    assert late.mean == pytest.approx(0.505)
    assert ran.mean == pytest.approx(3383.5)
    assert (late.longest, ran.longest) == (1, None)


def test_what_runs_has_a_lateness_and_no_duration(job: Job, noon: datetime) -> None:
    claimed(planned(job, noon), now=noon + seconds(3))
    succeeded(job, noon + seconds(1), after=3, ran=8)
    hour = counted(noon)
    assert hour.started == 2
    assert hour.lateness == Percentiles(p50=3, p95=3, p99=3, mean=3, longest=3)
    assert hour.duration.mean == 8
    assert hour.duration.p99 == pytest.approx(8, rel=0.1)


def test_no_percentile_of_lateness_is_above_the_longest(job: Job, noon: datetime) -> None:
    """The middle of a bucket would be."""
    succeeded(job, noon, after=-1)
    assert counted(noon).lateness == Percentiles(p50=0, p95=0, p99=0, mean=0, longest=0)


def test_an_hour_in_which_nothing_began_has_neither(job: Job, noon: datetime) -> None:
    planned(job, noon)
    hour = counted(noon)
    assert (hour.fires, hour.started) == (1, 0)
    assert hour.lateness == hour.duration == UNKNOWN


# ── Hours that the release before has counted ────────────────────────────────────────────────────────────────────


def forget_histograms(noon: datetime, **of: object) -> None:
    """As the release before has counted, and this one adds up two days later."""
    HourlyCount.objects.filter(**of).update(delay_histogram={}, run_histogram={})
    HourlyTotal.objects.all().delete()
    statistics.roll_up(noon + 48 * HOUR)


def test_hours_without_histograms_have_no_percentiles(job: Job, noon: datetime) -> None:
    succeeded(job, noon, after=2, ran=4)
    statistics.roll_up(noon)
    forget_histograms(noon)
    (hour,) = hours(start=noon, end=noon + HOUR)
    assert hour.lateness == Percentiles(p50=None, p95=None, p99=None, mean=2, longest=2)
    assert hour.duration == Percentiles(p50=None, p95=None, p99=None, mean=4, longest=None)


def test_percentiles_of_a_part_of_an_hour_are_not_told_as_those_of_the_hour(job: Job, noon: datetime) -> None:
    other = a_job(now=noon)
    for each in (job, other):
        succeeded(each, noon, after=2, ran=4)
    statistics.roll_up(noon)
    forget_histograms(noon, job=other)
    (hour,) = hours(start=noon, end=noon + HOUR)
    assert hour.lateness == Percentiles(p50=None, p95=None, p99=None, mean=2, longest=2)
    assert hour.duration == Percentiles(p50=None, p95=None, p99=None, mean=4, longest=None)
    (hour,) = hours(start=noon, end=noon + HOUR, job_id=job.pk)
    assert hour.lateness.p50 == pytest.approx(2, rel=0.1)


# ── What it costs ────────────────────────────────────────────────────────────────────────────────────────────────


def test_hours_are_read_by_one_query_and_without_the_executions(job: Job, noon: datetime) -> None:
    for age in range(3):
        for each in (job, a_job(now=noon)):
            succeeded(each, noon - age * HOUR, ran=1)
    statistics.roll_up(noon, hours=3)
    Execution.objects.all().delete()
    with CaptureQueriesContext(connection) as queries:
        found = hours(start=noon - 2 * HOUR, end=noon + HOUR)
    assert len(queries) == 1
    assert [hour.duration.p95 for hour in found] == [pytest.approx(1, rel=0.1)] * 3


def test_hours_of_everything_are_read_from_the_totals_and_those_of_a_job_from_its_counts(
    job: Job, noon: datetime
) -> None:
    """However many jobs there are: a row per queue and state."""
    succeeded(job, noon)
    statistics.roll_up(noon)
    for asked, table in ((None, "onbeat_hourly_total"), (job.pk, "onbeat_hourly_count")):
        with CaptureQueriesContext(connection) as queries:
            assert len(hours(start=noon, end=noon + HOUR, job_id=asked)) == 1
        assert f'FROM "{table}"' in queries[0]["sql"]
