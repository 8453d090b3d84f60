"""A schedule that two want to move on: planners, edits, pauses, and the beat that publishes at that moment."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from executions import lifecycle
from executions.models import Execution
from executions.outcomes import Claim
from executions.states import State
from jobs import definitions
from jobs.models import Job, Schedule
from jobs.recurrence import Once
from jobs.refusals import StaleVersion
from tests.making import a_job, a_planner, every_minute, planned, seconds
from tests.races.connections import elsewhere, several, waits_for_us

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
ROUNDS = 40


def pause(job: Job, *, now: datetime) -> None:
    definitions.pause(job, reason="maintenance", now=now)


def change(job: Job, *, now: datetime) -> None:
    definitions.change(job, version=job.version, kwargs={"edited": True}, now=now)


def archive(job: Job, *, now: datetime) -> None:
    definitions.archive(job, now=now)


UNPLANNERS = [pause, change, archive]


def test_two_planners_of_one_fire_make_one_row(noon: datetime) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    with several(2) as start_both:
        for minute in range(1, ROUNDS + 1):
            now = noon + timedelta(minutes=minute)
            planned = start_both(*(partial(a_planner(name).plan_due, now=now) for name in ("a", "b")))
            assert sum(each.fires for each in planned) <= 1
    # A planner that finds the row locked leaves it to the other, so after each round the fire is there.
    assert Execution.objects.count() == ROUNDS
    assert Schedule.objects.get().version == 1 + ROUNDS


def test_an_edit_that_is_not_committed_yet_makes_the_planner_pass_by(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    now = noon + seconds(57)
    with transaction.atomic():
        definitions.change(job, version=1, kwargs={"edited": True}, now=now)
        assert elsewhere(lambda: a_planner().plan_due(now=now).fires) == 0
    assert not Execution.objects.exists()
    assert elsewhere(lambda: a_planner().plan_due(now=now).fires) == 1
    assert Execution.objects.get().kwargs == {"edited": True}


def test_an_edit_waits_for_the_plan_and_takes_its_rows_back(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    now = noon + seconds(57)
    with transaction.atomic():
        assert a_planner().plan_due(now=now).fires == 1
        edit = waits_for_us(lambda: definitions.change(job, version=1, kwargs={"edited": True}, now=now))
    assert edit.result(timeout=20).version == 2
    assert not Execution.objects.exists()
    assert Schedule.objects.get().next_fire_at == noon + seconds(60)
    a_planner().plan_due(now=now)
    assert Execution.objects.get().kwargs == {"edited": True}


def test_a_fire_that_is_planned_and_edited_at_once_exists_once_and_as_the_edit_says(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    with several(2) as start_both:
        for minute in range(1, ROUNDS + 1):
            now = noon + timedelta(minutes=minute) - seconds(3)
            edit = partial(definitions.change, job, version=minute, kwargs={"edit": minute}, now=now)
            start_both(partial(a_planner().plan_due, now=now), edit)
            a_planner().plan_due(now=now)
            fire = Execution.objects.get(job=job, fire_time=noon + timedelta(minutes=minute))
            assert fire.kwargs == {"edit": minute}
    assert Execution.objects.count() == ROUNDS


@pytest.mark.parametrize("unplan", UNPLANNERS)
@pytest.mark.parametrize("is_coming", [True, False], ids=["coming", "passed"])
def test_an_unplan_that_commits_first_leaves_the_beat_nothing_to_mark(
    noon: datetime, unplan: Callable[..., None], is_coming: bool
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon + seconds(30)))
    fire = planned(job, noon + seconds(2))
    now = noon + seconds(1 if is_coming else 3)
    with transaction.atomic():
        unplan(job, now=now)
        # The beat does not wait for an app's transaction: what is held is left for later.
        assert elsewhere(lambda: lifecycle.mark_queued([fire], now=noon + seconds(4))) == 0
    assert elsewhere(lambda: lifecycle.mark_queued([fire], now=noon + seconds(4))) == 0
    left = [] if is_coming else [State.SKIPPED]
    assert list(Execution.objects.values_list("state", flat=True)) == left


@pytest.mark.parametrize("unplan", UNPLANNERS)
def test_a_publish_that_commits_first_is_not_taken_back(noon: datetime, unplan: Callable[..., None]) -> None:
    job = a_job(now=noon, schedule=every_minute(noon + seconds(30)))
    fire = planned(job, noon + seconds(2))
    with transaction.atomic():
        assert lifecycle.mark_queued([fire], now=noon + seconds(2)) == 1
        taken_back = waits_for_us(partial(unplan, job, now=noon + seconds(2)))
    taken_back.result(timeout=20)
    fire.refresh_from_db()
    assert fire.state == State.QUEUED
    assert Schedule.objects.get().next_fire_at in (None, noon + seconds(30))


@pytest.mark.parametrize("unplan", UNPLANNERS)
@pytest.mark.parametrize("limit", [None, 1])
def test_an_unplan_that_commits_first_leaves_the_worker_nothing_to_claim(
    noon: datetime, unplan: Callable[..., None], limit: int | None
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon + seconds(30)), max_concurrency=limit)
    fire = planned(job, noon + seconds(2))
    with transaction.atomic():
        unplan(job, now=noon + seconds(1))
        claim = waits_for_us(lambda: lifecycle.claim(fire.pk, 1, worker="w", now=noon + seconds(2)))
    assert claim.result(timeout=20) is None
    assert not Execution.objects.exists()


@pytest.mark.parametrize("unplan", UNPLANNERS)
@pytest.mark.parametrize("limit", [None, 1])
def test_a_claim_that_commits_first_is_not_taken_back(
    noon: datetime, unplan: Callable[..., None], limit: int | None
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon + seconds(30)), max_concurrency=limit)
    fire = planned(job, noon + seconds(2))
    with transaction.atomic():
        assert isinstance(lifecycle.claim(fire.pk, 1, worker="w", now=noon + seconds(2)), Claim)
        taken_back = waits_for_us(partial(unplan, job, now=noon + seconds(1)))
    taken_back.result(timeout=20)
    fire.refresh_from_db()
    assert (fire.state, fire.worker) == (State.RUNNING, "w")


@pytest.mark.parametrize("act", ["publish", "claim"])
def test_of_an_unplan_and_a_beat_or_worker_at_once_one_has_the_fire(noon: datetime, act: str) -> None:
    job = a_job(now=noon, schedule=Once(noon + timedelta(days=1)))
    with several(2) as start_both:
        for number in range(1, ROUNDS + 1):
            fire = planned(job, noon + timedelta(minutes=number))
            now = fire.fire_time - seconds(1)
            acts: dict[str, Callable[[], Any]] = {
                "publish": partial(lifecycle.mark_queued, [fire], now=fire.fire_time),
                "claim": partial(lifecycle.claim, fire.pk, 1, worker="w", now=now),
            }
            _, done = start_both(partial(definitions.pause, job, reason="maintenance", now=now), acts[act])
            assert bool(done) == Execution.objects.filter(pk=fire.pk).exists()
            # What was taken back is where the schedule stands again: it will be planned anew, not lost.
            schedule = Schedule.objects.get()
            assert schedule.next_fire_at == (noon + timedelta(days=1) if done else fire.fire_time)
            Schedule.objects.update(next_fire_at=noon + timedelta(days=1), is_active=True)


def test_the_second_edit_of_one_version_waits_and_is_refused(noon: datetime) -> None:
    job = a_job(now=noon)
    with transaction.atomic():
        definitions.change(job, version=1, owner="first", now=noon)
        second = waits_for_us(lambda: definitions.change(job, version=1, owner="second", now=noon))
    with pytest.raises(StaleVersion):
        second.result(timeout=20)
    assert Job.objects.get().owner == "first"


def test_an_edit_after_one_that_was_rolled_back_is_made(noon: datetime) -> None:
    job = a_job(now=noon)
    with transaction.atomic():
        definitions.change(job, version=1, owner="first", now=noon)
        second = waits_for_us(lambda: definitions.change(job, version=1, owner="second", now=noon))
        transaction.set_rollback(True)
    assert second.result(timeout=20).version == 2
    assert Job.objects.get().owner == "second"


def test_of_two_edits_of_one_version_at_once_exactly_one_is_made(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))

    def edit(version: int, owner: str) -> bool:
        try:
            definitions.change(job, version=version, owner=owner, now=noon)
        except StaleVersion:
            return False
        return True

    with several(2) as start_both:
        for version in range(1, ROUNDS + 1):
            made = start_both(*(partial(edit, version, f"{name}{version}") for name in "ab"))
            assert sorted(made) == [False, True]
            assert Job.objects.get().owner == f"{'ab'[made.index(True)]}{version}"
    assert list(job.versions.values_list("version", flat=True)) == list(range(ROUNDS + 1, 0, -1))
