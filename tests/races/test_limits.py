"""A job with a limit and several workers at once: never more than it may, and no waiter is forgotten."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from executions import lifecycle
from executions.models import Execution
from executions.outcomes import Claim, Finish, Held
from executions.retry import RetryPolicy
from executions.states import Overlap, State
from jobs import definitions
from tests.ends import give_up, retry, succeed
from tests.making import a_job, asked_for, claimed, seconds
from tests.races.connections import elsewhere, several, waits_for_us
from tests.waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
ROUNDS = 50
POLICIES = pytest.mark.parametrize(
    ("limit", "overlap"),
    [
        (1, Overlap.ALLOW),
        (2, Overlap.ALLOW),
        (1, Overlap.SKIP),
        (2, Overlap.QUEUE),
        (1, Overlap.CANCEL_PREVIOUS),
        (2, Overlap.CANCEL_PREVIOUS),
    ],
)


def running(job_id: int) -> int:
    return Execution.objects.running().filter(job_id=job_id).count()


def claim(execution: Execution, *, now: datetime) -> Claim | Held | None:
    return lifecycle.claim(execution.pk, 1, worker="w", now=now)


@POLICIES
@pytest.mark.parametrize("workers", [2, 3])
def test_of_claims_at_once_as_many_win_as_the_job_may_run(
    noon: datetime, limit: int, overlap: Overlap, workers: int
) -> None:
    job = a_job(now=noon, max_concurrency=limit, overlap=overlap)
    with several(workers) as start_all:
        for _ in range(ROUNDS // 2):
            rows = asked_for(job, workers, now=noon)

            def claim_and_count(execution: Execution) -> tuple[Claim | Held | None, int]:
                return claim(execution, now=noon), running(job.pk)

            answers = start_all(*(partial(claim_and_count, row) for row in rows))
            won = [answer for answer, _ in answers if isinstance(answer, Claim)]
            assert len(won) == min(limit, workers)
            assert max(count for _, count in answers) <= limit
            for each in won:
                lifecycle.succeed(each, result=None, now=noon)
            lifecycle.cancel([row.pk for row in rows], reason="the round is over", now=noon)


@POLICIES
def test_workers_that_claim_and_finish_without_pause_never_run_more_than_the_limit(
    noon: datetime, limit: int, overlap: Overlap
) -> None:
    job = a_job(now=noon, max_concurrency=limit, overlap=overlap)
    rows = asked_for(job, 2 * ROUNDS, now=noon)
    seen: list[int] = []

    def work(mine: list[Execution]) -> int:
        done = 0
        for execution in mine:
            answer = claim(execution, now=noon)
            if isinstance(answer, Claim):
                seen.append(running(job.pk))
                done += lifecycle.succeed(answer, result=None, now=noon) is Finish.SUCCEEDED
        return done

    with several(3) as start_all:
        done = start_all(*(partial(work, rows[n::3]) for n in range(3)))
    assert len(seen) == sum(done) == Execution.objects.filter(state=State.SUCCEEDED).count() > 0
    assert 1 <= min(seen) <= max(seen) <= limit
    assert running(job.pk) == 0


def test_a_claim_waits_for_the_one_before_it_and_then_finds_no_room(noon: datetime) -> None:
    job = a_job(now=noon, max_concurrency=1)
    first, second = asked_for(job, 2, now=noon)
    with transaction.atomic():
        claimed(first, now=noon)
        other = waits_for_us(partial(claim, second, now=noon))
    assert isinstance(other.result(timeout=20), Held)


def test_a_claim_whose_predecessor_was_rolled_back_finds_room(noon: datetime) -> None:
    job = a_job(now=noon, max_concurrency=1)
    first, second = asked_for(job, 2, now=noon)
    with transaction.atomic():
        claimed(first, now=noon)
        other = waits_for_us(partial(claim, second, now=noon))
        transaction.set_rollback(True)
    assert isinstance(other.result(timeout=20), Claim)


def test_a_limit_that_is_being_set_does_not_let_an_unlimited_job_wait(noon: datetime) -> None:
    job = a_job(now=noon)
    (execution,) = asked_for(job, 1, now=noon)
    with transaction.atomic():
        definitions.change(job, version=1, max_concurrency=1, now=noon)
        with several(1) as start:
            assert isinstance(start(partial(claim, execution, now=noon))[0], Claim)


# ── No waiter is forgotten ───────────────────────────────────────────────────────────────────────────────────────


def stop(held: Claim, now: datetime) -> None:
    assert lifecycle.stop(held, now=now) is Finish.CANCELLED


def rescue(held: Claim, now: datetime) -> None:
    # It passes by a job that somebody holds, and comes again.
    wait_until(lambda: len(lifecycle.rescue(silent_since=now, now=now)) == 1, what="the job is free and rescued")


ENDS = pytest.mark.parametrize("end", [succeed, retry, give_up, stop, rescue])


def a_limited_job(noon: datetime) -> tuple[Claim, Execution]:
    """One that runs, and another that will find no room."""
    job = a_job(now=noon, max_concurrency=1, retry=RetryPolicy(give_up_on=("KeyError",)))
    first, waiter = asked_for(job, 2, now=noon)
    held = claimed(first, now=noon)
    return held, waiter


@pytest.mark.parametrize("end", [succeed, retry, give_up, stop])
def test_a_waiter_that_came_first_is_woken_by_the_end(noon: datetime, end: Callable[[Claim, datetime], None]) -> None:
    held, waiter = a_limited_job(noon)
    if end is stop:
        lifecycle.cancel([held.execution_id], reason="not wanted", now=noon)
    late = noon + seconds(2)
    with transaction.atomic():
        answer = claim(waiter, now=noon)
        assert isinstance(answer, Held)
        ended = waits_for_us(partial(end, held, late))
    ended.result(timeout=20)
    waiter.refresh_from_db()
    assert (waiter.state, waiter.is_waiting, waiter.available_at) == (State.SCHEDULED, True, late)


@ENDS
def test_an_end_that_came_first_leaves_room(noon: datetime, end: Callable[[Claim, datetime], None]) -> None:
    held, waiter = a_limited_job(noon)
    if end is stop:
        lifecycle.cancel([held.execution_id], reason="not wanted", now=noon)
    with transaction.atomic():
        end(held, noon + timedelta(minutes=1))
        answer = waits_for_us(partial(claim, waiter, now=noon))
    assert isinstance(answer.result(timeout=20), Claim)


@ENDS
def test_of_an_end_and_a_claim_at_once_the_claim_wins_or_its_waiter_is_woken(
    noon: datetime, end: Callable[[Claim, datetime], None]
) -> None:
    late = noon + timedelta(minutes=1)
    with several(2) as start_both:
        for _ in range(ROUNDS):
            held, waiter = a_limited_job(noon)
            if end is stop:
                lifecycle.cancel([held.execution_id], reason="not wanted", now=noon)
            _, answer = start_both(partial(end, held, late), partial(claim, waiter, now=late - seconds(1)))
            waiter.refresh_from_db()
            if isinstance(answer, Claim):
                assert waiter.state == State.RUNNING
                lifecycle.succeed(answer, result=None, now=late)
            else:
                # It was held back, so the end came after it, and must have seen it.
                assert isinstance(answer, Held)
                assert (waiter.is_waiting, waiter.available_at) == (True, late)


def test_a_cancel_of_the_woken_waiter_and_a_new_waiter_at_once_leave_one_who_comes(noon: datetime) -> None:
    """There is room, the one that was woken for it is cancelled, and at that moment another asks for it."""
    late = noon + timedelta(minutes=1)
    with several(2) as start_both:
        for _ in range(ROUNDS):
            job = a_job(now=noon, max_concurrency=1)
            first, woken, other = asked_for(job, 3, now=noon)
            held = claimed(first, now=noon)
            assert isinstance(claim(woken, now=noon), Held)
            assert isinstance(claim(other, now=noon), Held)
            lifecycle.succeed(held, result=None, now=noon)
            start_both(
                partial(lifecycle.cancel, [woken.pk], reason="not wanted", now=late),
                partial(claim, other, now=late),
            )
            other.refresh_from_db()
            assert other.state == State.RUNNING


def test_a_confirm_that_comes_after_the_run_was_held_back_does_not_hide_the_waiter(noon: datetime) -> None:
    """The message was consumed when its run was held back: marked as QUEUED, nobody would publish it again."""
    held, waiter = a_limited_job(noon)
    with transaction.atomic():
        assert isinstance(claim(waiter, now=noon + seconds(1)), Held)
        assert elsewhere(lambda: lifecycle.mark_queued([waiter], now=noon + seconds(1))) == 0
    assert elsewhere(lambda: lifecycle.mark_queued([waiter], now=noon + seconds(1))) == 0
    lifecycle.succeed(held, result=None, now=noon + seconds(2))
    assert Execution.objects.due(noon + seconds(2)).filter(pk=waiter.pk).exists()


def test_a_run_whose_confirm_came_first_is_held_back_as_well(noon: datetime) -> None:
    held, waiter = a_limited_job(noon)
    with transaction.atomic():
        assert lifecycle.mark_queued([waiter], now=noon + seconds(1)) == 1
        answer = waits_for_us(partial(claim, waiter, now=noon + seconds(1)))
    assert isinstance(answer.result(timeout=20), Held)
    lifecycle.succeed(held, result=None, now=noon + seconds(2))
    assert Execution.objects.due(noon + seconds(2)).filter(pk=waiter.pk).exists()
