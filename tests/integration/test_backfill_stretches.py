"""Backfills of fires that were skipped together, and of fires that a pause or the beats still have."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from executions import lifecycle
from executions.identity import fire_time_of
from executions.states import State, Trigger
from jobs import definitions
from jobs.backfill import backfill, preview
from jobs.models import Job
from jobs.recurrence import Every, Once
from jobs.refusals import InvalidRun
from tests import firing, rows
from tests.integration.minutely import a_minutely_job, as_told, go_on_from, minutes, skipped, told
from tests.making import a_job, claimed, every_minute, planned, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_minutely_job(noon, key="billing", kwargs={"tenant": "acme"})


# ── Stretches ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("first", "last", "left"),
    [
        (4, 6, [(1, 3, 3), 4, 5, 6, (7, 10, 4)]),
        (0, 3, [0, 1, 2, 3, (4, 10, 7)]),
        (9, 12, [(1, 8, 8), 9, 10, 11, 12]),
        (1, 10, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (2, 9, [(1, 1, 1), 2, 3, 4, 5, 6, 7, 8, 9, (10, 10, 1)]),
        (1, 1, [1, (2, 10, 9)]),
        (10, 10, [(1, 9, 9), 10]),
    ],
)
def test_fires_leave_the_stretch_that_they_were_skipped_in(
    job: Job, noon: datetime, first: int, last: int, left: list[Any]
) -> None:
    whole = skipped(job, noon + minutes(1), noon + minutes(10), 10)
    go_on_from(job, noon + minutes(60))
    span = {"start": noon + minutes(first), "end": noon + minutes(last), "now": noon + minutes(30)}
    seen = preview(job, **span)
    done = backfill(job, **span)
    assert done == seen
    assert told(job) == as_told(*left)
    assert done.revived == len([each for each in range(first, last + 1) if 1 <= each <= 10])
    for row in rows.of(job, state=State.SKIPPED):
        assert (row.reason, row.finished_at, row.trigger) == (whole.reason, whole.finished_at, Trigger.SCHEDULE)
    for row in rows.of(job, state=State.SCHEDULED):
        was_skipped = noon + minutes(1) <= row.fire_time <= noon + minutes(10)
        assert row.reason == ("backfill; before: misfire: no beat" if was_skipped else "backfill")
        assert row.trigger == Trigger.BACKFILL
        assert fire_time_of(row.pk) == row.fire_time
        claimed(row, now=noon + minutes(30) + seconds(60))


def test_several_stretches_and_single_rows_in_one_range(job: Job, noon: datetime) -> None:
    skipped(job, noon + minutes(1), noon + minutes(5), 5)
    planned(job, noon + minutes(6))
    lifecycle.skip([planned(job, noon + minutes(7)).pk], reason="expired", now=noon)
    skipped(job, noon + minutes(8), noon + minutes(8), 1)
    skipped(job, noon + minutes(10), noon + minutes(14), 5)
    go_on_from(job, noon + minutes(60))
    done = backfill(job, start=noon + minutes(3), end=noon + minutes(12), now=noon + minutes(30))
    assert (done.new, done.revived, done.kept) == (1, 8, 1)
    assert told(job) == as_told((1, 2, 2), *range(3, 13), (13, 14, 2))


def test_a_stretch_that_nobody_counted_is_found_and_parted(job: Job, noon: datetime) -> None:
    skipped(job, noon + minutes(1), noon + minutes(2000), None)
    go_on_from(job, noon + minutes(3000))
    done = backfill(job, start=noon + minutes(1000), end=noon + minutes(1001), now=noon + minutes(2500))
    assert done.revived == 2
    assert told(job) == as_told((1, 999, None), 1000, 1001, (1002, 2000, None))


def test_the_fires_of_a_job_that_was_edited_are_todays_and_what_is_left_is_not_counted(
    job: Job, noon: datetime
) -> None:
    skipped(job, noon + minutes(1), noon + minutes(59), 59)
    go_on_from(job, noon + minutes(60))
    now = noon + minutes(90)
    definitions.change(job, version=1, schedule=Every(seconds=600, anchor=noon), now=noon + minutes(59.5))
    go_on_from(job, noon + minutes(100))
    done = backfill(job, start=noon + minutes(20), end=noon + minutes(30), now=now)
    assert [fire.fire_time for fire in done.fires] == [noon + minutes(20), noon + minutes(30)]
    assert done.revived == 2
    before, _, _, after = rows.of(job)
    assert (before.skipped_until, before.skipped_count) == (noon + minutes(20) - timedelta(microseconds=1), None)
    assert (after.fire_time, after.skipped_until) == (
        noon + minutes(30) + timedelta(microseconds=1),
        noon + minutes(59),
    )
    assert after.skipped_count is None


def test_a_stretch_without_a_fire_of_the_range_stays_as_it_is(job: Job, noon: datetime) -> None:
    skipped(job, noon + seconds(70), noon + seconds(80), 2)  # of an earlier schedule
    go_on_from(job, noon + minutes(60))
    backfill(job, start=noon + minutes(0.5), end=noon + minutes(1), now=noon + minutes(5))
    assert rows.of(job, state=State.SKIPPED)[0].skipped_count == 2


def test_a_misfire_of_a_real_beat_is_run_after_all(job: Job, noon: datetime) -> None:
    firing.plan(noon + minutes(240))
    assert rows.of(job, state=State.SKIPPED)[0].skipped_count == 237
    done = backfill(job, start=noon, end=noon + minutes(300), now=noon + minutes(240))
    assert (done.new, done.revived, done.kept) == (1, 237, 3)
    assert done.left_from == noon + minutes(241)
    assert rows.of(job, state=State.SKIPPED) == []
    assert len(rows.of(job)) == 241


# ── Paused jobs, and what is the beats' to plan ──────────────────────────────────────────────────────────────────────


def test_fires_from_the_next_one_on_are_left_to_the_beats(job: Job, noon: datetime) -> None:
    """No beat has looked for ten minutes: those fires are theirs to run or to skip."""
    done = backfill(job, start=noon - minutes(2), end=noon + minutes(20), now=noon + minutes(10))
    assert (done.last, done.left_from) == (noon, noon + minutes(1))
    with pytest.raises(InvalidRun, match="still the beats' to plan; choose an earlier start"):
        backfill(job, start=noon + minutes(1), end=noon + minutes(5), now=noon + minutes(10))
    firing.plan(noon + minutes(10))
    assert rows.schedule_of(job).next_fire_at == noon + minutes(11)


def test_nothing_after_now_is_taken_though_its_row_is_planned(job: Job, noon: datetime) -> None:
    firing.plan(noon + seconds(57))
    done = preview(job, start=noon, end=noon + minutes(5), now=noon + seconds(58))
    assert (done.last, done.left_from) == (noon, noon + minutes(1))


def test_a_paused_job_can_be_backfilled_and_stays_paused(job: Job, noon: datetime) -> None:
    definitions.pause(job, reason="maintenance", now=noon)
    backfill(job, start=noon - minutes(2), end=noon, now=noon)
    job.refresh_from_db()
    assert (job.state, job.version, len(rows.of(job))) == ("PAUSED", 2, 3)
    assert not rows.schedule_of(job).is_active


@pytest.mark.parametrize(
    ("first", "last", "after_resume"),
    [
        (1, 10, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (4, 6, [(1, 3, 3), 4, 5, 6, (7, 10, 4)]),
        (-1, 2, [-1, 0, 1, 2, (3, 10, 8)]),
        (8, 20, [(1, 7, 7), 8, 9, 10]),
    ],
)
def test_fires_of_a_pause_that_still_lasts_run_and_the_others_are_told_once(
    job: Job, noon: datetime, first: int, last: int, after_resume: list[Any]
) -> None:
    definitions.pause(job, reason="maintenance", now=noon)
    now = noon + minutes(10.5)
    span = {"start": noon + minutes(first), "end": noon + minutes(last), "now": now}
    seen = preview(job, **span)
    assert backfill(job, **span) == seen
    assert (seen.new, seen.revived) == (len(seen.fires), 0)
    definitions.resume(job, now=now)
    assert told(job) == as_told(*after_resume)
    assert {row.reason for row in rows.of(job, state=State.SKIPPED)} <= {"paused: maintenance"}
    assert rows.schedule_of(job).next_fire_at == noon + minutes(11)


def test_fires_after_a_pause_was_set_to_end_are_late_and_not_the_backfills(job: Job, noon: datetime) -> None:
    definitions.pause(job, reason="maintenance", until=noon + minutes(5), now=noon)
    now = noon + minutes(10)  # and no beat has come to end it
    done = backfill(job, start=noon, end=noon + minutes(10), now=now)
    assert (done.last, done.left_from) == (noon + minutes(4), noon + minutes(5))
    assert definitions.resume_due(now) == 1
    firing.plan(now)
    assert told(job)[:6] == as_told(0, 1, 2, 3, 4, (5, 7, 3))


def test_the_number_of_fires_that_are_left_does_not_change(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), max_fires=3)
    backfill(job, start=noon - minutes(5), end=noon, now=noon)
    schedule = rows.schedule_of(job)
    assert (schedule.fires_left, schedule.next_fire_at, schedule.version) == (3, noon + minutes(1), 1)
    assert job.versions.count() == 1


def test_a_job_that_is_out_of_fires_and_not_over_can_be_backfilled(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Once(noon + seconds(1)))
    lifecycle.skip([row.pk for row in rows.of(job)], reason="x", now=noon)
    firing.plan(noon)
    lifecycle.skip([rows.of(job)[0].pk], reason="expired", now=noon + seconds(1))
    assert backfill(job, start=noon, end=noon + minutes(1), now=noon + minutes(2)).revived == 1
    assert definitions.complete_ended(noon + minutes(2)) == 0
