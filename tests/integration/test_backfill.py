"""Backfills: which fires of a range run, at which pace, and what becomes of their rows."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks

from executions import lifecycle
from executions.dispatch import Publisher
from executions.identity import fire_time_of
from executions.models import Execution
from executions.states import State, Trigger
from jobs import definitions, runs
from jobs.backfill import Becomes, PastFire, backfill, preview
from jobs.models import Job
from jobs.recurrence import Cron, Within
from tests import rows
from tests.ends import succeed
from tests.integration.conftest import Queues
from tests.integration.minutely import a_minutely_job, go_on_from, minutes, skipped
from tests.making import a_job, claimed, every_minute, outgoing, planned, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_minutely_job(noon, key="billing", kwargs={"tenant": "acme"})


# ── Fires without a row ──────────────────────────────────────────────────────────────────────────────────────────────


def test_fires_from_before_the_job_was_made_run_as_the_job_says_now(job: Job, noon: datetime) -> None:
    done = backfill(job, start=noon - minutes(3), end=noon, by="ops", now=noon)
    assert (done.new, done.revived, done.kept, done.to_run) == (4, 0, 0, 4)
    stored = rows.of(job)
    assert [row.fire_time for row in stored] == [noon + minutes(each) for each in (-3, -2, -1, 0)]
    for row in stored:
        assert (row.state, row.trigger, row.reason) == (State.SCHEDULED, Trigger.BACKFILL, "backfill by ops")
        assert (row.task, row.kwargs, row.attempt) == ("onbeat.echo", {"tenant": "acme"}, 1)
        assert fire_time_of(row.pk) == row.fire_time


def test_both_ends_are_included_and_nothing_else(job: Job, noon: datetime) -> None:
    done = preview(job, start=noon - minutes(10), end=noon - minutes(5), now=noon)
    assert (done.first, done.last, len(done.fires)) == (noon - minutes(10), noon - minutes(5), 6)
    inner = preview(job, start=noon - minutes(10) + seconds(1), end=noon - minutes(5) - seconds(1), now=noon)
    assert (inner.first, inner.last) == (noon - minutes(9), noon - minutes(6))


@pytest.mark.parametrize(("per_minute", "pause"), [(1, 60), (60, 1), (120, 0.5), (6000, 0.01)])
def test_the_oldest_comes_at_once_and_the_others_at_the_pace(
    job: Job, noon: datetime, per_minute: int, pause: float
) -> None:
    now = noon + seconds(30)
    done = backfill(job, start=noon - minutes(4), end=noon, per_minute=per_minute, now=now)
    assert [row.available_at for row in rows.of(job)] == [now + seconds(pause * each) for each in range(5)]
    assert done.ends_at == now + seconds(pause * 4)


def test_what_is_kept_takes_no_place_in_the_line(job: Job, noon: datetime) -> None:
    planned(job, noon - minutes(1))
    done = backfill(job, start=noon - minutes(2), end=noon, now=noon)
    assert done.fires == (
        PastFire(noon - minutes(2), Becomes.NEW, noon),
        PastFire(noon - minutes(1), Becomes.KEPT, None),
        PastFire(noon, Becomes.NEW, noon + seconds(1)),
    )


def test_beats_publish_at_the_pace(job: Job, noon: datetime, publisher: Publisher, broker: Queues) -> None:
    backfill(job, start=noon - minutes(4), end=noon, per_minute=60, now=noon)
    for second, so_far in ((0, 1), (1, 2), (2.5, 3), (60, 5)):
        due = outgoing(*Execution.objects.due(noon + seconds(second)))
        lifecycle.mark_queued(publisher.publish(due).confirmed, now=noon + seconds(second))
        assert Execution.objects.filter(state=State.QUEUED).count() == so_far
    assert len(broker.take_all()) == 5


def test_a_backfill_that_waits_can_be_cancelled(job: Job, noon: datetime) -> None:
    backfill(job, start=noon - minutes(4), end=noon, per_minute=1, now=noon)
    assert len(lifecycle.cancel([row.pk for row in rows.of(job)], reason="enough", now=noon).before_run) == 5


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Cron("30 2 * * *", timezone="Europe/Berlin"), ["28T01:30", "29T01:00", "30T00:30"]),
        (Within(Cron("0 0 * * *"), start=datetime(2026, 3, 29, tzinfo=UTC)), ["29T00:00", "30T00:00"]),
    ],
    ids=["clocks change", "bounded"],
)
def test_the_fires_are_those_of_the_schedule(noon: datetime, schedule: Cron | Within, expected: list[str]) -> None:
    job = a_job(now=noon, schedule=schedule)
    start, end = datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 3, 30, 6, tzinfo=UTC)
    assert [f"{fire.fire_time:%dT%H:%M}" for fire in preview(job, start=start, end=end, now=noon).fires] == expected


# ── Fires with a row ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_ran_runs_waits_was_cancelled_or_is_dead_is_kept(job: Job, noon: datetime) -> None:
    waits, queued, running, succeeded, cancelled, dead = (planned(job, noon - minutes(each)) for each in range(6))
    lifecycle.mark_queued([queued], now=noon)
    claimed(running, now=noon)
    succeed(claimed(succeeded, now=noon), noon)
    lifecycle.cancel([cancelled.pk], reason="x", now=noon)
    Execution.objects.filter(pk=dead.pk).update(max_attempts=1)
    lifecycle.fail(claimed(dead, now=noon), error="boom", now=noon)
    before = rows.everything()
    done = backfill(job, start=noon - minutes(5), end=noon, now=noon + seconds(1))
    assert (done.new, done.revived, done.kept, done.to_run, done.ends_at) == (0, 0, 6, 0, None)
    assert rows.everything() == before
    assert waits.state == State.SCHEDULED


def test_a_second_backfill_of_the_same_range_does_nothing(job: Job, noon: datetime) -> None:
    backfill(job, start=noon - minutes(9), end=noon, now=noon)
    before = rows.everything()
    assert backfill(job, start=noon - minutes(9), end=noon, now=noon).kept == 10
    assert rows.everything() == before


def test_a_skipped_fire_runs_as_the_job_says_now_and_still_says_why_it_was_skipped(job: Job, noon: datetime) -> None:
    fire = planned(job, noon - minutes(1))
    lifecycle.skip([fire.pk], reason="overlap SKIP: the previous one still ran", now=noon)
    definitions.change(job, version=1, kwargs={"tenant": "zeta"}, priority=9, queue="batch", now=noon)
    done = backfill("billing", start=noon - minutes(1), end=noon - minutes(1), by="ops", now=noon)
    assert (done.new, done.revived) == (0, 1)
    (row,) = rows.of(job)
    assert row.pk == fire.pk
    assert (row.state, row.trigger, row.finished_at) == (State.SCHEDULED, Trigger.BACKFILL, None)
    assert (row.kwargs, row.priority, row.queue) == ({"tenant": "zeta"}, 9, "batch")
    assert row.reason == "backfill by ops; before: overlap SKIP: the previous one still ran"
    succeed(claimed(row, now=noon), noon)


@pytest.mark.parametrize("by", ["", "x" * 500, "a\x00b", "\ud800"])
def test_whoever_asks_the_reason_can_be_stored_and_keeps_why(job: Job, noon: datetime, by: str) -> None:
    fire = planned(job, noon - minutes(1))
    lifecycle.skip([fire.pk], reason="expired", now=noon)
    backfill(job, start=noon - minutes(2), end=noon, by=by, now=noon)
    assert all(row.reason.startswith("backfill") for row in rows.of(job))
    assert rows.of(job)[1].reason.endswith("; before: expired")


def test_runs_that_were_asked_for_at_the_same_moment_are_no_fires(job: Job, noon: datetime) -> None:
    asked = runs.run(job, now=noon)
    lifecycle.skip([asked.execution_id], reason="overlap", now=noon)
    done = backfill(job, start=noon, end=noon, now=noon)
    assert (done.new, done.revived) == (1, 0)
    assert Execution.objects.get(pk=asked.execution_id).state == State.SKIPPED


# ── What it costs, and what it says ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.full  # SQLite's limit on variables makes Django split long statements
def test_the_number_of_queries_does_not_grow_with_the_range(
    job: Job, noon: datetime, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    planned(job, noon - minutes(1))
    go_on_from(job, noon + minutes(9000))
    for hour, count in ((1, 2), (5, 50)):
        at = noon + timedelta(hours=hour)
        for each in range(count):
            skipped(job, at + minutes(3 * each), at + minutes(3 * each + 1), 2)
            lifecycle.skip([planned(job, at + minutes(3 * each + 2)).pk], reason="expired", now=at)
        with django_assert_num_queries(QUERIES):
            done = backfill(job, start=at + minutes(1), end=at + minutes(4 * count), now=noon + timedelta(days=2))
        assert done.new == count + 1
        assert done.revived == 3 * count - 1


# Found, job and schedule held, rows, stretches; the stretches cut; of those revived the moments, then two reasons; the
# new ones inserted. Savepoints of the whole, of the cut, of the revival and of the insert.
QUERIES = 18


def test_the_preview_stores_nothing(job: Job, noon: datetime) -> None:
    skipped(job, noon - minutes(9), noon - minutes(1), 9)
    before = rows.everything()
    preview(job, start=noon - minutes(5), end=noon, now=noon)
    assert rows.everything() == before


def test_it_is_told_in_one_event_when_it_is_committed(
    job: Job,
    noon: datetime,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    caplog.set_level(logging.INFO, logger="onbeat")
    with django_capture_on_commit_callbacks() as callbacks:
        backfill(job, start=noon - minutes(5), end=noon, by="ops", through="rest", now=noon)
    assert caplog.messages == []
    for callback in callbacks:
        callback()
    assert caplog.messages == [
        "backfill planned  job=billing first=2026-06-15T11:55:00+00:00 last=2026-06-15T12:00:00+00:00 "
        "new=6 revived=0 kept=0 per_minute=60 by=ops through=rest"
    ]


def test_without_a_moment_it_is_the_databases_time(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Within(every_minute(noon), start=noon - minutes(3)), key="clock")
    go_on_from(job, noon + timedelta(days=36_500))
    assert preview(job, start=noon - minutes(9), end=noon).new == 4
    assert backfill(job, start=noon - minutes(9), end=noon).new == 4
