"""Rows changed behind the product's back, in bulk or by SQL: a beat that runs already sees it at its next look."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from beat.planning import Planner
from executions.models import Execution
from executions.states import State
from jobs.models import Job, JobState, Schedule
from jobs.recurrence import Cron, Every
from tests import rows
from tests.making import a_job, a_planner, every_minute, seconds
from tests.rows import schedule_of

pytestmark = pytest.mark.django_db


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


@pytest.fixture
def beat(noon: datetime) -> Planner:
    """It runs already, and nobody tells it anything."""
    one = a_planner()
    one.plan_due(now=noon - minutes(1))
    return one


def execute(statement: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def stored(moment: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(moment)


def run_times(job: Job) -> list[datetime]:
    return [row.fire_time for row in rows.of(job, state=State.SCHEDULED)]


def test_schedules_switched_off_in_bulk_fire_no_more_from_the_next_look_on(noon: datetime, beat: Planner) -> None:
    jobs = [a_job(now=noon, schedule=every_minute(noon)) for _ in range(3)]
    assert beat.plan_due(now=noon + minutes(1)).fires == 3
    Schedule.objects.filter(job__in=jobs[:2]).update(is_active=False)
    assert beat.plan_due(now=noon + minutes(2)).fires == 1
    assert [len(run_times(job)) for job in jobs] == [1, 1, 2]


def test_the_state_of_a_job_set_alone_does_not_stop_its_schedule(noon: datetime, beat: Planner) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    Job.objects.filter(pk=job.pk).update(state=JobState.PAUSED)
    assert beat.plan_due(now=noon + minutes(1)).fires == 1


@pytest.mark.parametrize(("misfire", "latest"), [("SKIP", 0), ("FIRE_ONCE", 1)])
def test_a_schedule_switched_on_by_sql_fires_again_and_its_policy_decides_about_what_it_missed(
    misfire: str, latest: int, noon: datetime, beat: Planner
) -> None:
    job = a_job(now=noon, schedule=Every(600, noon), misfire=misfire)
    execute("UPDATE onbeat_schedule SET is_active = %s WHERE job_id = %s", False, job.pk)
    assert beat.plan_due(now=noon + minutes(10)).fires == 0
    execute("UPDATE onbeat_schedule SET is_active = %s WHERE job_id = %s", True, job.pk)
    assert beat.plan_due(now=noon + minutes(35)).fires == latest
    assert [row.skipped_count for row in rows.of(job, state=State.SKIPPED)] == [3 - latest]
    assert beat.plan_due(now=noon + minutes(40)).fires == 1


def test_what_to_run_and_where_is_read_when_a_fire_is_planned(noon: datetime, beat: Planner) -> None:
    jobs = [a_job(now=noon, schedule=every_minute(noon)) for _ in range(2)]
    beat.plan_due(now=noon + minutes(1))
    Job.objects.update(queue="batch-etl", priority=9, kwargs={"tenant": "acme"})
    beat.plan_due(now=noon + minutes(2))
    for job in jobs:
        before, after = rows.of(job)
        assert (before.queue, before.priority, before.kwargs) == ("default", 5, {})
        assert (after.queue, after.priority, after.kwargs) == ("batch-etl", 9, {"tenant": "acme"})


def test_an_expression_and_its_next_fire_that_are_set_together_count_at_once(noon: datetime, beat: Planner) -> None:
    job = a_job(now=noon, schedule=Cron("* * * * *"))
    assert beat.plan_due(now=noon + minutes(1)).fires == 1
    execute(
        "UPDATE onbeat_schedule SET expression = %s, next_fire_at = %s WHERE job_id = %s",
        *("*/5 * * * *", stored(noon + minutes(5)), job.pk),
    )
    for step in range(2, 21):
        beat.plan_due(now=noon + minutes(step))
    assert run_times(job) == [noon + minutes(n) for n in (1, 5, 10, 15, 20)]


@pytest.mark.parametrize(
    ("column", "value", "following"),
    [
        ("expression", "15 * * * *", datetime(2026, 6, 15, 13, 15, tzinfo=UTC)),
        ("timezone", "Asia/Kathmandu", datetime(2026, 6, 15, 13, 15, tzinfo=UTC)),  # 45 minutes off the hour
        ("start_at", datetime(2026, 6, 15, 14, 30, tzinfo=UTC), datetime(2026, 6, 15, 15, tzinfo=UTC)),
        ("end_at", datetime(2026, 6, 15, 13, 30, tzinfo=UTC), None),
    ],
)
def test_a_column_of_the_schedule_that_is_set_alone_counts_after_the_fire_that_was_noted_before(
    column: str, value: object, following: datetime | None, noon: datetime, beat: Planner
) -> None:
    job = a_job(now=noon, schedule=Cron("0 * * * *"))
    assert beat.plan_due(now=noon).fires == 0
    Schedule.objects.filter(job=job).update(**{column: value})
    assert beat.plan_due(now=noon + minutes(15)).fires == 0
    assert beat.plan_due(now=noon + minutes(60)).fires == 1
    assert schedule_of(job).next_fire_at == following


def test_a_policy_that_is_set_in_bulk_decides_about_what_was_missed_before(noon: datetime, beat: Planner) -> None:
    jobs = [a_job(now=noon, schedule=Every(600, noon)) for _ in range(2)]
    assert beat.plan_due(now=noon + minutes(10)).fires == 2
    Schedule.objects.update(misfire="FIRE_ALL", misfire_limit=2)
    assert beat.plan_due(now=noon + minutes(55)).fires == 2 * 2
    for job in jobs:
        assert run_times(job) == [noon + minutes(n) for n in (10, 40, 50)]


def test_a_job_and_schedule_inserted_in_bulk_fire_without_a_word_to_any_beat(noon: datetime, beat: Planner) -> None:
    made = Job.objects.bulk_create(
        Job(key=f"bulk-{n}", task="onbeat.echo", created_at=noon, changed_at=noon) for n in range(5)
    )
    assert beat.plan_due(now=noon).fires == 0
    Schedule.objects.bulk_create(
        Schedule(job=job, kind="CRON", expression="* * * * *", next_fire_at=noon + minutes(1)) for job in made
    )
    assert beat.plan_due(now=noon + seconds(57)).fires == 5
    assert set(Execution.objects.values_list("fire_time", flat=True)) == {noon + minutes(1)}
