"""The verbs of workers: what is lost, what is to stop, what is noted on the way, and who came too late."""

from datetime import datetime, timedelta

import pytest
from django.db import connection

from executions import lifecycle
from executions.models import Attempt, Execution
from executions.outcomes import Claim, Finish, ToStop, Wish
from executions.states import Outcome, State
from jobs.models import Job
from tests.making import a_job, claimed, planned, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon, max_attempts=2, max_lost=2, stop_grace_seconds=7)


@pytest.fixture
def execution(job: Job, noon: datetime) -> Execution:
    return planned(job, noon)


@pytest.fixture
def claim(execution: Execution, noon: datetime) -> Claim:
    return claimed(execution, now=noon, worker="here")


def test_a_lost_attempt_comes_again_at_once_and_counts_against_max_lost_alone(
    execution: Execution, claim: Claim, noon: datetime
) -> None:
    assert lifecycle.lose(claim, error="killed", now=noon) is Finish.RETRY
    execution.refresh_from_db()
    assert (execution.state, execution.attempt, execution.lost) == (State.SCHEDULED, 2, 1)
    assert (execution.available_at, execution.error) == (noon, "killed")
    assert execution.attempts.get().outcome == Outcome.WORKER_LOST
    assert lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon) is Finish.RETRY


def test_one_that_is_lost_too_often_is_a_dead_letter(execution: Execution, claim: Claim, noon: datetime) -> None:
    lifecycle.lose(claim, error="killed", now=noon)
    execution.refresh_from_db()
    assert lifecycle.lose(claimed(execution, now=noon), error="killed", now=noon) is Finish.DEAD
    execution.refresh_from_db()
    assert (execution.state, execution.lost, execution.attempt) == (State.DEAD, 2, 2)


def test_one_that_was_asked_to_stop_and_is_lost_is_cancelled(
    execution: Execution, claim: Claim, noon: datetime
) -> None:
    lifecycle.cancel([execution.pk], reason="enough", now=noon)
    assert lifecycle.lose(claim, error="killed", outcome=Outcome.CANCELLED, now=noon) is Finish.CANCELLED
    execution.refresh_from_db()
    assert execution.state == State.CANCELLED
    assert execution.attempts.get().outcome == Outcome.CANCELLED


def test_a_loss_that_is_told_late_is_refused(execution: Execution, claim: Claim, noon: datetime) -> None:
    lifecycle.succeed(claim, result=None, now=noon)
    assert lifecycle.lose(claim, error="killed", now=noon) is Finish.REFUSED
    execution.refresh_from_db()
    assert execution.state == State.SUCCEEDED


def test_errors_that_look_alike_share_a_fingerprint_on_the_row(job: Job, noon: datetime) -> None:
    rows = [planned(job, noon + seconds(number)) for number in range(3)]
    for row, error in zip(rows, ["no order 17", "no order 18", "no money"], strict=True):
        lifecycle.fail(claimed(row, now=noon), error=error, wish=Wish(gives_up=True), now=noon)
        row.refresh_from_db()
    assert rows[0].fingerprint == rows[1].fingerprint != rows[2].fingerprint
    assert all(row.fingerprint for row in rows)


def test_a_success_after_failures_has_neither_error_nor_fingerprint(
    execution: Execution, claim: Claim, noon: datetime
) -> None:
    lifecycle.fail(claim, error="boom", now=noon)
    execution.refresh_from_db()
    assert execution.fingerprint
    lifecycle.succeed(claimed(execution, now=noon), result=1, now=noon)
    execution.refresh_from_db()
    assert (execution.error, execution.fingerprint) == ("", "")


@pytest.mark.parametrize(
    ("wish", "finish", "due"),
    [
        (None, Finish.RETRY, 30),
        (Wish(), Finish.RETRY, 30),
        (Wish(retry_in=timedelta(hours=2)), Finish.RETRY, 7200),
        (Wish(retry_in=timedelta(0)), Finish.RETRY, 0),
        (Wish(gives_up=True), Finish.DEAD, None),
    ],
)
def test_a_handler_says_when_it_wants_to_be_tried_again_or_that_it_does_not(
    execution: Execution, claim: Claim, noon: datetime, wish: Wish | None, finish: Finish, due: int | None
) -> None:
    assert lifecycle.fail(claim, error="boom", wish=wish, now=noon) is finish
    execution.refresh_from_db()
    if due is not None:
        assert execution.available_at == noon + seconds(due)


def test_a_handlers_wish_goes_before_the_errors_that_a_policy_names(noon: datetime) -> None:
    from executions.retry import RetryPolicy

    job = a_job(now=noon, retry=RetryPolicy(give_up_on=("OSError",)))
    first, second = (claimed(planned(job, noon + seconds(n)), now=noon) for n in range(2))
    assert lifecycle.fail(first, error="boom", kinds=("OSError",), now=noon) is Finish.DEAD
    assert lifecycle.fail(second, error="boom", kinds=("OSError",), wish=Wish(), now=noon) is Finish.RETRY


def test_a_retry_comes_no_sooner_than_its_process_can_be_gone(
    execution: Execution, claim: Claim, noon: datetime
) -> None:
    wish = Wish(retry_in=timedelta(0))
    lifecycle.fail(claim, error="slow", wish=wish, no_sooner_than=seconds(2), now=noon)
    execution.refresh_from_db()
    assert execution.available_at == noon + seconds(2)


