"""How jobs and schedules end: archived, out of fires, past their end, or after so many fires."""

from datetime import datetime, timedelta

import pytest

from beat.upkeep.keeper import Upkeep
from executions import lifecycle, run_keys
from executions.models import Execution, RunKey
from executions.outcomes import Claim
from executions.states import State
from jobs import definitions, runs
from jobs.models import Change, Job, JobState, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidRun, Refused
from tests import rows
from tests.firing import plan
from tests.making import a_job, claimed, every_minute, no_leases, planned, seconds
from tests.rows import schedule_of

pytestmark = pytest.mark.django_db


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def state_of(job: Job) -> str:
    return Job.objects.get(pk=job.pk).state


def run_all(job: Job, now: datetime) -> None:
    for row in rows.of(job, state=State.SCHEDULED):
        lifecycle.succeed(claimed(row, now=now), result=None, now=now)


# ── Archive ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_archived_job_frees_its_key_and_keeps_its_history(noon: datetime) -> None:
    old = a_job(now=noon, key="report", schedule=every_minute(noon))
    plan(noon + seconds(58))
    archived = definitions.archive("report", reason="no longer needed", now=noon + seconds(59))
    assert archived.state == JobState.ARCHIVED
    assert rows.of(old) == []
    assert (schedule_of(old).is_active, schedule_of(old).next_fire_at) == (False, None)
    assert plan(noon + minutes(9)) == 0
    new = a_job(now=noon, key="report", schedule=every_minute(noon))
    assert new.pk != old.pk
    assert [version.change for version in old.versions.all()] == [Change.ARCHIVED, Change.CREATED]


