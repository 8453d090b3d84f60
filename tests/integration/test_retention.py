"""Rows that are past their days go; what is open, waits for a person or could be planned again stays.

On PostgreSQL a month in which nothing has to stay is dropped whole, which no test within a transaction can see
(`tests/races/test_retention.py`): here something open stands in the month, and what may go is deleted around it.
"""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from executions import lifecycle, partitions, replay, retention
from executions.models import Attempt, DeadMessage, Execution, HourlyCount, HourlyTotal
from executions.states import OPEN, State, Trigger
from jobs import definitions
from jobs.models import Job
from jobs.recurrence import Every
from tests import rows
from tests.firing import plan
from tests.making import a_job, claimed, planned, seconds

pytestmark = pytest.mark.django_db
# Years that no other test has months in. What is of April is past 30 days, and within 90.
NOW = datetime(1985, 6, 15, 12, tzinfo=UTC)
APRIL = datetime(1985, 4, 10, tzinfo=UTC)
FEBRUARY = datetime(1985, 2, 10, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _no_month_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_DROPPER_PATIENCE_MS", 1)


@pytest.fixture
def job() -> Job:
    """One with an open run in each month, which is why the months stay."""
    job = a_job(now=FEBRUARY)
    for moment in (APRIL, FEBRUARY):
        lifecycle.plan([job.new_execution(moment, trigger=Trigger.MANUAL, now=moment)])
    return job


def ended(job: Job, moment: datetime, state: State = State.SUCCEEDED, *, at: datetime | None = None) -> Execution:
    """An execution that fired at a moment and ended so, then or later."""
    row, at = planned(job, moment), at or moment
    if state is State.SKIPPED:
        lifecycle.skip([row.pk], reason="x", now=at)
    elif state is State.CANCELLED:
        lifecycle.cancel([row.pk], reason="x", now=at)
    elif state is State.DEAD:
        lifecycle.fail(claimed(row, now=at), error="x", now=at)
    else:
        lifecycle.succeed(claimed(row, now=at), result=None, now=at)
    row.refresh_from_db()
    assert row.state == state
    return row


def is_there(row: Execution) -> bool:
    return Execution.objects.with_id(row.pk).exists()


# ── What goes and what stays ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_over_goes_with_its_attempts_and_is_counted(job: Job) -> None:
    one_try = a_job(now=FEBRUARY, max_attempts=1)
    for state in (State.SUCCEEDED, State.CANCELLED, State.SKIPPED):
        ended(job, APRIL + len(rows.of(job)) * seconds(1), state)
    handled = ended(one_try, APRIL, State.DEAD)
    replay.settle([handled.pk], note="done", now=APRIL)
    assert Attempt.objects.count() == 2
    pruned = retention.prune(NOW)
    assert (pruned.executions, pruned.attempts, pruned.has_more) == (4, 2, False)
    assert {row.state for row in Execution.objects.all()} == {State.SCHEDULED}
    assert not Attempt.objects.exists()


def test_a_month_that_is_kept_says_why(job: Job, is_full: bool) -> None:
    kept = retention.prune(NOW).kept
    months = [partitions.Month.of(FEBRUARY), partitions.Month.of(APRIL)] if is_full else []
    assert [kept[month] for month in months] == ["executions in it are not over"] * len(months)
    assert is_full or kept == {}


@pytest.mark.parametrize("state", OPEN)
def test_what_is_open_stays_however_old_it_is(job: Job, state: State) -> None:
    row = planned(job, FEBRUARY)
    if state is State.QUEUED:
        lifecycle.mark_queued([row], now=FEBRUARY)
    if state is State.RUNNING:
        claimed(row, now=FEBRUARY)
    retention.prune(NOW)
    assert rows.of(job, pk=row.pk)[0].state == state


def test_a_dead_letter_waits_for_a_person_for_its_days_and_then_goes_with_its_attempts() -> None:
    job = a_job(now=FEBRUARY, max_attempts=2)
    lifecycle.plan([job.new_execution(APRIL, trigger=Trigger.MANUAL, now=APRIL)])
    row = planned(job, APRIL)
    lifecycle.fail(claimed(row, now=APRIL), error="x", now=APRIL)
    row.refresh_from_db()
    lifecycle.fail(claimed(row, now=APRIL), error="x", now=APRIL)
    retention.prune(APRIL + 90 * DAY)
    assert (is_there(row), Attempt.objects.count()) == (True, 2)
    retention.prune(APRIL + 90 * DAY + seconds(1))
    assert (is_there(row), Attempt.objects.count()) == (False, 0)


def test_a_dead_letter_that_was_handled_goes_with_the_rest() -> None:
    job = a_job(now=FEBRUARY, max_attempts=1)
    dead, handled = ended(job, APRIL, State.DEAD), ended(job, APRIL + seconds(1), State.DEAD)
    replay.settle([handled.pk], note="done", now=NOW)
    retention.prune(NOW)
    assert (is_there(dead), is_there(handled)) == (True, False)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED, State.SKIPPED])