def test_a_worker_is_told_which_of_the_attempts_it_holds_are_to_stop(
    job: Job, execution: Execution, claim: Claim, noon: datetime
) -> None:
    other = claimed(planned(job, noon + seconds(1)), now=noon, worker="here")
    held = [(claim.execution_id, 1), (other.execution_id, 1)]
    assert lifecycle.to_stop(held, worker="here") == []
    lifecycle.cancel([execution.pk], reason="enough", now=noon)
    assert lifecycle.to_stop(held, worker="here") == [ToStop(execution.pk, 1, seconds(7))]
    assert lifecycle.to_stop(held, worker="elsewhere") == []
    assert lifecycle.to_stop([(execution.pk, 2)], worker="here") == []
    assert lifecycle.to_stop([], worker="here") == []


def test_the_claim_that_a_worker_holds_can_be_found_again_by_that_worker_alone(
    execution: Execution, claim: Claim
) -> None:
    assert lifecycle.claim_of(execution.pk, 1, worker="here") == claim
    assert lifecycle.claim_of(execution.pk, 1, worker="elsewhere") is None
    assert lifecycle.claim_of(execution.pk, 2, worker="here") is None


def test_a_limited_jobs_claim_is_found_with_its_lock(noon: datetime) -> None:
    job = a_job(now=noon, max_concurrency=1)
    claim = claimed(planned(job, noon), now=noon, worker="here")
    assert claim.limited_job == job.pk
    assert lifecycle.claim_of(claim.execution_id, 1, worker="here") == claim


def test_only_the_holder_of_the_claim_may_leave_notes(execution: Execution, claim: Claim, noon: datetime) -> None:
    assert lifecycle.checkpoint(claim, data={"page": 1})
    assert lifecycle.progress(claim, said={"done": 1})
    lifecycle.lose(claim, error="killed", now=noon)
    assert not lifecycle.checkpoint(claim, data={"page": 99})
    assert not lifecycle.progress(claim, said={"done": 99})
    execution.refresh_from_db()
    assert (execution.checkpoint, execution.progress) == ({"page": 1}, {"done": 1})


def test_that_a_finish_was_refused_is_told_on_the_attempt_it_was_for(
    execution: Execution, claim: Claim, noon: datetime
) -> None:
    lifecycle.lose(claim, error="silent", now=noon)
    later = noon + seconds(30)
    assert lifecycle.succeed(claim, result="late", now=later) is Finish.REFUSED
    assert lifecycle.record_refused(claim, Outcome.SUCCEEDED, now=later) == 1
    assert lifecycle.record_refused(claim, Outcome.FAILED, now=later) == 0  # the first word stays
    attempt = Attempt.objects.get(execution=execution.pk)
    assert (attempt.outcome, attempt.refused_outcome, attempt.refused_at) == (
        Outcome.WORKER_LOST,
        Outcome.SUCCEEDED,
        later,
    )


def test_a_retry_that_waits_can_be_hurried_and_nothing_else(job: Job, execution: Execution, noon: datetime) -> None:
    first_run = planned(job, noon + seconds(60))
    lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon)
    assert lifecycle.hurry([execution.pk, first_run.pk], now=noon) == 1
    execution.refresh_from_db()
    assert (execution.available_at, execution.reason) == (noon, "its retry was hurried")
    assert lifecycle.hurry([execution.pk], now=noon) == 0


# ── A claim that a crashed server has forgotten ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", [State.SCHEDULED, State.QUEUED])
def test_work_whose_claim_was_forgotten_ends_as_it_should_if_nobody_has_taken_it(noon: datetime, state: State) -> None:
    execution = planned(a_job(now=noon), noon)
    claim = claimed(execution, now=noon)
    Execution.objects.update(state=state, worker="", started_at=None, heartbeat_at=None)
    assert lifecycle.succeed(claim, result={"sum": 3}, now=noon + seconds(9)) is Finish.SUCCEEDED
    execution.refresh_from_db()
    assert (execution.state, execution.worker, execution.started_at) == (State.SUCCEEDED, claim.worker, noon)
    assert execution.attempts.get().outcome == Outcome.SUCCEEDED


def test_work_whose_claim_was_forgotten_and_given_to_another_is_refused_and_the_others_is_not(noon: datetime) -> None:
    execution = planned(a_job(now=noon), noon)
    forgotten = claimed(execution, now=noon, worker="first@here")
    Execution.objects.update(state=State.QUEUED, worker="", started_at=None, heartbeat_at=None)
    second = claimed(execution, now=noon + seconds(5), worker="second@here")
    assert lifecycle.succeed(forgotten, result=None, now=noon + seconds(6)) is Finish.REFUSED
    assert lifecycle.fail(forgotten, error="too late", now=noon + seconds(6)) is Finish.REFUSED
    execution.refresh_from_db()
    assert (execution.state, execution.worker) == (State.RUNNING, "second@here")
    assert lifecycle.succeed(second, result=None, now=noon + seconds(7)) is Finish.SUCCEEDED


@pytest.mark.full
@pytest.mark.django_db(transaction=True)
def test_the_commit_of_a_claim_is_not_waited_for_and_that_of_a_finish_is(noon: datetime) -> None:
    """As the server itself has it when the row is written."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE said (state text, waits text)")
        cursor.execute(
            "CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "INSERT INTO said VALUES (new.state, current_setting('synchronous_commit')); RETURN new; END $$"
        )
        cursor.execute("CREATE TRIGGER say AFTER UPDATE ON onbeat_execution FOR EACH ROW EXECUTE FUNCTION say()")
    try:
        execution = planned(a_job(now=noon), noon)
        lifecycle.mark_queued([execution], now=noon)
        claim = claimed(execution, now=noon)
        lifecycle.succeed(claim, result=None, now=noon)
        with connection.cursor() as cursor:
            cursor.execute("SELECT state, waits FROM said")
            assert cursor.fetchall() == [("QUEUED", "off"), ("RUNNING", "off"), ("SUCCEEDED", "on")]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER say ON onbeat_execution; DROP FUNCTION say; DROP TABLE said")