def test_a_planned_fire_whose_time_has_come_is_skipped_by_archiving(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    plan(noon + seconds(58))
    definitions.archive(job, now=noon + minutes(1))
    (row,) = rows.of(job)
    assert (row.state, row.reason) == (State.SKIPPED, "the job was archived before this was published")


def test_archiving_when_fires_were_missed_leaves_a_row_that_says_so(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    definitions.archive(job, now=noon + minutes(4.5))
    (row,) = rows.of(job)
    assert (row.fire_time, row.skipped_until, row.skipped_count) == (noon + minutes(1), noon + minutes(4), 4)
    assert row.reason == "misfire: no beat could plan these in time, and then the job was archived"


def test_archiving_a_paused_job_tells_the_fires_of_the_pause(noon: datetime) -> None:
    job = definitions.pause(a_job(now=noon, schedule=every_minute(noon)), reason="quiet", now=noon)
    definitions.archive(job, now=noon + minutes(4.5))
    assert [(row.reason, row.skipped_count) for row in rows.of(job)] == [("paused: quiet", 4)]
    assert definitions.resume_due(noon + timedelta(days=1)) == 0


def test_runs_that_were_asked_for_still_run_after_archiving_and_new_ones_are_refused(noon: datetime) -> None:
    job = a_job(now=noon, key="report", schedule=every_minute(noon))
    asked = runs.run(job, run_at=noon + minutes(1), run_key="later", now=noon)
    archived = definitions.archive(job, now=noon)
    assert isinstance(lifecycle.claim(asked.execution_id, 1, worker="w", now=noon + minutes(1)), Claim)
    before = rows.everything()
    with pytest.raises(InvalidRun, match="is ARCHIVED and runs no more; create it anew") as refusal:
        runs.run(archived, now=noon)
    assert refusal.value.field == "job"
    with pytest.raises(Refused, match="The job 'report' is over; create it anew"):
        runs.run("report", now=noon)
    assert rows.everything() == before


def test_a_job_that_was_read_before_it_was_archived_runs_no_more(noon: datetime) -> None:
    read_before = a_job(now=noon)
    definitions.archive(read_before.key, now=noon)
    with pytest.raises(Refused):
        runs.run(read_before, now=noon)


def test_a_run_asked_of_a_job_that_was_read_before_a_change_runs_as_the_job_says_now(noon: datetime) -> None:
    read_before = a_job(now=noon, kwargs={"price": 1})
    definitions.change(read_before.key, version=1, kwargs={"price": 2}, now=noon)
    asked = runs.run(read_before, now=noon)
    assert Execution.objects.get(pk=asked.execution_id).kwargs == {"price": 2}


# ── Start and end ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_start_does_not_fire_by_itself(noon: datetime) -> None:
    start = noon + minutes(2.5)
    job = a_job(now=noon, schedule=Within(Cron("*/5 * * * *"), start=start))
    assert schedule_of(job).next_fire_at == noon + minutes(5)
    assert plan(start) == 0


@pytest.mark.parametrize("offset", [0, 1])
def test_bounds_include_a_fire_that_falls_on_them(offset: int, noon: datetime) -> None:
    """Start and end count; a microsecond past them does not."""
    inward = timedelta(microseconds=offset)
    job = a_job(
        now=noon, schedule=Within(every_minute(noon), start=noon + minutes(2) + inward, end=noon + minutes(4) - inward)
    )
    for step in range(0, 360, 4):
        plan(noon + seconds(step))
    fired = [row.fire_time for row in rows.of(job, state=State.SCHEDULED)]
    assert fired == [noon + minutes(n) for n in ((2, 3, 4) if offset == 0 else (3,))]
    assert schedule_of(job).next_fire_at is None


# ── So many fires ────────────────────────────────────────────────────────────────────────────────────────────────


def test_after_so_many_fires_there_are_no_more(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Every(1, noon), max_fires=7)
    assert plan(noon) == 5
    assert plan(noon + seconds(5)) == 2
    assert plan(noon + seconds(60)) == 0
    assert (schedule_of(job).fires_left, schedule_of(job).next_fire_at) == (0, None)


def test_skipped_fires_do_not_count(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), max_fires=3)
    late = noon + timedelta(hours=4, seconds=30)
    plan(late)  # the beat was down: two fires run, the others are one row
    assert len(rows.of(job, state=State.SCHEDULED)) == 2
    assert schedule_of(job).fires_left == 1
    lifecycle.mark_queued(rows.of(job, state=State.SCHEDULED), now=late)
    definitions.pause(job, reason="quiet", now=late)
    definitions.resume(job, now=noon + timedelta(hours=5, seconds=30))
    assert schedule_of(job).fires_left == 1


@pytest.mark.parametrize("most", [5, 6])
def test_fires_that_are_taken_back_are_given_back(most: int, noon: datetime) -> None:
    """Also when they were the last ones and the schedule stood at its end already."""
    job = a_job(now=noon, schedule=Every(1, noon), max_fires=most)
    plan(noon)
    definitions.pause(job, reason="quiet", now=noon + seconds(0.5))
    assert (schedule_of(job).fires_left, schedule_of(job).next_fire_at) == (most, noon + seconds(1))
    definitions.resume(job, now=noon + seconds(0.5))
    assert plan(noon + seconds(0.5)) == 5
    plan(noon + seconds(9))
    assert len(rows.of(job)) == most


def test_a_planned_fire_that_is_skipped_because_of_an_edit_does_not_count(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), max_fires=1)
    plan(noon + seconds(58))
    definitions.change(job, version=1, priority=7, now=noon + seconds(61))
    assert [row.state for row in rows.of(job)] == [State.SKIPPED]
    assert (schedule_of(job).fires_left, schedule_of(job).next_fire_at) == (1, noon + minutes(2))


def test_another_schedule_or_another_number_counts_anew_and_another_payload_does_not(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), max_fires=3)
    plan(noon + seconds(58))
    now = noon + seconds(61)
    lifecycle.mark_queued(rows.of(job), now=now)
    definitions.change(job, version=1, kwargs={"a": 1}, now=now)
    assert schedule_of(job).fires_left == 2
    definitions.change(job, version=2, max_fires=2, now=now)
    assert schedule_of(job).fires_left == 2
    definitions.change(job, version=3, schedule=Every(30, noon), now=now)
    assert schedule_of(job).fires_left == 2
    definitions.change(job, version=4, max_fires=None, now=now)
    assert schedule_of(job).fires_left is None


