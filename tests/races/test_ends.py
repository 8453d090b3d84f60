"""One execution that two want to claim, finish, cancel or rescue: who wins, asserted both ways."""

from datetime import datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from executions import lifecycle
from executions.models import Attempt, Execution
from executions.outcomes import Cancelled, Claim, Finish
from executions.states import State, Trigger
from tests.making import a_job, asked_for, claimed, planned, seconds
from tests.races.connections import elsewhere, several, waits_for_us

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
ROUNDS = 40
LIMITS = pytest.mark.parametrize("limit", [None, 1], ids=["unlimited", "limited"])


def cancel(execution: Execution, *, now: datetime) -> Cancelled:
    return lifecycle.cancel([execution.pk], reason="not wanted", now=now)


def test_of_many_claims_exactly_one_wins(noon: datetime) -> None:
    job = a_job(now=noon)
    with several(3) as start_all:
        for number in range(ROUNDS):
            execution = planned(job, noon + seconds(number))
            claims = start_all(
                *(partial(lifecycle.claim, execution.pk, 1, worker=worker, now=noon) for worker in ("a", "b", "c"))
            )
            winners = [claim for claim in claims if claim is not None]
            assert len(winners) == 1
            execution.refresh_from_db()
            assert execution.worker == winners[0].worker


# ── Finish and rescue ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_finish_that_commits_first_beats_the_rescue(noon: datetime) -> None:
    execution = planned(a_job(now=noon), noon)
    claim = claimed(execution, now=noon)
    late = noon + timedelta(minutes=1)
    with transaction.atomic():
        assert lifecycle.succeed(claim, result=1, now=late) is Finish.SUCCEEDED
        # Not committed yet: the rescue sees a silent row, finds it locked and passes by.
        assert elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late)) == []
    assert elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late)) == []
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (State.SUCCEEDED, 1)


def test_a_rescue_passes_by_a_limited_job_that_is_being_finished_and_finds_nothing_later(noon: datetime) -> None:
    execution = planned(a_job(now=noon, max_concurrency=1), noon)
    claim = claimed(execution, now=noon)
    late = noon + timedelta(minutes=1)
    with transaction.atomic():
        assert lifecycle.succeed(claim, result=1, now=late) is Finish.SUCCEEDED
        assert elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late)) == []
    assert elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late)) == []
    assert [row.outcome for row in Attempt.objects.all()] == ["SUCCEEDED"]


@LIMITS
def test_a_rescue_that_commits_first_beats_the_finish(noon: datetime, limit: int | None) -> None:
    execution = planned(a_job(now=noon, max_concurrency=limit), noon)
    claim = claimed(execution, now=noon)
    late = noon + timedelta(minutes=1)
    with transaction.atomic():
        assert len(lifecycle.rescue(silent_since=late, now=late)) == 1
        finish = waits_for_us(lambda: lifecycle.succeed(claim, result=1, now=late))
    assert finish.result(timeout=20) is Finish.REFUSED
    execution.refresh_from_db()
    assert (execution.state, execution.attempt, execution.result) == (State.SCHEDULED, 2, None)
    assert [row.outcome for row in Attempt.objects.all()] == ["WORKER_LOST"]


@LIMITS
def test_finish_and_rescue_at_once_end_the_attempt_exactly_once(noon: datetime, limit: int | None) -> None:
    job = a_job(now=noon, max_concurrency=limit)
    late = noon + timedelta(minutes=1)
    with several(2) as start_both:
        for number in range(ROUNDS):
            execution = planned(job, noon + seconds(number))
            claim = claimed(execution, now=noon)
            finish, rescued = start_both(
                partial(lifecycle.succeed, claim, result=1, now=late),
                partial(lifecycle.rescue, silent_since=late, now=late),
            )
            execution.refresh_from_db()
            is_rescued = Attempt.objects.get(execution=execution).outcome == "WORKER_LOST"
            assert (finish is Finish.REFUSED, len(rescued)) == (is_rescued, is_rescued)
            assert (execution.state, execution.attempt) == (("SCHEDULED", 2) if is_rescued else ("SUCCEEDED", 1))


# ── Cancel and finish ────────────────────────────────────────────────────────────────────────────────────────────


@LIMITS
def test_a_cancel_that_comes_after_the_success_changes_nothing(noon: datetime, limit: int | None) -> None:
    execution = planned(a_job(now=noon, max_concurrency=limit), noon)
    claim = claimed(execution, now=noon)
    with transaction.atomic():
        assert lifecycle.succeed(claim, result=1, now=noon) is Finish.SUCCEEDED
        request = waits_for_us(partial(cancel, execution, now=noon))
    assert request.result(timeout=20) == Cancelled([], [])
    execution.refresh_from_db()
    assert (execution.state, execution.cancel_requested_at) == (State.SUCCEEDED, None)