def test_what_ended_lately_stays_however_long_ago_it_fired(job: Job, state: State) -> None:
    lately = ended(job, APRIL + seconds(1), state, at=NOW - 30 * DAY)
    before = ended(job, APRIL + seconds(2), state, at=NOW - 30 * DAY - seconds(1))
    retention.prune(NOW)
    assert (is_there(lately), is_there(before)) == (True, False)


def test_the_stretch_of_a_long_pause_is_there_to_be_read_when_the_pause_ends(job: Job) -> None:
    paused = a_job(now=FEBRUARY, schedule=Every(3600, FEBRUARY))
    definitions.pause(paused, reason="the bank is closed", now=FEBRUARY + seconds(1))
    definitions.resume(paused, now=NOW)
    (stretch,) = rows.of(paused)
    retention.prune(NOW)
    assert is_there(stretch)
    retention.prune(NOW + 31 * DAY)
    assert not is_there(stretch)


def test_a_run_that_was_cancelled_long_before_its_time_stays_until_that_is_past(job: Job) -> None:
    row = ended(job, APRIL + 60 * DAY, State.CANCELLED, at=FEBRUARY)
    retention.prune(NOW)
    assert is_there(row)


@pytest.mark.embedded
def test_without_partitions_the_days_are_counted_to_the_second(job: Job) -> None:
    old, young = (ended(job, NOW - 30 * DAY - seconds(early)) for early in (1, 0))
    retention.prune(NOW)
    assert (is_there(old), is_there(young)) == (False, True)


@pytest.mark.full
def test_with_partitions_rows_stay_until_their_whole_month_is_past_its_days(job: Job) -> None:
    row = ended(job, APRIL)
    end_of_april = datetime(1985, 5, 1, tzinfo=UTC)
    retention.prune(end_of_april + 30 * DAY - seconds(1))
    assert is_there(row)
    retention.prune(end_of_april + 30 * DAY)
    assert not is_there(row)


def test_the_days_are_settings(job: Job, settings: Settings) -> None:
    settings.ONBEAT_EXECUTIONS_RETENTION_DAYS = settings.ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS = 100
    row, one_try = ended(job, APRIL), a_job(now=FEBRUARY, max_attempts=1)
    dead = ended(one_try, APRIL, State.DEAD)
    retention.prune(NOW)
    assert (is_there(row), is_there(dead)) == (True, True)
    retention.prune(NOW + 60 * DAY)
    assert (is_there(row), is_there(dead)) == (False, False)


def test_attempts_of_the_first_release_go_with_their_execution(job: Job) -> None:
    """Their fire time is exact; later ones have it to the millisecond."""
    row = ended(job, APRIL + timedelta(microseconds=1900))
    Attempt.objects.update(fire_time=row.fire_time)
    assert retention.prune(NOW).attempts == 1


# ── No fire twice ────────────────────────────────────────────────────────────────────────────────────────────────


def backfilled(job: Job, moment: datetime) -> Execution:
    row = job.new_execution(moment, trigger=Trigger.BACKFILL, now=moment)
    lifecycle.plan([row])
    lifecycle.succeed(claimed(row, now=moment), result=None, now=moment)
    return row


def test_a_fire_that_ran_before_its_schedule_got_there_stays_and_does_not_run_again(job: Job) -> None:
    """No beat ran for two months, and somebody had the fire run meanwhile."""
    yearly = a_job(now=FEBRUARY, schedule=Every(3650 * 24 * 3600, APRIL))
    row = backfilled(yearly, APRIL)
    retention.prune(NOW)
    assert is_there(row)
    plan(NOW)
    assert [each.state for each in rows.of(yearly)] == [State.SUCCEEDED]
    retention.prune(NOW)
    assert rows.of(yearly) == []


def test_a_fire_that_ran_during_a_pause_stays_until_the_pause_is_over(job: Job) -> None:
    daily = a_job(now=FEBRUARY, schedule=Every(86400, FEBRUARY))
    definitions.pause(daily, reason="", now=FEBRUARY + seconds(1))
    row = backfilled(daily, FEBRUARY + DAY)
    asked_for = ended(a_job(now=FEBRUARY), FEBRUARY + DAY)
    retention.prune(NOW)
    assert (is_there(row), is_there(asked_for)) == (True, False)
    definitions.resume(daily, now=NOW)
    retention.prune(NOW)
    assert not is_there(row)


