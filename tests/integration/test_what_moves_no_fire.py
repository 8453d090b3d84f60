"""What people do around a schedule: run a job by hand, start, pause, edit, enable. None of it moves or adds a fire."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from executions import lifecycle
from executions.dispatch import Publisher
from executions.models import Execution
from executions.states import State, Trigger
from jobs import definitions, runs
from jobs.models import Job
from jobs.recurrence import Cron, Every, Once, Within
from tests import rows
from tests.integration.conftest import Queues
from tests.making import a_job, a_planner, a_ticker, claimed, seconds
from tests.rows import schedule_of

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def fires(job: Job) -> list[datetime]:
    """Of its schedule, whatever became of them."""
    return [row.fire_time for row in rows.of(job, trigger=Trigger.SCHEDULE)]


def run_all(now: datetime) -> None:
    """As a worker does with what was published."""
    for row in Execution.objects.filter(state=State.QUEUED):
        lifecycle.succeed(claimed(row, now=now), result=None, now=now)


# ── Runs beside the schedule ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("asked_at", [50, 57, 59.999, 60, 61, 65], ids=lambda minute: f"minute {minute}")
def test_a_run_by_hand_around_a_fire_neither_replaces_nor_repeats_it(
    asked_at: float, noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_job(now=noon, schedule=Cron("0 * * * *"))
    beat = a_ticker(publisher)
    moments = sorted({*(noon + minutes(n / 2) for n in range(98, 140)), noon + minutes(asked_at)})
    for now in moments:
        if now == noon + minutes(asked_at):
            runs.run(job, now=now)
            runs.run(job, delay=minutes(1), now=now)
        beat.tick(now)
        run_all(now)
    assert fires(job) == [noon + HOUR]
    assert len(rows.of(job)) == 3
    assert len({message.headers["id"] for message in broker.take_all()}) == 3
    assert schedule_of(job).next_fire_at == noon + 2 * HOUR


def test_one_offs_before_at_and_after_the_hour_leave_an_hourly_job_alone(publisher: Publisher, broker: Queues) -> None:
    """Also when their jobs are over, and the hourly one runs for long."""
    eight = datetime(2026, 6, 15, 6, 0, tzinfo=UTC)  # in Vienna
    hourly = a_job(now=eight - minutes(30), schedule=Cron("0 * * * *", "Europe/Vienna"), task="onbeat.sleep")
    shorts = [a_job(now=eight - minutes(30), schedule=Once(eight + minutes(n))) for n in (-1, 0, 1)]
    beat, later_beat = a_ticker(publisher), a_ticker(publisher)
    for step in range(-120, 240, 4):
        now = eight + seconds(step)
        (beat if step < 16 else later_beat).tick(now)
        for row in Execution.objects.filter(state=State.QUEUED, job__in=shorts):
            lifecycle.succeed(claimed(row, now=now), result=None, now=now)
        definitions.complete_ended(now)
    assert fires(hourly) == [eight]
    assert [fires(job) for job in shorts] == [[eight + minutes(n)] for n in (-1, 0, 1)]
    assert len(broker.take_all()) == 4


# ── A start ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("start", [minutes(-2), minutes(2), minutes(30)], ids=str)
def test_a_cron_with_a_start_waits_for_its_own_time_also_when_a_beat_starts_after_it(
    start: timedelta, noon: datetime
) -> None:
    job = a_job(now=noon - minutes(5), schedule=Within(Cron("0 13 * * *"), start=noon + start))
    for step in (0, 2, 2.1, 30, 31, 59):
        assert a_planner().plan_due(now=noon + minutes(step)).fires == 0
    assert a_planner().plan_due(now=noon + HOUR).fires == 1
    assert fires(job) == [noon + HOUR]


def test_a_cron_whose_start_falls_on_one_of_its_times_fires_then(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Within(Cron("0 13 * * *"), start=noon + HOUR))
    for step in range(0, 121, 10):
        a_planner().plan_due(now=noon + minutes(step))
    assert fires(job) == [noon + HOUR]


# ── Enabled again, or edited, after its time has passed ──────────────────────────────────────────────────────────


def resumed(job: Job, now: datetime) -> None:
    definitions.pause(job, reason="enough for today", now=job.created_at + HOUR)
    definitions.resume(job, now=now)


def edited(**fields: Any) -> Callable[[Job, datetime], None]:
    def edit(job: Job, now: datetime) -> None:
        definitions.change(job, version=1, now=now, task_lives_elsewhere=True, **fields)

    return edit


DEEDS = {
    "paused and resumed": resumed,
    "another payload": edited(kwargs={"tenant": "acme"}),
    "another queue and priority": edited(queue="batch-etl", priority=9),
    "another task": edited(task="elsewhere.report"),
    "another policy": edited(misfire="FIRE_ALL", misfire_limit=7),
    "another zone": edited(schedule=Cron("0 3 * * *", "Europe/Berlin")),
    "another time, which has passed today": edited(schedule=Cron("30 4 * * *")),
    "an interval in phase with the past": edited(schedule=Every(86_400, datetime(2026, 1, 1, 3, tzinfo=UTC))),
}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
def test_a_job_that_is_enabled_or_edited_after_its_time_does_not_fire_at_once(
    deed: Callable[[Job, datetime], None], noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_job(now=noon - 2 * DAY, schedule=Cron("0 3 * * *"))  # and no beat has run since
    deed(job, noon)
    for second in (0, 1, 2, 61):
        report = a_ticker(publisher).tick(noon + seconds(second))
        assert (report.planned, report.published) == (0, 0)
    assert {row.state for row in rows.of(job)} == {State.SKIPPED}  # and what it missed says why
    following = schedule_of(job).next_fire_at
    assert following is not None
    assert noon < following < noon + DAY
    assert a_planner().plan_due(now=following).fires == 1
