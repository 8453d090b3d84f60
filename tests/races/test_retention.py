"""Months are dropped and rows deleted while others write: nothing that was accepted is lost, and nobody waits."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import connection, transaction

from executions import lifecycle, partitions, replay, retention
from executions.models import Attempt, Execution
from executions.partitions import Month
from executions.states import State, Trigger
from jobs.models import Job
from jobs.recurrence import Every
from tests import rows
from tests.making import a_job, claimed, planned, seconds, succeeded
from tests.races.connections import elsewhere, several
from tests.waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
# Years that no other test has months in.
NOW = datetime(1982, 6, 15, 12, tzinfo=UTC)
APRIL = datetime(1982, 4, 10, tzinfo=UTC)
MONTH = Month.of(APRIL)
DAY = timedelta(days=1)
ROUNDS = 6


@pytest.fixture(autouse=True)
def _no_month_is_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_DROPPER_PATIENCE_MS", 50)


@pytest.fixture
def job() -> Job:
    return a_job(now=APRIL, max_attempts=1)


def tables(month: Month) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE %s", [f"onbeat_%{month}"])
        return int(cursor.fetchone()[0])


def test_a_month_in_which_nothing_has_to_stay_is_dropped_with_its_attempts(job: Job) -> None:
    succeeded(job, APRIL)
    dead = planned(job, APRIL + seconds(1))
    lifecycle.fail(claimed(dead, now=APRIL), error="x", now=APRIL)
    replay.settle([dead.pk], note="done", now=NOW)
    pruned = retention.prune(NOW)
    assert (MONTH in pruned.months, tables(MONTH), pruned.executions) == (True, 0, 0)
    assert (Execution.objects.count(), Attempt.objects.count()) == (0, 0)


def test_a_month_shrinks_to_what_has_to_stay_and_goes_when_that_is_over(job: Job) -> None:
    succeeded(job, APRIL)
    is_open, dead = planned(job, APRIL + seconds(1)), planned(job, APRIL + seconds(2))
    lifecycle.fail(claimed(dead, now=APRIL), error="x", now=APRIL)
    first = retention.prune(NOW)
    assert (first.kept[MONTH], first.executions) == ("executions in it are not over", 1)
    assert {row.pk for row in rows.of(job)} == {is_open.pk, dead.pk}
    lifecycle.cancel([is_open.pk], reason="x", now=NOW)
    second = retention.prune(NOW + 20 * DAY)
    assert (second.kept[MONTH], second.executions) == ("dead letters in it are not handled", 0)
    replay.settle([dead.pk], note="done", now=NOW)
    assert retention.prune(NOW + 20 * DAY).kept[MONTH] == "executions in it ended lately"
    assert not Attempt.objects.exists()
    assert (MONTH in retention.prune(NOW + 31 * DAY).months, tables(MONTH)) == (True, 0)


def test_a_month_goes_with_a_dead_letter_whose_days_are_over(job: Job) -> None:
    row = planned(job, APRIL)
    lifecycle.fail(claimed(row, now=APRIL), error="x", now=APRIL)
    assert MONTH in retention.prune(APRIL + 90 * DAY).kept
    assert MONTH in retention.prune(APRIL + 90 * DAY + seconds(1)).months


def test_a_month_with_a_fire_that_could_be_planned_again_stays() -> None:
    yearly = a_job(now=APRIL - DAY, schedule=Every(3650 * 24 * 3600, APRIL))
    row = yearly.new_execution(APRIL, trigger=Trigger.BACKFILL, now=APRIL)
    lifecycle.plan([row])
    lifecycle.succeed(claimed(row, now=APRIL), result=None, now=APRIL)
    assert retention.prune(NOW).kept[MONTH] == "fires in it could be planned again"
    assert [each.state for each in rows.of(yearly)] == [State.SUCCEEDED]


def write_anew(job: Job, _done: Execution) -> None:
    planned(job, APRIL + DAY)


def revive(_job: Job, done: Execution) -> None:
    done.available_at, done.reason = NOW, "backfill"
    assert lifecycle.revive([done]) == 1


@pytest.mark.parametrize("write", [write_anew, revive])
@pytest.mark.parametrize("is_kept_anyway", [False, True], ids=["to be dropped", "to be emptied"])
def test_what_somebody_writes_into_an_old_month_and_has_not_committed_is_kept(
    job: Job, write: Callable[[Job, Execution], None], is_kept_anyway: bool
) -> None:
    done = planned(job, APRIL)
    lifecycle.skip([done.pk], reason="x", now=APRIL)
    if is_kept_anyway:
        planned(job, APRIL + seconds(1))
    with transaction.atomic():
        write(job, done)
        pruned = elsewhere(partial(retention.prune, NOW))
        assert pruned.kept[MONTH] == ("executions in it are not over" if is_kept_anyway else partitions.IN_USE)
        # A month that is to be dropped is not emptied meanwhile, and what is held is passed by.
        assert pruned.executions == (is_kept_anyway and write is write_anew)
    assert retention.prune(NOW).kept[MONTH] == "executions in it are not over"
    assert Execution.objects.filter(state=State.SCHEDULED).count() == 1 + is_kept_anyway


def somebody_waits_for_us() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        return bool(cursor.fetchone()[0])


def test_what_is_committed_while_the_drop_waits_for_it_is_kept(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_DROPPER_PATIENCE_MS", 10_000)
    succeeded(job, APRIL)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            planned(job, APRIL + DAY)
            pruning = pool.submit(elsewhere, partial(retention.prune, NOW))
            wait_until(somebody_waits_for_us, what="the month is to be dropped")
        assert pruning.result().kept[MONTH] == "executions in it are not over"
    assert Execution.objects.filter(state=State.SCHEDULED).count() == 1


def test_a_fire_that_is_planned_into_a_month_while_it_is_dropped_is_never_lost(job: Job) -> None:
    with several(2) as start_both:
        for number in range(ROUNDS):
            moment = APRIL + number * seconds(1)
            succeeded(job, moment)
            start_both(partial(retention.prune, NOW), partial(planned, job, moment + DAY))
            (row,) = rows.of(job, fire_time=moment + DAY)
            lifecycle.skip([row.pk], reason="x", now=APRIL)


def test_two_who_prune_at_once_delete_each_row_once(job: Job) -> None:
    planned(job, APRIL + DAY)
    with several(2) as start_both:
        for _ in range(ROUNDS):
            for number in range(10):
                succeeded(job, APRIL + seconds(number))
            first, second = start_both(*[partial(retention.prune, NOW, batch_size=3)] * 2)
            retention.prune(NOW)  # each passed by what the other held
            assert first.executions + second.executions <= 10
            assert Execution.objects.count() == 1


def test_a_row_that_an_app_holds_is_passed_by_and_goes_next_time(job: Job) -> None:
    planned(job, APRIL + DAY)
    held, free = succeeded(job, APRIL), succeeded(job, APRIL + seconds(1))
    with transaction.atomic():
        list(Execution.objects.with_id(held.pk).select_for_update())
        pruned = elsewhere(partial(retention.prune, NOW, batch_size=1, most_batches=2))
        assert pruned.executions == 1
    assert {row.pk for row in rows.of(job)} & {held.pk, free.pk} == {held.pk}
    assert retention.prune(NOW).executions == 1
