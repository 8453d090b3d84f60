"""Each verb of the lifecycle: what it changes, and what it leaves alone."""

from datetime import datetime, timedelta

import pytest

from executions import lifecycle
from executions.models import Attempt, Execution
from executions.outcomes import Claim, Finish
from executions.states import Outcome, State, Trigger
from tests.making import a_job, claimed, planned, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def execution(noon: datetime) -> Execution:
    return planned(a_job(now=noon, max_attempts=2), noon)


def test_a_fire_that_has_a_row_does_not_get_a_second_one(execution: Execution, noon: datetime) -> None:
    lifecycle.plan([execution.job.new_execution(noon, trigger=Trigger.SCHEDULE, now=noon)])
    lifecycle.plan([execution.job.new_execution(noon, trigger=Trigger.BACKFILL, now=noon)])
    assert list(Execution.objects.values_list("pk", flat=True)) == [execution.pk]


def test_runs_that_people_ask_for_may_share_an_instant(execution: Execution, noon: datetime) -> None:
    lifecycle.plan([execution.job.new_execution(noon, trigger=Trigger.DELAYED, now=noon) for _ in range(3)])
    assert Execution.objects.count() == 4


def test_a_confirmed_execution_is_queued(execution: Execution, noon: datetime) -> None:
    assert lifecycle.mark_queued([execution], now=noon) == 1
    execution.refresh_from_db()
    assert (execution.state, execution.queued_at) == (State.QUEUED, noon)


def test_a_confirm_that_comes_after_the_claim_changes_nothing(execution: Execution, noon: datetime) -> None:
    claimed(execution, now=noon)
    assert lifecycle.mark_queued([execution], now=noon) == 0
    execution.refresh_from_db()
    assert execution.state == State.RUNNING


def test_a_confirm_of_an_older_attempt_does_not_touch_the_next_one(execution: Execution, noon: datetime) -> None:
    lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon)
    assert lifecycle.mark_queued([execution], now=noon + timedelta(hours=1)) == 0


@pytest.mark.parametrize("is_queued", [False, True])
def test_an_execution_is_claimed_once(execution: Execution, noon: datetime, is_queued: bool) -> None:
    if is_queued:
        lifecycle.mark_queued([execution], now=noon)
    assert lifecycle.claim(execution.pk, 1, worker="first", now=noon) == Claim(execution.pk, 1, "first", noon)
    assert lifecycle.claim(execution.pk, 1, worker="second", now=noon) is None
    execution.refresh_from_db()
    assert (execution.state, execution.worker, execution.heartbeat_at) == (State.RUNNING, "first", noon)


@pytest.mark.parametrize("attempt", [0, 2])
def test_a_claim_of_another_attempt_is_refused(execution: Execution, noon: datetime, attempt: int) -> None:
    assert lifecycle.claim(execution.pk, attempt, worker="late", now=noon) is None


def test_a_success_is_recorded_with_its_attempt(execution: Execution, noon: datetime) -> None:
    claim = claimed(execution, now=noon)
    later = noon + seconds(3)
    assert lifecycle.succeed(claim, result={"sent": 3}, now=later) is Finish.SUCCEEDED
    execution.refresh_from_db()
    assert (execution.state, execution.result, execution.finished_at) == (State.SUCCEEDED, {"sent": 3}, later)
    attempt = execution.attempts.get()
    assert (attempt.number, attempt.outcome, attempt.worker) == (1, Outcome.SUCCEEDED, "worker@here")
    assert (attempt.started_at, attempt.finished_at) == (noon, later)


def test_a_failure_waits_in_the_database_for_its_next_attempt(execution: Execution, noon: datetime) -> None:
    assert lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon) is Finish.RETRY
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (State.SCHEDULED, 2)
    assert execution.available_at == noon + seconds(30)
    assert execution.attempts.get().outcome == Outcome.FAILED