@LIMITS
def test_a_success_counts_although_a_request_to_stop_came_before_it(noon: datetime, limit: int | None) -> None:
    execution = planned(a_job(now=noon, max_concurrency=limit), noon)
    claim = claimed(execution, now=noon)
    with transaction.atomic():
        assert cancel(execution, now=noon) == Cancelled([], [execution.pk])
        finish = waits_for_us(lambda: lifecycle.succeed(claim, result=1, now=noon))
    assert finish.result(timeout=20) is Finish.SUCCEEDED
    execution.refresh_from_db()
    assert (execution.state, execution.cancel_requested_at) == (State.SUCCEEDED, noon)


@LIMITS
@pytest.mark.parametrize("max_attempts", [1, 3])
def test_a_failure_that_meets_a_request_to_stop_ends_cancelled(
    noon: datetime, limit: int | None, max_attempts: int
) -> None:
    execution = planned(a_job(now=noon, max_concurrency=limit, max_attempts=max_attempts), noon)
    claim = claimed(execution, now=noon)
    with transaction.atomic():
        cancel(execution, now=noon)
        # It has read the row before the request was there, and must not trust what it read.
        finish = waits_for_us(lambda: lifecycle.fail(claim, error="boom", now=noon))
    assert finish.result(timeout=20) is Finish.CANCELLED
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (State.CANCELLED, 1)
    assert [(row.number, row.outcome) for row in Attempt.objects.all()] == [(1, "FAILED")]


@LIMITS
def test_a_cancel_that_comes_after_the_failure_takes_back_the_retry(noon: datetime, limit: int | None) -> None:
    execution = planned(a_job(now=noon, max_concurrency=limit), noon)
    claim = claimed(execution, now=noon)
    with transaction.atomic():
        assert lifecycle.fail(claim, error="boom", now=noon) is Finish.RETRY
        request = waits_for_us(partial(cancel, execution, now=noon))
    assert request.result(timeout=20) == Cancelled([execution.pk], [])
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (State.CANCELLED, 2)


@LIMITS
def test_a_cancel_that_comes_after_the_last_failure_changes_nothing(noon: datetime, limit: int | None) -> None:
    execution = planned(a_job(now=noon, max_concurrency=limit, max_attempts=1), noon)
    claim = claimed(execution, now=noon)
    with transaction.atomic():
        assert lifecycle.fail(claim, error="boom", now=noon) is Finish.DEAD
        request = waits_for_us(partial(cancel, execution, now=noon))
    assert request.result(timeout=20) == Cancelled([], [])
    execution.refresh_from_db()
    assert (execution.state, execution.cancel_requested_at) == (State.DEAD, None)


@LIMITS
def test_failures_and_cancels_at_once_leave_no_retry(noon: datetime, limit: int | None) -> None:
    job = a_job(now=noon, max_concurrency=limit)
    with several(2) as start_both:
        for number in range(ROUNDS):
            execution = planned(job, noon + seconds(number))
            claim = claimed(execution, now=noon)
            finish, cancelled = start_both(
                partial(lifecycle.fail, claim, error="boom", now=noon), partial(cancel, execution, now=noon)
            )
            execution.refresh_from_db()
            assert execution.state == State.CANCELLED
            assert Attempt.objects.filter(execution=execution).count() == 1
            expected = Cancelled([execution.pk], []) if finish is Finish.RETRY else Cancelled([], [execution.pk])
            assert cancelled == expected


# ── Cancel and claim, cancel and rescue ──────────────────────────────────────────────────────────────────────────


@LIMITS
def test_a_cancel_that_commits_first_leaves_nothing_to_claim(noon: datetime, limit: int | None) -> None:
    execution = planned(a_job(now=noon, max_concurrency=limit), noon)
    with transaction.atomic():
        assert cancel(execution, now=noon) == Cancelled([execution.pk], [])
        claim = waits_for_us(lambda: lifecycle.claim(execution.pk, 1, worker="w", now=noon))
    assert claim.result(timeout=20) is None
    execution.refresh_from_db()
    assert (execution.state, execution.worker) == (State.CANCELLED, "")


@LIMITS
def test_a_cancel_that_comes_after_the_claim_is_a_request(noon: datetime, limit: int | None) -> None:
    execution = planned(a_job(now=noon, max_concurrency=limit), noon)
    with transaction.atomic():
        claimed(execution, now=noon)
        request = waits_for_us(partial(cancel, execution, now=noon))
    assert request.result(timeout=20) == Cancelled([], [execution.pk])
    execution.refresh_from_db()
    assert (execution.state, execution.cancel_requested_at) == (State.RUNNING, noon)


