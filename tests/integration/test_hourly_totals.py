"""Hourly totals: what the hours were like over all jobs, kept beside the counts of each."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

import pytest

from executions import histogram, lifecycle, statistics
from executions.models import Execution, HourlyCount, HourlyTotal
from executions.states import State
from jobs.models import Job
from tests.making import a_job, claimed, planned, seconds, succeeded

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon)


def totals() -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The table of totals, by hour, queue and state."""
    return {
        (row.hour, row.queue, row.state): (
            *(row.count, row.started, row.run_seconds, row.delay_seconds, row.longest_delay_seconds),
            *(row.delay_histogram, row.run_histogram),
        )
        for row in HourlyTotal.objects.all()
    }


def sums_of_counts() -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """What the table of totals should be."""
    parts: dict[tuple[Any, ...], list[HourlyCount]] = defaultdict(list)
    for row in HourlyCount.objects.all():
        parts[row.hour, row.queue, row.state].append(row)
    return {
        key: (
            *(sum(row.count for row in rows), sum(row.started for row in rows)),
            *(pytest.approx(sum(getattr(row, name) for row in rows)) for name in ("run_seconds", "delay_seconds")),
            max(row.longest_delay_seconds for row in rows),
            *(histogram.merged(getattr(row, name) for row in rows) for name in ("delay_histogram", "run_histogram")),
        )
        for key, rows in parts.items()
    }


def busy_hours(noon: datetime) -> list[Execution]:
    """Of several jobs, queues and states, in two hours; returns those that are open."""
    jobs = [a_job(now=noon, queue=queue) for queue in ("default", "default", "batch")]
    for number, each in enumerate(jobs):
        for age in (0, 1):
            succeeded(each, noon - age * HOUR, after=0.1 * number, ran=1 / 3 + number)
            succeeded(each, noon - age * HOUR + seconds(1), after=7, ran=0.1)
    return [planned(each, noon + seconds(2)) for each in jobs]


def test_totals_are_the_sums_of_the_counts_of_all_jobs(noon: datetime) -> None:
    busy_hours(noon)
    statistics.roll_up(noon)
    assert totals() == sums_of_counts()
    assert len(totals()) == 6
    assert totals()[noon, "default", State.SUCCEEDED][0] == 4


def test_totals_follow_what_changes_and_what_goes(noon: datetime) -> None:
    open_ones = busy_hours(noon)
    statistics.roll_up(noon)
    lifecycle.succeed(claimed(open_ones[0], now=noon), result=None, now=noon)
    claimed(open_ones[2], now=noon)
    statistics.roll_up(noon)
    assert totals() == sums_of_counts()
    states = {(queue, state): total[0] for (hour, queue, state), total in totals().items() if hour == noon}
    assert states == {
        ("default", State.SUCCEEDED): 5,
        ("default", State.SCHEDULED): 1,
        ("batch", State.SUCCEEDED): 2,
        ("batch", State.RUNNING): 1,
    }
    Execution.objects.filter(queue="batch").delete()
    statistics.roll_up(noon)
    assert totals() == sums_of_counts()
    assert {queue for _, queue, _ in totals()} == {"default"}


def test_counts_of_the_release_before_that_have_not_changed_get_their_totals(job: Job, noon: datetime) -> None:
    for age in (0, 1, 10, 24):
        succeeded(job, noon - age * HOUR)
    statistics.roll_up(noon, hours=25)
    HourlyTotal.objects.all().delete()
    assert statistics.roll_up(noon) == 0
    assert totals() == sums_of_counts()
    assert len(totals()) == 4


def test_without_totals_the_whole_last_day_is_counted(job: Job, noon: datetime) -> None:
    for age in range(26):
        succeeded(job, noon - age * HOUR)
    statistics.roll_up(noon)
    assert sorted(hour for hour, _, _ in totals()) == [noon - age * HOUR for age in range(24, -1, -1)]


def test_hours_before_that_get_their_totals_from_their_counts(job: Job, noon: datetime) -> None:
    """The release before has counted them, and their executions may be gone."""
    for age in (0, 30, 31, 1000):
        succeeded(job, noon - age * HOUR, after=0.1, ran=4)
        statistics.roll_up(noon - age * HOUR, hours=1)
    HourlyTotal.objects.all().delete()
    Execution.objects.all().delete()
    succeeded(job, noon, after=0.1, ran=4)
    statistics.roll_up(noon)
    assert totals() == sums_of_counts()
    assert len(totals()) == 4


def test_of_many_hours_without_totals_a_call_takes_as_many_as_it_has_time_for(
    job: Job, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age in (30, 40, 50):
        succeeded(job, noon - age * HOUR)
        statistics.roll_up(noon - age * HOUR, hours=1)
    HourlyTotal.objects.all().delete()
    clock = iter(range(1000))
    monkeypatch.setattr(statistics.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(statistics, "_PATIENCE_SECONDS", 2)
    found = []
    for _ in range(4):
        statistics.roll_up(noon)
        found.append(sorted({hour for hour, _, _ in totals()}, reverse=True))
    assert found == [[noon - age * HOUR for age in ages] for ages in ([30], [30, 40], [30, 40, 50], [30, 40, 50])]
