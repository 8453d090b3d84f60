"""Backfills at once, and against a beat that plans the same schedule at that moment."""

from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from executions import lifecycle
from executions.models import Execution
from executions.states import State
from jobs import definitions
from jobs.backfill import backfill
from jobs.models import Job, Schedule
from jobs.refusals import InvalidRun
from tests.making import a_job, a_planner, every_minute, planned
from tests.races.connections import elsewhere, several, waits_for_us

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
ROUNDS = 8


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon, schedule=every_minute(noon))


def covered() -> Counter[datetime]:
    """How often each minute is told, by a row of its own or by a stretch."""
    told: Counter[datetime] = Counter()
    for row in Execution.objects.all():
        last = row.skipped_until or row.fire_time
        told.update(row.fire_time + minutes(each) for each in range((last - row.fire_time) // minutes(1) + 1))
    return told


def test_of_two_backfills_of_one_range_at_once_one_makes_each_row(job: Job, noon: datetime) -> None:
    Schedule.objects.update(next_fire_at=noon + timedelta(days=9))
    with several(2) as start_both:
        for number in range(ROUNDS):
            start = noon + timedelta(hours=number)
            stretch = job.new_skipped_row(start + minutes(2), start + minutes(9), 8, reason="misfire", now=noon)
            lifecycle.record_skipped([stretch], now=noon)
            asked = {"start": start, "end": start + minutes(5), "now": noon + timedelta(days=2)}
            one, other = start_both(*(partial(backfill, job, by=name, **asked) for name in "ab"))
            assert sorted([(one.new, one.revived, one.kept), (other.new, other.revived, other.kept)]) == [
                (0, 0, 6),
                (2, 4, 0),
            ]
    assert set(covered().values()) == {1}
    assert len(covered()) == ROUNDS * 10
    assert Execution.objects.filter(state=State.SKIPPED, skipped_count=4).count() == ROUNDS


def test_of_two_backfills_that_overlap_each_fire_gets_one_row(job: Job, noon: datetime) -> None:
    with transaction.atomic():
        backfill(job, start=noon - minutes(9), end=noon - minutes(3), by="first", now=noon)
        second = waits_for_us(partial(backfill, job, start=noon - minutes(5), end=noon, by="second", now=noon))
    done = second.result(timeout=20)
    assert (done.new, done.kept) == (3, 3)
    assert covered() == {noon - minutes(each): 1 for each in range(10)}


def test_a_backfill_after_one_that_was_rolled_back_makes_all_rows(job: Job, noon: datetime) -> None:
    with transaction.atomic():
        backfill(job, start=noon - minutes(9), end=noon, now=noon)
        second = waits_for_us(partial(backfill, job, start=noon - minutes(5), end=noon, now=noon))
        transaction.set_rollback(True)
    assert second.result(timeout=20).new == 6
    assert Execution.objects.count() == 6


def test_a_backfill_waits_for_the_beat_that_records_a_misfire_and_takes_fires_out_of_it(
    job: Job, noon: datetime
) -> None:
    now = noon + minutes(20.5)
    with transaction.atomic():
        a_planner().plan_due(now=now)
        done = waits_for_us(partial(backfill, job, start=noon + minutes(5), end=noon + minutes(9), now=now))
    assert done.result(timeout=20).revived == 5
    assert covered() == {noon + minutes(each): 1 for each in range(1, 21)}


def test_a_beat_passes_by_a_backfill_and_records_the_misfire_after_it(job: Job, noon: datetime) -> None:
    now = noon + minutes(20.5)
    with transaction.atomic():
        done = backfill(job, start=noon - minutes(5), end=noon + minutes(9), now=now)
        assert elsewhere(lambda: a_planner().plan_due(now=now).fires) == 0
    assert (done.new, done.last) == (6, noon)  # the later ones were the beat's
    assert a_planner().plan_due(now=now).fires == 2
    assert covered() == {noon + minutes(each): 1 for each in range(-5, 21)}


@pytest.mark.parametrize("is_paused", [False, True])
def test_whoever_of_a_beat_and_a_backfill_is_first_each_fire_is_told_once(
    job: Job, noon: datetime, is_paused: bool
) -> None:
    def plan(now: datetime) -> None:
        if is_paused:
            definitions.resume(job, now=now)
        a_planner().plan_due(now=now)

    def ask(now: datetime) -> None:
        with suppress(InvalidRun):  # came first, and these are the beat's
            backfill(job, start=now - minutes(15), end=now - minutes(5), now=now)

    planned(job, noon)  # so that there is a fire for each in the first round, too
    with several(2) as start_both:
        for number in range(1, ROUNDS + 1):
            now = noon + minutes(20 * number + 0.5)
            if is_paused:
                definitions.pause(job, reason="maintenance", now=now - minutes(20))
            start_both(partial(plan, now), partial(ask, now))
            plan(now)
            assert covered() == {noon + minutes(each): 1 for each in range(20 * number + 1)}