def test_the_last_failure_ends_in_a_dead_letter(execution: Execution, noon: datetime) -> None:
    lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon)
    execution.refresh_from_db()
    assert lifecycle.fail(claimed(execution, now=noon), error="boom again", now=noon) is Finish.DEAD
    execution.refresh_from_db()
    assert (execution.state, execution.error, execution.finished_at) == (State.DEAD, "boom again", noon)
    assert execution.attempts.count() == 2


def test_a_stale_worker_cannot_finish_what_another_attempt_holds(execution: Execution, noon: datetime) -> None:
    stale = claimed(execution, now=noon, worker="stale")
    lifecycle.rescue(silent_since=noon + seconds(1), now=noon + seconds(20))
    execution.refresh_from_db()
    claimed(execution, now=noon + seconds(21), worker="fresh")
    assert lifecycle.succeed(stale, result="late", now=noon + seconds(22)) is Finish.REFUSED
    assert lifecycle.fail(stale, error="late", now=noon + seconds(22)) is Finish.REFUSED
    execution.refresh_from_db()
    assert (execution.state, execution.worker, execution.result) == (State.RUNNING, "fresh", None)
    assert list(execution.attempts.values_list("outcome", flat=True)) == [Outcome.WORKER_LOST]


def test_a_finish_counts_once(execution: Execution, noon: datetime) -> None:
    claim = claimed(execution, now=noon)
    lifecycle.succeed(claim, result=1, now=noon)
    assert lifecycle.succeed(claim, result=2, now=noon) is Finish.REFUSED
    execution.refresh_from_db()
    assert execution.result == 1
    assert Attempt.objects.count() == 1


def test_a_heartbeat_speaks_only_for_what_its_worker_holds(execution: Execution, noon: datetime) -> None:
    claimed(execution, now=noon, worker="holder")
    later = noon + seconds(5)
    pair = (execution.pk, 1)
    assert lifecycle.heartbeat([pair], worker="another", now=later) == 0
    assert lifecycle.heartbeat([(execution.pk, 2)], worker="holder", now=later) == 0
    assert lifecycle.heartbeat([pair], worker="holder", now=later) == 1
    execution.refresh_from_db()
    assert execution.heartbeat_at == later


def test_a_worker_with_a_fresh_heartbeat_is_not_rescued(execution: Execution, noon: datetime) -> None:
    claimed(execution, now=noon)
    assert lifecycle.rescue(silent_since=noon, now=noon + seconds(20)) == []


def test_a_lost_attempt_runs_again_and_does_not_count_as_a_failure(execution: Execution, noon: datetime) -> None:
    claimed(execution, now=noon, worker="gone")
    now = noon + seconds(20)
    (rescued,) = lifecycle.rescue(silent_since=noon + seconds(1), now=now)
    assert (rescued.worker, rescued.state) == ("gone", State.SCHEDULED)
    execution.refresh_from_db()
    assert (execution.state, execution.attempt, execution.lost) == (State.SCHEDULED, 2, 1)
    assert execution.available_at == now
    assert execution.attempts.get().outcome == Outcome.WORKER_LOST
    # Two attempts were allowed, and a lost one was none of them.
    assert lifecycle.fail(claimed(execution, now=now), error="boom", now=now) is Finish.RETRY


def test_too_many_losses_end_in_a_dead_letter(execution: Execution, noon: datetime) -> None:
    now = noon
    for _ in range(execution.max_lost):
        execution.refresh_from_db()
        claimed(execution, now=now)
        now += timedelta(minutes=1)
        lifecycle.rescue(silent_since=now, now=now)
    execution.refresh_from_db()
    assert (execution.state, execution.lost) == (State.DEAD, 3)
    assert set(execution.attempts.values_list("outcome", flat=True)) == {Outcome.WORKER_LOST}


def test_a_held_execution_says_why_and_comes_back(execution: Execution, noon: datetime) -> None:
    until = noon + seconds(5)
    lifecycle.hold([execution], reason="no queue takes its message", until=until)
    assert list(Execution.objects.due(noon)) == []
    (waiting,) = Execution.objects.due(until)
    assert waiting.reason == "no queue takes its message"
