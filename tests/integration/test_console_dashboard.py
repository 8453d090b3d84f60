"""The dashboard: what needs attention, the figures of a day, and what is to come."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from access.roles import Role
from beat.models import Beat
from console import glance
from console.dashboard import attention
from console.dashboard.figures import figures
from console.queues import seen
from executions import lifecycle, queue_samples, statistics
from executions.clock import database_now
from executions.models import Execution, QueueSample
from jobs import forecasting, runs
from jobs.models import Job, Schedule
from jobs.recurrence import Cron, Every
from tests.making import a_job, claimed, planned, seconds
from tests.tiers import once_full
from tests.visiting import a_visitor, text
from workers.models import Worker

pytestmark = [pytest.mark.django_db, once_full]
QUEUE = "onbeat.default"


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> None:
    glance.forget()


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def viewer() -> Client:
    return a_visitor(Role.VIEWER)


@pytest.fixture
def is_well(now: datetime) -> None:
    """One beat ticks, and one worker takes from the default queue."""
    a_beat(now)
    a_worker(now)


def a_beat(now: datetime, name: str = "beat@here", **more: object) -> Beat:
    facts = {"host": "here", "pid": 1, "started_at": now, "ticked_at": now, "seen_at": now}
    return Beat.objects.create(name=name, **{**facts, **more})


def a_worker(now: datetime, name: str = "worker@here", **more: object) -> Worker:
    facts = {"host": "here", "pid": 2, "queues": [QUEUE], "started_at": now, "heartbeat_at": now}
    return Worker.objects.create(name=name, **{**facts, **more})


def titles(now: datetime) -> list[str]:
    dead = attention.waiting_for_a_person()
    return [concern.title for concern in attention.concerns(now=now, queues=seen(now), dead=dead)]


def a_dead_one(job: Job, at: datetime) -> Execution:
    execution = planned(job, at)
    for _ in range(execution.max_attempts):
        Execution.objects.filter(pk=execution.pk).update(available_at=at)
        row = Execution.objects.get(pk=execution.pk)
        lifecycle.fail(claimed(row, now=at), error="ValueError: boom", now=at)
    return Execution.objects.get(pk=execution.pk)


# ── What needs attention ─────────────────────────────────────────────────────────────────────────────────────────────


def test_if_everything_is_all_right_it_says_so(is_well: None, viewer: Client, now: datetime) -> None:
    a_job(now=now, schedule=Cron("0 3 * * *"))
    assert titles(now) == []
    assert "Everything is all right" in text(viewer, "/admin/")


def test_without_a_beat_or_a_worker_that_comes_first(now: datetime) -> None:
    assert titles(now) == ["No beat fires", "No worker is alive"]


def test_a_beat_that_cannot_reach_broker_or_redis_is_a_concern_and_a_badge(
    now: datetime, is_well: None, viewer: Client
) -> None:
    Beat.objects.update(is_broker_away=True, is_redis_away=True)
    assert titles(now) == ["The broker is away", "Redis is away"]
    page = text(viewer, "/admin/queues/")
    assert 'title="Broker away"' in page
    assert 'title="Redis away"' in page


def test_who_vanished_without_signing_off_is_named(now: datetime, is_well: None) -> None:
    a_beat(now - timedelta(minutes=1), name="beat@gone")
    a_worker(now - timedelta(minutes=1), name="worker@gone")
    assert titles(now) == ["1 beat silent", "1 worker silent"]


def test_schedules_that_nobody_planned_are_late_with_the_oldest_first(now: datetime, is_well: None) -> None:
    for key, minutes in (("newer", 1), ("oldest", 7)):
        job = a_job(now=now, key=key, schedule=Every(3600, now))
        Schedule.objects.filter(job=job).update(next_fire_at=now - timedelta(minutes=minutes))
    (late,) = [c for c in attention.concerns(now=now, queues=[], dead=0) if "late" in c.title]
    assert (late.tone, late.title) == ("bad", "2 schedules late")
    assert late.detail == "The oldest is due since 7 min: oldest, newer."


def test_a_paused_schedule_is_not_late(now: datetime, is_well: None) -> None:
    job = a_job(now=now, schedule=Every(3600, now))
    Schedule.objects.filter(job=job).update(next_fire_at=now - timedelta(hours=1), is_active=False)
    assert titles(now) == []


def test_dead_letters_and_the_jobs_that_fail_are_told(now: datetime, is_well: None) -> None:
    job = a_job(now=now, key="billing.daily")
    for minutes in (1, 2):
        a_dead_one(job, now - timedelta(minutes=minutes))
    a_dead_one(a_job(now=now, key="old"), now - timedelta(days=2))
    found = attention.concerns(now=now, queues=[], dead=attention.waiting_for_a_person())
    assert [concern.title for concern in found] == [
        "1 job failed for good in 24 hours",
        "3 dead letters wait for a person",
    ]
    assert "billing.daily (2)" in found[0].detail


def test_what_waits_without_a_worker_that_takes_it_is_worse_than_what_waits_long(now: datetime, is_well: None) -> None:
    for queue in ("default", "batch"):
        runs.run(a_job(now=now, queue=queue), now=now - timedelta(minutes=5))
    assert titles(now) == ["Nobody takes from batch", "The queue default is behind"]


def test_a_queue_that_holds_many_more_than_ten_minutes_ago_grows(now: datetime, is_well: None) -> None:
    job = a_job(now=now)
    runs.run_many(job, [runs.Wanted() for _ in range(30)], now=now)
    QueueSample.objects.create(at=now - timedelta(minutes=11), queue="default", waiting=29)
    assert titles(now) == []
    QueueSample.objects.update(waiting=9)
    assert titles(now) == ["The queue default grows"]


def test_the_menu_counts_the_dead_letters_that_wait_and_is_silent_if_none_does(
    now: datetime, is_well: None, viewer: Client
) -> None:
    assert "ob-badge" not in text(viewer, "/admin/queues/")
    for minutes in (1, 2):
        a_dead_one(a_job(now=now), now - timedelta(minutes=minutes))
    glance.forget()
    assert '<span class="ob-badge">2</span>' in text(viewer, "/admin/queues/")


# ── Figures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_figures_are_of_the_last_day(now: datetime, is_well: None) -> None:
    job = a_job(now=now)
    for minutes in (5, 6, 7):
        at = now - timedelta(minutes=minutes)
        lifecycle.succeed(claimed(planned(job, at), now=at + seconds(0.1)), result=None, now=at + seconds(1))
    a_dead_one(job, now - timedelta(minutes=8))
    statistics.roll_up(now, hours=25)
    shown = figures(now)
    assert (shown.fires, shown.success_percent, shown.dead, shown.running) == (4, 75.0, 1, 0)
    assert shown.lateness_p95 == pytest.approx(0.1, rel=0.1)
    assert shown.executions.total == 4
    assert len(shown.executions.columns) == 24


def test_a_rate_is_not_rounded_up_to_a_hundred() -> None:
    from console.templatetags.onbeat import percent

    assert [percent(value) for value in (100, 99.999, 99.5, 93.72)] == ["100 %", "99.99 %", "99.50 %", "93.7 %"]


def test_the_next_fires_and_the_forecast_are_shown_with_their_piles(
    now: datetime, is_well: None, viewer: Client
) -> None:
    for number in range(30):
        a_job(now=now, key=f"midnight-{number}", schedule=Cron("0 0 * * *"))
    forecasting.refresh(now)
    shown = figures(now)
    assert shown.forecast is not None
    assert shown.forecast.total == 30
    assert [(pile.count, pile.at.hour, pile.at.minute) for pile in shown.piles] == [(30, 0, 0)]
    page = text(viewer, "/admin/living/")
    assert "midnight-0" in page
    assert "pile up" in page


def test_before_the_first_forecast_it_says_who_makes_it(viewer: Client) -> None:
    assert "A beat counts them every minute; none has yet." in text(viewer, "/admin/")


def test_the_dashboard_takes_the_same_number_of_statements_however_much_there_is(
    now: datetime, is_well: None, viewer: Client
) -> None:
    def statements() -> int:
        glance.forget()
        with CaptureQueriesContext(connection) as queries:
            text(viewer, "/admin/")
        return len(queries)

    def some_of_everything(number: int) -> None:
        for place in range(number):
            job = a_job(now=now, schedule=Cron("0 3 * * *"), queue=f"queue-{number}-{place}")
            a_dead_one(job, now - timedelta(minutes=5 + place))
            runs.run(job, now=now)
            late = a_job(now=now, schedule=Every(3600, now))
            Schedule.objects.filter(job=late).update(next_fire_at=now - timedelta(minutes=7))
            a_beat(now - timedelta(hours=1), name=f"beat-{number}-{place}")
            a_worker(now - timedelta(hours=1), name=f"worker-{number}-{place}")
        statistics.roll_up(now, hours=2)
        queue_samples.sample(now)
        forecasting.refresh(now)

    some_of_everything(2)
    few = statements()
    some_of_everything(12)
    assert statements() == few


def test_who_has_no_role_is_told_so_and_sees_no_figures(now: datetime) -> None:
    page = text(a_visitor(is_staff=True), "/admin/")
    assert "You have no role here." in page
    assert "Fires and runs, 24 h" not in page
