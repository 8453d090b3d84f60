"""Pause and resume: nothing fires meanwhile, the pause leaves one row, and resuming never fires the past."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from beat.upkeep.keeper import Upkeep
from executions import lifecycle
from executions.models import Execution
from executions.outcomes import Claim
from executions.states import State, Trigger
from jobs import definitions, runs
from jobs.models import Change, Job, JobState, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidDefinition
from tests import rows
from tests.firing import plan
from tests.making import a_job, every_minute, no_leases, seconds
from tests.rows import everything, schedule_of

pytestmark = pytest.mark.django_db


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def paused(now: datetime, *, until: datetime | None = None, **given: Any) -> Job:
    given.setdefault("schedule", every_minute(now))
    return definitions.pause(a_job(now=now, **given), reason="too loud", by="ada", until=until, now=now)


# ── Pause ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pause_says_why_by_whom_and_until_when(noon: datetime) -> None:
    job = Job.objects.get(pk=paused(noon, until=noon + minutes(30)).pk)
    assert (job.state, job.paused_reason, job.paused_by) == (JobState.PAUSED, "too loud", "ada")
    assert job.paused_until == noon + minutes(30)
    assert not schedule_of(job).is_active


@pytest.mark.parametrize("wait", [timedelta(0), minutes(-1)])
def test_a_pause_that_would_have_ended_already_is_refused(wait: timedelta, noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    plan(noon + seconds(58))
    before, now = everything(), noon + seconds(59)
    with pytest.raises(InvalidDefinition, match="is past; choose a moment that is still to come") as refusal:
        definitions.pause(job, reason="x", until=now + wait, now=now)
    assert refusal.value.field == "until"
    assert everything() == before


def test_a_pause_takes_back_what_was_planned_and_nothing_is_planned_meanwhile(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Every(1, noon))
    assert plan(noon) == 5
    definitions.pause(job, reason="quiet", now=noon + seconds(2))
    assert [row.state for row in rows.of(job)] == [State.SKIPPED, State.SKIPPED]
    assert {row.reason for row in rows.of(job)} == {"paused: quiet"}
    assert schedule_of(job).next_fire_at == noon + seconds(3)
    assert plan(noon + minutes(5)) == 0


def test_a_fire_taken_back_by_a_pause_comes_once_if_the_pause_ends_before_it(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    plan(noon + seconds(56))
    definitions.pause(job, reason="quiet", now=noon + seconds(57))
    definitions.resume(job, now=noon + seconds(58))
    assert plan(noon + seconds(58)) == 1
    assert [(row.fire_time, row.state) for row in rows.of(job)] == [(noon + minutes(1), State.SCHEDULED)]


def test_pausing_twice_keeps_the_later_word(noon: datetime) -> None:
    job = paused(noon, until=noon + minutes(30))
    again = definitions.pause(job, reason="longer", by="bob", now=noon + minutes(2))
    assert (again.paused_reason, again.paused_by, again.paused_until) == ("longer", "bob", None)
    assert (again.version, schedule_of(job).is_active) == (3, False)
    assert [version.change for version in job.versions.all()] == [Change.PAUSED, Change.PAUSED, Change.CREATED]
    assert definitions.resume_due(noon + timedelta(days=1)) == 0
    definitions.resume(job, now=noon + minutes(5))
    (row,) = rows.of(job)
    assert row.skipped_count == 5


def test_a_job_without_a_schedule_can_be_paused_and_resumed(noon: datetime) -> None:
    job = paused(noon, schedule=None)
    assert definitions.resume(job, now=noon).state == JobState.ACTIVE


def test_fires_missed_before_a_pause_do_not_blame_the_pause(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    definitions.pause(job, reason="quiet", now=noon + minutes(10.5))
    definitions.resume(job, now=noon + minutes(12.5))
    found = [(row.fire_time, row.skipped_count, row.reason.split(":")[0]) for row in rows.of(job)]
    assert found == [(noon + minutes(1), 10, "misfire"), (noon + minutes(11), 2, "paused")]


# ── Resume ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_fires_of_a_pause_are_one_row_and_the_next_comes_after_now(noon: datetime) -> None:
    job = paused(noon)
    now = noon + minutes(10)
    resumed = definitions.resume(job, now=now)
    assert (resumed.state, resumed.paused_reason, resumed.paused_by) == (JobState.ACTIVE, "", "")
    (row,) = rows.of(job)
    assert (row.state, row.trigger, row.finished_at) == (State.SKIPPED, Trigger.SCHEDULE, now)
    assert (row.fire_time, row.skipped_until, row.skipped_count) == (noon + minutes(1), now, 10)
    assert row.reason == "paused: too loud"
    assert schedule_of(job).next_fire_at == noon + minutes(11)
    assert plan(now) == 0
    assert plan(noon + minutes(10.95)) == 1


def test_a_pause_with_one_fire_or_none(noon: datetime) -> None:
    one, none = paused(noon), paused(noon)
    definitions.resume(one, now=noon + minutes(1))
    definitions.resume(none, now=noon + seconds(59))
    (row,) = rows.of(one)
    assert (row.fire_time, row.skipped_until, row.skipped_count) == (noon + minutes(1), noon + minutes(1), 1)
    assert rows.of(none) == []


def test_a_very_long_pause_is_told_without_a_count(noon: datetime) -> None:
    job = paused(noon, schedule=Every(1, noon))
    definitions.resume(job, now=noon + timedelta(days=400))
    (row,) = rows.of(job)
    assert (row.skipped_count, row.skipped_until) == (None, noon + timedelta(days=400))


def test_resuming_an_active_job_changes_nothing(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    plan(noon + seconds(58))
    before = everything()
    assert definitions.resume(job, now=noon + minutes(9)).version == 1
    assert everything() == before


def test_a_schedule_that_ended_during_the_pause_fires_no_more(noon: datetime) -> None:
    job = paused(noon, schedule=Within(every_minute(noon), end=noon + minutes(3)))
    definitions.resume(job, now=noon + minutes(9))
    (row,) = rows.of(job)
    assert (row.skipped_count, row.skipped_until) == (3, noon + minutes(3))
    assert schedule_of(job).next_fire_at is None
    assert definitions.complete_ended(noon + minutes(9)) == 1


def test_a_one_off_of_the_pause_is_told_and_does_not_run(noon: datetime) -> None:
    job = paused(noon, schedule=Once(noon + minutes(1)))
    definitions.resume(job, now=noon + minutes(2))
    assert [row.state for row in rows.of(job)] == [State.SKIPPED]
    assert plan(noon + minutes(2)) == 0


def test_pausing_and_resuming_again_and_again_tells_each_fire_once(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    for number in range(5):
        definitions.pause(job, reason=f"{number}", now=noon + minutes(10 * number))
        definitions.resume(job, now=noon + minutes(10 * number + 10))
    assert sum(row.skipped_count or 0 for row in rows.of(job)) == 50
    assert len(rows.of(job)) == 5


# ── A pause that ends by itself ──────────────────────────────────────────────────────────────────────────────────


def test_a_pause_ends_at_its_moment_and_not_before(noon: datetime) -> None:
    job = paused(noon, until=noon + minutes(30))
    other = paused(noon)
    assert definitions.resume_due(noon + minutes(30) - timedelta(microseconds=1)) == 0
    assert definitions.resume_due(noon + minutes(30)) == 1
    assert definitions.resume_due(noon + minutes(30)) == 0
    assert Job.objects.get(pk=job.pk).paused_until is None
    assert Job.objects.get(pk=other.pk).state == JobState.PAUSED
    version = job.versions.first()
    assert version is not None
    assert (version.change, version.through) == (Change.RESUMED, "beat")


def test_pauses_end_a_bounded_number_at_a_time_the_earliest_first(noon: datetime) -> None:
    jobs = [paused(noon, until=noon + minutes(10 - number)) for number in range(5)]
    assert definitions.resume_due(noon + minutes(30), limit=2) == 2
    still = set(Job.objects.filter(state=JobState.PAUSED).values_list("pk", flat=True))
    assert still == {job.pk for job in jobs[:3]}


def test_a_job_that_is_archived_at_that_moment_does_not_keep_the_others_paused(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (paused(noon, until=noon + minutes(number)) for number in (1, 2, 3))
    resume = definitions.resume

    def archive_another_first(job: Job, **given: Any) -> Job:
        if job.pk == first.pk:
            definitions.archive(second, now=noon)
        return resume(job, **given)

    monkeypatch.setattr(definitions, "resume", archive_another_first)
    definitions.resume_due(noon + minutes(9))
    states = dict(Job.objects.values_list("pk", "state"))
    assert states == {first.pk: JobState.ACTIVE, second.pk: JobState.ARCHIVED, third.pk: JobState.ACTIVE}


def test_a_pause_that_was_prolonged_at_that_moment_goes_on(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (paused(noon, until=noon + minutes(number)) for number in (1, 2))
    resume = definitions.resume

    def prolong_another_first(job: Job, **given: Any) -> Job:
        if job.pk == first.pk:
            definitions.pause(second, reason="longer", until=noon + minutes(99), now=noon + minutes(1))
        return resume(job, **given)

    monkeypatch.setattr(definitions, "resume", prolong_another_first)
    definitions.resume_due(noon + minutes(9))
    assert Job.objects.get(pk=second.pk).state == JobState.PAUSED


def broken(job: Job) -> Job:
    """Its zone is no longer known: by SQL, or by a newer zone database."""
    Schedule.objects.filter(job=job).update(kind="CRON", expression="0 3 * * *", timezone="Mars/Olympus")
    return job


@pytest.mark.usefixtures("broker")
def test_a_schedule_broken_behind_our_back_does_not_stop_the_duties_of_the_beat(noon: datetime) -> None:
    broken(paused(noon, until=noon + minutes(1)))
    fine = paused(noon, until=noon + minutes(2))
    Upkeep(no_leases()).run_due(noon + minutes(3))
    assert Job.objects.get(pk=fine.pk).state == JobState.ACTIVE


@pytest.mark.parametrize("late", [0, 5], ids=["before its fire", "after its fire"])
def test_a_job_with_a_schedule_broken_behind_our_back_can_be_archived(late: int, noon: datetime) -> None:
    job = broken(a_job(now=noon, schedule=every_minute(noon)))
    definitions.archive(job, now=noon + minutes(late))
    assert plan(noon + minutes(9)) == 0


@pytest.mark.parametrize("late", [0, 5], ids=["before its fire", "after its fire"])
def test_a_job_with_a_schedule_broken_behind_our_back_can_be_given_another(late: int, noon: datetime) -> None:
    job = broken(a_job(now=noon, schedule=every_minute(noon)))
    definitions.change(job, version=1, schedule=Cron("0 3 * * *"), now=noon + minutes(late))
    assert schedule_of(job).next_fire_at == noon + timedelta(hours=15)


# ── Asked-for runs ───────────────────────────────────────────────────────────────────────────────────────────────


def test_asked_for_runs_and_retries_of_a_paused_job_still_run(noon: datetime, settings: Settings) -> None:
    job = paused(noon)
    asked = runs.run(job, now=noon)
    assert [row.pk for row in Execution.objects.due(noon)] == [asked.execution_id]
    claim = lifecycle.claim(asked.execution_id, 1, worker="w", now=noon)
    assert isinstance(claim, Claim)
    lifecycle.fail(claim, error="x", now=noon)
    assert Execution.objects.due(noon + timedelta(hours=1)).count() == 1


@pytest.mark.parametrize("late", [0, 4, 3600])
def test_a_pause_that_was_set_to_end_covers_no_fire_at_or_after_its_end(late: int, noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    end = noon + timedelta(minutes=3)
    definitions.pause(job, reason="quiet", until=end, now=noon)
    assert definitions.resume_due(end + seconds(late)) == 1
    skipped = Execution.objects.get(job=job)
    assert (skipped.fire_time, skipped.skipped_until, skipped.skipped_count) == (
        noon + timedelta(minutes=1),
        noon + timedelta(minutes=2),
        2,
    )
    assert Schedule.objects.get(job=job).next_fire_at == end