@LIMITS
def test_of_a_cancel_and_a_claim_at_once_the_answers_agree(noon: datetime, limit: int | None) -> None:
    job = a_job(now=noon, max_concurrency=limit)
    with several(2) as start_both:
        for number in range(ROUNDS):
            execution = planned(job, noon + seconds(number))
            claim, cancelled = start_both(
                partial(lifecycle.claim, execution.pk, 1, worker="w", now=noon), partial(cancel, execution, now=noon)
            )
            execution.refresh_from_db()
            if claim is None:
                assert (execution.state, cancelled.before_run) == (State.CANCELLED, [execution.pk])
            else:
                assert (execution.state, cancelled.asked_to_stop) == (State.RUNNING, [execution.pk])
                assert lifecycle.stop(claim, now=noon) is Finish.CANCELLED


def test_a_rescue_passes_by_a_row_that_is_being_asked_to_stop_and_then_ends_it_cancelled(noon: datetime) -> None:
    execution = planned(a_job(now=noon), noon)
    claimed(execution, now=noon)
    late = noon + timedelta(minutes=1)
    with transaction.atomic():
        cancel(execution, now=noon)
        assert elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late)) == []
    (rescued,) = elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late))
    assert rescued.state is State.CANCELLED


def test_a_rescue_passes_by_a_limited_job_that_is_being_cancelled_and_heeds_the_request_later(noon: datetime) -> None:
    execution = planned(a_job(now=noon, max_concurrency=1), noon)
    claimed(execution, now=noon)
    late = noon + timedelta(minutes=1)
    with transaction.atomic():
        cancel(execution, now=noon)
        assert elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late)) == []
    rescued = elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late))
    assert [row.state for row in rescued] == [State.CANCELLED]


@LIMITS
def test_a_cancel_that_comes_after_the_rescue_takes_back_the_next_attempt(noon: datetime, limit: int | None) -> None:
    execution = planned(a_job(now=noon, max_concurrency=limit), noon)
    claimed(execution, now=noon)
    late = noon + timedelta(minutes=1)
    with transaction.atomic():
        assert len(lifecycle.rescue(silent_since=late, now=late)) == 1
        request = waits_for_us(partial(cancel, execution, now=late))
    assert request.result(timeout=20) == Cancelled([execution.pk], [])
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (State.CANCELLED, 2)


@LIMITS
def test_rescues_and_cancels_at_once_leave_nothing_to_try_again(noon: datetime, limit: int | None) -> None:
    job = a_job(now=noon, max_concurrency=limit)
    late = noon + timedelta(minutes=1)
    with several(2) as start_both:
        for number in range(ROUNDS):
            execution = planned(job, noon + seconds(number))
            assert isinstance(lifecycle.claim(execution.pk, 1, worker="gone", now=noon), Claim)
            start_both(partial(lifecycle.rescue, silent_since=late, now=late), partial(cancel, execution, now=late))
            lifecycle.rescue(silent_since=late, now=late)  # the one at once may have passed by a locked row
            execution.refresh_from_db()
            assert execution.state == State.CANCELLED
            assert Attempt.objects.get(execution=execution).outcome == "WORKER_LOST"


# ── Many rows at a time ──────────────────────────────────────────────────────────────────────────────────────────


def test_two_cancels_of_the_same_rows_in_opposite_order_share_them_and_wait_in_no_ring(noon: datetime) -> None:
    jobs = [a_job(now=noon, max_concurrency=limit) for limit in (None, 1, 2)]
    with several(2) as start_both:
        for _ in range(ROUNDS // 2):
            ids = [row.pk for job in jobs for row in asked_for(job, 20, now=noon)]
            answers = start_both(
                partial(lifecycle.cancel, ids, reason="one", now=noon),
                partial(lifecycle.cancel, ids[::-1], reason="other", now=noon),
            )
            cancelled = [pk for answer in answers for pk in answer.before_run]
            assert sorted(cancelled) == sorted(ids)


@pytest.mark.parametrize("verb", ["publish", "hold", "heartbeat"])
def test_a_cancel_of_many_rows_and_a_beat_or_worker_that_names_them_wait_in_no_ring(noon: datetime, verb: str) -> None:
    job = a_job(now=noon)
    with several(2) as start_both:
        for _ in range(ROUNDS // 2):
            # Stored from last to first: the order on disk is not the order of the ids.
            rows = [job.new_execution(noon + seconds(n), trigger=Trigger.DELAYED, now=noon) for n in range(200)][::-1]
            lifecycle.plan(rows)
            if verb == "heartbeat":
                Execution.objects.with_ids([row.pk for row in rows]).update(state=State.RUNNING, worker="w")
            acts = {
                "publish": partial(lifecycle.mark_queued, rows, now=noon + seconds(300)),
                "hold": partial(lifecycle.hold, rows, reason="no queue", until=noon),
                "heartbeat": partial(lifecycle.heartbeat, [(row.pk, 1) for row in rows], worker="w", now=noon),
            }
            ids = [row.pk for row in rows]
            _, cancelled = start_both(acts[verb], partial(lifecycle.cancel, ids, reason="not wanted", now=noon))
            assert len(cancelled.before_run) + len(cancelled.asked_to_stop) == len(rows)