@pytest.mark.parametrize("few", [0, 2])
def test_jobs_that_are_far_behind_may_be_more_than_are_named(
    job: Job, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_FEW_JOBS", few)
    late = [a_job(now=FEBRUARY, schedule=Every(3650 * 24 * 3600, APRIL)) for _ in range(2)]
    ahead = [backfilled(each, APRIL) for each in late]
    others = [ended(job, APRIL), ended(late[0], APRIL - seconds(1))]
    retention.prune(NOW)
    assert [is_there(row) for row in ahead + others] == [True, True, False, False]


def test_fires_that_a_paused_schedule_has_behind_it_go(job: Job) -> None:
    daily = a_job(now=FEBRUARY, schedule=Every(86400, FEBRUARY))
    plan(FEBRUARY + DAY)
    (row,) = rows.of(daily)
    lifecycle.succeed(claimed(row, now=FEBRUARY + DAY), result=None, now=FEBRUARY + DAY)
    definitions.pause(daily, reason="", now=FEBRUARY + DAY + seconds(1))
    retention.prune(NOW)
    assert rows.of(daily) == []


# ── As much as one call may ──────────────────────────────────────────────────────────────────────────────────────


def test_one_call_deletes_so_many_batches_and_says_that_there_is_more(job: Job) -> None:
    for number in range(7):
        ended(job, APRIL + seconds(number))
    calls = [retention.prune(NOW, batch_size=2, most_batches=2) for _ in range(3)]
    assert [call.executions for call in calls] == [4, 3, 0]
    assert (calls[0].has_more, calls[2].has_more) == (True, False)


def test_a_call_that_took_its_time_stops_after_a_batch(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        ended(job, FEBRUARY + seconds(number))
    monkeypatch.setattr(retention, "_PATIENCE_SECONDS", -1.0)
    pruned = retention.prune(NOW, batch_size=2)
    assert (pruned.executions, pruned.has_more) == (2, True)


def queries_of_prune() -> int:
    with CaptureQueriesContext(connection) as asked:
        retention.prune(NOW)
    return len(asked)


@pytest.mark.full
def test_where_no_month_is_past_its_days_no_schedule_is_looked_at(job: Job, settings: Settings) -> None:
    """Of a million schedules that are paused or active the question would read all, every minute."""

    def asks_for_schedules() -> bool:
        with CaptureQueriesContext(connection) as queries:
            retention.prune(NOW)
        return any("onbeat_schedule" in query["sql"] for query in queries)

    assert asks_for_schedules()
    settings.ONBEAT_EXECUTIONS_RETENTION_DAYS = settings.ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS = 36600
    assert not asks_for_schedules()


def test_many_rows_cost_as_many_queries_as_few(job: Job) -> None:
    retention.prune(NOW)
    counts = []
    for many in (2, 20):
        for number in range(many):
            ended(job, APRIL + seconds(number))
        counts.append(queries_of_prune())
    assert counts[0] == counts[1]
    assert Execution.objects.count() == 2


# ── Statistics ───────────────────────────────────────────────────────────────────────────────────────────────────


def counted(model: type[HourlyCount] | type[HourlyTotal], hour: datetime, **more: object) -> None:
    sums = dict.fromkeys(("count", "started", "run_seconds", "delay_seconds", "longest_delay_seconds"), 1)
    model.objects.create(**sums, hour=hour, queue="default", state=State.SUCCEEDED, **more)


def test_hourly_counts_are_kept_for_their_days_and_go_in_batches(job: Job) -> None:
    young = NOW - 365 * DAY
    for number in range(4):
        counted(HourlyCount, young - timedelta(hours=number), job=job)
    calls = [retention.prune(NOW, batch_size=1, most_batches=2) for _ in range(2)]
    assert [call.hourly_counts for call in calls] == [2, 1]
    assert [count.hour for count in HourlyCount.objects.all()] == [young]


def test_hourly_totals_are_kept_as_long_as_the_counts_and_go_after_them(job: Job) -> None:
    young = NOW - 365 * DAY
    for number in range(3):
        counted(HourlyCount, young - timedelta(hours=number), job=job)
        counted(HourlyTotal, young - timedelta(hours=number))
    calls = [retention.prune(NOW, batch_size=1, most_batches=2) for _ in range(3)]
    assert [(call.hourly_counts, call.hourly_totals) for call in calls] == [(2, 0), (0, 2), (0, 0)]
    assert [total.hour for total in HourlyTotal.objects.all()] == [young]


# ── Messages that belong to no execution ─────────────────────────────────────────────────────────────────────────


def a_dead_message(*, collected_at: datetime, handled_at: datetime | None = None) -> DeadMessage:
    return DeadMessage.objects.create(
        digest=str(DeadMessage.objects.count()),
        queue="q",
        body=b"x",
        error="x",
        fingerprint="x",
        collected_at=collected_at,
        handled_at=handled_at,
    )


def test_dead_messages_wait_for_a_person_for_their_days_and_handled_ones_go_with_the_rest() -> None:
    going = [
        a_dead_message(collected_at=NOW - 90 * DAY - seconds(1)),
        a_dead_message(collected_at=NOW - 80 * DAY, handled_at=NOW - 30 * DAY - seconds(1)),
        a_dead_message(collected_at=NOW - 80 * DAY, handled_at=NOW - 79 * DAY),
    ]
    staying = [
        a_dead_message(collected_at=NOW - 90 * DAY),
        a_dead_message(collected_at=NOW - 100 * DAY, handled_at=NOW - 30 * DAY),
    ]
    calls = [retention.prune(NOW, batch_size=1, most_batches=2) for _ in range(3)]
    assert [call.dead_messages for call in calls] == [2, 1, 0]
    assert sum(call.dead_messages for call in calls) == len(going)
    assert set(DeadMessage.objects.all()) == set(staying)
