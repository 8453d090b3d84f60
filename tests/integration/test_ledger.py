"""The walk that compares the fires there should be with those that have a row."""

import random
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from executions import snapshots
from executions.models import Execution
from jobs import definitions, ledger
from jobs.ledger import Walk
from jobs.models import Job, Schedule
from tests.firing import plan
from tests.integration.minutely import a_minutely_job, go_on_from, minutes, skipped
from tests.integration.test_explaining_any_past import MINUTE, any_schedule, something
from tests.making import a_job, every_minute, planned
from tests.tiers import once_embedded

pytestmark = pytest.mark.django_db


@pytest.fixture
def noon(noon: datetime) -> datetime:
    """The walk begins a minute before."""
    ledger.go_on(noon)
    return noon


def walk_to(now: datetime) -> Walk:
    """As far as it goes."""
    before = None
    while (after := where()) != before:
        before = after
        ledger.go_on(now)
    return after


def where() -> Walk:
    kept = snapshots.kept(ledger.NAME)
    assert kept is not None
    return Walk(**kept.figures)


def fired_each_minute(job: Job, first: datetime, last: datetime) -> None:
    moment = first
    while moment <= last:
        planned(job, moment)
        moment += MINUTE
    go_on_from(job, moment)


def test_each_fire_with_a_row_is_expected_and_recorded(noon: datetime) -> None:
    job = a_minutely_job(noon)
    fired_each_minute(job, noon + minutes(1), noon + minutes(10))
    walk = walk_to(noon + minutes(10.5))
    assert (walk.expected, walk.recorded, walk.holes) == (9, 9, [])  # of the last minute it is not told yet
    walk = walk_to(noon + minutes(11.5))
    assert (walk.expected, walk.recorded) == (10, 10)


def test_a_fire_without_a_row_is_missing_and_told_with_its_job(
    noon: datetime, caplog: pytest.LogCaptureFixture
) -> None:
    job = a_minutely_job(noon, key="payroll")
    fired_each_minute(job, noon + minutes(1), noon + minutes(5))
    Execution.objects.filter(job=job, fire_time=noon + minutes(3)).delete()
    walk = walk_to(noon + minutes(6.5))
    assert (walk.expected, walk.recorded) == (5, 4)
    told = [line for line in caplog.messages if "has no row" in line]
    assert len(told) == 1
    assert "job=payroll" in told[0]
    assert "12:03:00" in told[0]
    assert walk_to(noon + minutes(8)).expected - walk.recorded == 1  # and it stays so, and is not told again
    assert len([line for line in caplog.messages if "has no row" in line]) == 1


def test_a_backfill_brings_the_figure_back_to_zero(noon: datetime) -> None:
    job = a_minutely_job(noon)
    fired_each_minute(job, noon + minutes(1), noon + minutes(5))
    Execution.objects.filter(job=job, fire_time=noon + minutes(3)).delete()
    assert len(walk_to(noon + minutes(6.5)).holes) == 1
    planned(job, noon + minutes(3))
    walk = walk_to(noon + minutes(7.5))
    assert (walk.holes, walk.expected - walk.recorded) == ([], 0)


def test_the_hole_of_a_job_that_was_deleted_is_none(noon: datetime) -> None:
    job = a_minutely_job(noon)
    fired_each_minute(job, noon + minutes(1), noon + minutes(2))
    Execution.objects.filter(job=job).delete()
    assert len(walk_to(noon + minutes(3.5)).holes) == 2
    Job.objects.filter(pk=job.pk).delete()
    assert walk_to(noon + minutes(4.5)).holes == []


def test_a_stretch_that_was_skipped_is_recorded_by_its_one_row(noon: datetime) -> None:
    job = a_minutely_job(noon)
    planned(job, noon + minutes(1))
    skipped(job, noon + minutes(2), noon + minutes(6), 5)
    planned(job, noon + minutes(7))
    go_on_from(job, noon + minutes(8))
    walk = walk_to(noon + minutes(8.5))
    assert (walk.expected, walk.recorded) == (7, 7)


def test_a_stretch_that_began_before_the_window_counts_in_it(noon: datetime) -> None:
    job = a_minutely_job(noon)
    go_on_from(job, noon + minutes(4))
    skipped(job, noon + minutes(1), noon + minutes(3), 3)
    assert walk_to(noon + minutes(3.5)).recorded == 2
    Execution.objects.filter(job=job).update(skipped_until=noon + minutes(6), skipped_count=6)
    go_on_from(job, noon + minutes(7))
    walk = walk_to(noon + minutes(7.5))
    assert (walk.expected, walk.recorded) == (6, 6)


def test_what_beats_are_behind_with_is_left_and_looked_at_when_they_came(noon: datetime) -> None:
    job, other = a_minutely_job(noon), a_minutely_job(noon)
    fired_each_minute(other, noon + minutes(1), noon + minutes(5))
    walk = walk_to(noon + minutes(6))
    assert (walk.expected, list(walk.left)) == (5, [str(job.pk)])
    fired_each_minute(job, noon + minutes(1), noon + minutes(5))
    Execution.objects.filter(job=job, fire_time=noon + minutes(2)).delete()
    fired_each_minute(other, noon + minutes(6), noon + minutes(9))
    walk = walk_to(noon + minutes(6.1))
    assert (walk.expected, walk.recorded, walk.left) == (10, 9, {})


