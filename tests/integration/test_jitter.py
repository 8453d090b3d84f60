"""Jitter through the planner: a fire keeps its instant and comes a little later; pause and edit still reach it."""

from datetime import datetime, timedelta

import pytest
from django.test import Client

from executions.models import Execution
from executions.states import State, Trigger
from jobs import definitions, runs
from jobs.jitter import jitter_of
from jobs.misfires import Misfire
from jobs.models import Job
from jobs.recurrence import Cron, Once, Within
from tests import rows
from tests.firing import plan
from tests.making import a_job, every_minute, seconds
from tests.rows import schedule_of

pytestmark = pytest.mark.django_db


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def one_that_waits(job: Job, fire_time: datetime) -> Execution:
    """Its fire is planned, and comes later than a second after its time."""
    assert plan(fire_time - seconds(1)) == 1
    (row,) = rows.of(job, state=State.SCHEDULED)
    assert row.available_at > fire_time + seconds(1)
    return row


def test_a_fire_keeps_its_instant_and_is_due_after_its_jitter(noon: datetime) -> None:
    job = a_job(now=noon, key="report", schedule=every_minute(noon), jitter_seconds=30)
    fire_time = noon + minutes(1)
    row = one_that_waits(job, fire_time)
    jitter = jitter_of("report", fire_time, seconds=30)
    assert (row.trigger, row.fire_time, row.available_at) == (Trigger.SCHEDULE, fire_time, fire_time + jitter)
    assert schedule_of(job).next_fire_at == noon + minutes(2)
    assert not Execution.objects.due(row.available_at - timedelta(milliseconds=1)).exists()
    assert Execution.objects.due(row.available_at).get() == row


def test_jobs_of_one_instant_spread_out(noon: datetime) -> None:
    for number in range(20):
        a_job(now=noon, key=f"job-{number}", schedule=every_minute(noon), jitter_seconds=3600)
    plan(noon + minutes(1))
    moments = set(Execution.objects.values_list("available_at", flat=True))
    assert len(moments) == 20
    assert max(moments) - min(moments) > minutes(30)


def test_a_run_that_was_asked_for_and_a_skipped_stretch_have_no_jitter(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), jitter_seconds=86_400, misfire=Misfire.SKIP)
    asked = runs.run(job, delay=minutes(7), now=noon)
    plan(noon + minutes(9))
    (stretch,) = rows.of(job, state=State.SKIPPED)
    assert stretch.available_at == stretch.fire_time == noon + minutes(1)
    assert Execution.objects.get(pk=asked.execution_id).available_at == noon + minutes(7)


def test_fires_that_are_made_up_for_come_at_once_when_their_jitter_has_passed_too(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), jitter_seconds=30, misfire=Misfire.FIRE_ALL)
    now = noon + minutes(60)
    plan(now)
    late = rows.of(job, fire_time__lt=now - seconds(30))
    assert len(late) == 59
    assert all(row.fire_time <= row.available_at < now for row in late)


# ── Un-planning while a fire waits for its jitter ────────────────────────────────────────────────────────────────


def test_a_pause_while_a_fire_waits_for_its_jitter_skips_it_with_the_reason(noon: datetime) -> None:
    """Its time has passed, so it is a fire of the past: it is told, and does not come after all when resumed."""
    job = a_job(now=noon, key="report", schedule=every_minute(noon), jitter_seconds=30, max_fires=5)
    row = one_that_waits(job, noon + minutes(1))
    now = noon + minutes(1) + seconds(1)
    definitions.pause(job, reason="quiet", now=now)
    row.refresh_from_db()
    assert (row.state, row.reason, row.skipped_until) == (State.SKIPPED, "paused: quiet", None)
    assert schedule_of(job).fires_left == 5
    definitions.resume(job, now=now + seconds(10))
    assert plan(now + seconds(10)) == 0
    assert schedule_of(job).next_fire_at == noon + minutes(2)


def test_an_edit_while_a_fire_waits_for_its_jitter_skips_it_and_goes_on_with_the_next(noon: datetime) -> None:
    job = a_job(now=noon, key="report", schedule=every_minute(noon), jitter_seconds=30)
    row = one_that_waits(job, noon + minutes(1))
    definitions.change(job, version=1, priority=9, now=noon + minutes(1) + seconds(1))
    row.refresh_from_db()
    assert (row.state, row.reason) == (State.SKIPPED, "the job was changed before this was published")
    assert plan(noon + minutes(2)) == 1
    assert [each.fire_time for each in rows.of(job, state=State.SCHEDULED)] == [noon + minutes(2)]


def test_an_edit_of_the_jitter_before_the_fire_plans_it_anew_with_the_other_one(noon: datetime) -> None:
    job = a_job(now=noon, key="report", schedule=every_minute(noon), jitter_seconds=30)
    one_that_waits(job, noon + minutes(1))
    definitions.change(job, version=1, jitter_seconds=0, now=noon + seconds(59))
    assert rows.of(job) == []
    assert plan(noon + seconds(59)) == 1
    (row,) = rows.of(job)
    assert row.available_at == row.fire_time == noon + minutes(1)


def test_a_job_whose_last_fire_still_waits_for_its_jitter_is_not_completed(noon: datetime) -> None:
    job = a_job(now=noon, key="report", schedule=Once(noon + minutes(1)), jitter_seconds=30)
    one_that_waits(job, noon + minutes(1))
    assert definitions.complete_ended(noon + minutes(1) + seconds(1)) == 0


# ── What people see ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_sentence_of_a_schedule_tells_its_jitter(noon: datetime) -> None:
    bounded = Within(Cron("0 3 * * *", "Europe/Berlin"), end=noon + timedelta(days=30))
    job = a_job(now=noon, schedule=bounded, jitter_seconds=30, max_fires=5)
    assert schedule_of(job).in_words == (
        "Every day at 03:00, Berlin, until 15 July 2026 12:00 UTC, up to 30 seconds later, 5 times"
    )


def test_a_jobs_page_shows_its_policies(admin_client: Client, noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), misfire=Misfire.FIRE_ALL, misfire_limit=321, jitter_seconds=4321)
    page = admin_client.get(f"/admin/onbeat_jobs/job/{job.pk}/change/").content.decode()
    for shown in ("of older ones the latest 321 run.", "A fire comes up to 1 h 12 min later"):
        assert shown in page