# ── Completed ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_one_off_is_completed_when_its_run_is_over_and_not_before(noon: datetime) -> None:
    job = a_job(now=noon, key="reminder", schedule=Once(noon + seconds(3)))
    assert definitions.complete_ended(noon) == 0
    plan(noon)
    (row,) = rows.of(job)
    assert definitions.complete_ended(noon) == 0
    lifecycle.mark_queued([row], now=noon)
    assert definitions.complete_ended(noon) == 0
    claim = claimed(row, now=noon)
    assert definitions.complete_ended(noon) == 0
    lifecycle.fail(claim, error="x", now=noon)
    assert definitions.complete_ended(noon) == 0
    row.refresh_from_db()
    lifecycle.succeed(claimed(row, now=noon), result=None, now=noon)
    assert definitions.complete_ended(noon + minutes(9)) == 1
    assert definitions.complete_ended(noon + minutes(9)) == 0
    stored = Job.objects.get(pk=job.pk)
    assert (stored.state, stored.version, stored.changed_at) == (JobState.COMPLETED, 2, noon + minutes(9))
    assert not schedule_of(job).is_active
    version = job.versions.first()
    assert version is not None
    assert (version.version, version.change, version.through) == (2, Change.COMPLETED, "beat")
    assert version.definition["schedule"]["kind"] == "ONCE"
    a_job(now=noon, key="reminder")


def test_a_run_that_somebody_asked_for_keeps_a_job_from_completion(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Once(noon + seconds(3)))
    plan(noon)
    run_all(job, noon)
    asked = runs.run(job, delay=timedelta(days=40), now=noon)
    assert definitions.complete_ended(noon) == 0
    lifecycle.cancel([asked.execution_id], reason="x", now=noon)
    assert definitions.complete_ended(noon) == 1


def test_neither_paused_jobs_nor_those_without_a_schedule_are_completed(noon: datetime) -> None:
    unscheduled = a_job(now=noon)
    one_off = a_job(now=noon, schedule=Once(noon + seconds(3)))
    plan(noon)
    run_all(one_off, noon)
    definitions.pause(one_off, reason="wait", now=noon)
    assert definitions.complete_ended(noon) == 0
    definitions.resume(one_off, now=noon)
    assert definitions.complete_ended(noon) == 1
    assert state_of(unscheduled) == JobState.ACTIVE


def test_completion_is_bounded_and_comes_to_all_in_the_end(noon: datetime) -> None:
    jobs = [a_job(now=noon, schedule=Once(noon + seconds(1))) for _ in range(5)]
    plan(noon)
    for job in jobs:
        run_all(job, noon)
    assert [definitions.complete_ended(noon, limit=2) for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.usefixtures("broker")
def test_a_schedule_broken_behind_our_back_does_not_keep_the_others_from_completion(noon: datetime) -> None:
    jobs = [a_job(now=noon, schedule=Once(noon + seconds(1))) for _ in range(2)]
    plan(noon)
    for job in jobs:
        run_all(job, noon)
    Schedule.objects.filter(job=jobs[0]).update(kind="CRON", timezone="Mars/Olympus")
    Upkeep(no_leases()).run_due(noon)
    assert state_of(jobs[1]) == JobState.COMPLETED


# ── Names of runs that are over ──────────────────────────────────────────────────────────────────────────────────


def test_names_of_runs_that_are_over_are_forgotten_a_batch_at_a_time(noon: datetime) -> None:
    job = a_job(now=noon)
    for number in range(5):
        runs.run(job, run_key=f"done-{number}", delay=seconds(number), now=noon)
    runs.run(job, run_key="open", delay=seconds(9), now=noon)
    lifecycle.cancel([row.pk for row in rows.of(job) if row.run_key != "open"], reason="x", now=noon)
    assert run_keys.forget_ended(noon - seconds(1)) == 0
    now = noon + seconds(9)
    assert [run_keys.forget_ended(now, limit=2) for _ in range(4)] == [2, 2, 1, 0]
    kept = RunKey.objects.get()
    assert (kept.key, kept.look_at) == ("open", now + minutes(10))
    run_all(job, now)
    assert run_keys.forget_ended(now + minutes(10) - seconds(1)) == 0
    assert run_keys.forget_ended(now + minutes(10)) == 1


def test_a_name_whose_run_was_dropped_with_its_month_is_forgotten(noon: datetime) -> None:
    job = a_job(now=noon)
    runs.run(job, run_key="old", now=noon)
    Execution.objects.all().delete()
    assert run_keys.forget_ended(noon) == 1
    assert planned(job, noon).run_key == ""