def test_the_walk_waits_for_the_beats_where_too_many_are_behind(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_MOST_LEFT", 2)
    jobs = [a_minutely_job(noon) for _ in range(3)]
    before = walk_to(noon + minutes(5))
    assert before.expected == 0
    for job in jobs:
        fired_each_minute(job, noon + minutes(1), noon + minutes(5))
    walk = walk_to(noon + minutes(5.2))
    assert (walk.expected, walk.recorded) == (12, 12)


def test_a_pause_a_change_and_an_end_are_no_lost_fires(noon: datetime) -> None:
    job = a_minutely_job(noon)
    fired_each_minute(job, noon + minutes(1), noon + minutes(2))
    definitions.pause(job, reason="a holiday", now=noon + minutes(2.5))
    definitions.resume(Job.objects.get(pk=job.pk), now=noon + minutes(5.5))
    plan(noon + minutes(6))
    job = Job.objects.get(pk=job.pk)
    definitions.change(job, version=job.version, schedule=every_minute(noon + minutes(0.5)), now=noon + minutes(6.2))
    plan(noon + minutes(6.5))
    definitions.archive(Job.objects.get(pk=job.pk), now=noon + minutes(6.8))
    walk = walk_to(noon + minutes(20))
    assert walk.expected == walk.recorded == 4  # 1, 2, 6 and 6.5


@once_embedded
@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_missing_whatever_was_done_to_jobs(seed: int, noon: datetime) -> None:
    chance, now = random.Random(seed), noon
    jobs = [a_job(now=noon, schedule=any_schedule(chance, noon)) for _ in range(4)]
    for _ in range(60):
        now += timedelta(seconds=chance.choice([1, 7, 30, 60, 90, 200]))
        something(chance, chance.choice(jobs), now)
        if chance.random() < 0.5:
            ledger.go_on(now)
    plan(now)
    walk = walk_to(now + timedelta(seconds=65))
    assert (walk.holes, walk.expected - walk.recorded) == ([], 0)
    assert walk.expected


def test_of_two_beats_that_walk_at_once_one_does_so_in_vain(
    noon: datetime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = a_minutely_job(noon)
    fired_each_minute(job, noon + minutes(1), noon + minutes(5))
    Execution.objects.filter(job=job, fire_time=noon + minutes(3)).delete()
    own_step, has_met = ledger._step, []

    def step(walk: Walk, now: datetime) -> Walk:
        if not has_met:
            has_met.append(True)
            ledger.go_on(now - timedelta(seconds=1))  # the other is quicker
        return own_step(walk, now)

    monkeypatch.setattr(ledger, "_step", step)
    ledger.go_on(noon + minutes(6.5))
    walk = walk_to(noon + minutes(6.6))
    assert (walk.expected, walk.recorded) == (5, 4)
    assert len([line for line in caplog.messages if "has no row" in line]) == 1


def test_a_pass_that_runs_out_of_time_goes_on_where_it_stopped(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_JOBS_AT_ONCE", 2)
    monkeypatch.setattr(ledger, "_FIRES_AT_ONCE", 3)
    for _ in range(5):
        fired_each_minute(a_minutely_job(noon), noon + minutes(1), noon + minutes(4))
    steps = iter([True, True, False] * 100)
    own_step = ledger._step
    monkeypatch.setattr(ledger, "_step", lambda walk, now: own_step(walk, now) if next(steps) else walk)
    for _ in range(60):
        ledger.go_on(noon + minutes(5.5))
    walk = walk_to(noon + minutes(5.5))
    assert (walk.expected, walk.recorded) == (20, 20)


def test_a_schedule_that_nobody_can_read_holds_nothing_up(noon: datetime) -> None:
    job, broken = a_minutely_job(noon), a_minutely_job(noon)
    fired_each_minute(job, noon + minutes(1), noon + minutes(5))
    Schedule.objects.filter(job=broken).update(expression="x", next_fire_at=noon + minutes(90))
    walk = walk_to(noon + minutes(6.5))
    assert (walk.expected, walk.recorded) == (5, 5)


def test_a_look_at_many_jobs_takes_as_many_statements_as_one_at_few(noon: datetime) -> None:
    def statements(now: datetime) -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            ledger.go_on(now)
        return len(captured)

    fired_each_minute(a_minutely_job(noon), noon + minutes(1), noon + minutes(3))
    few = statements(noon + minutes(3.5))
    for _ in range(30):
        job = a_minutely_job(noon + minutes(3))
        fired_each_minute(job, noon + minutes(3), noon + minutes(6))
    Schedule.objects.update(next_fire_at=noon + minutes(9))
    Job.objects.update(changed_at=noon)
    fired_each_minute(Job.objects.earliest("pk"), noon + minutes(4), noon + minutes(6))
    assert statements(noon + minutes(6.5)) <= few + 1


def test_an_odd_moment_of_the_clock_does_not_bring_it_back(noon: datetime) -> None:
    job = a_minutely_job(noon)
    fired_each_minute(job, noon + minutes(1), noon + minutes(5))
    walk = walk_to(noon + minutes(6.5))
    ledger.go_on(noon - minutes(100))
    assert replace(walk_to(noon + minutes(6.51)), left={}) == replace(walk, left={})
