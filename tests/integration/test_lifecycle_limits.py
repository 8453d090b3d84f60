"""Jobs with a limit: what each overlap policy makes of a run that finds no room, and who is woken by an end."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from executions import lifecycle
from executions.lifecycle import LOOK_AGAIN_AFTER
from executions.models import Execution
from executions.outcomes import Claim, Finish, Held
from executions.retry import RetryPolicy
from executions.states import Overlap, State
from jobs import definitions
from jobs.models import Job
from tests.ends import give_up, retry, succeed
from tests.making import a_job, asked_for, claimed, planned, seconds

pytestmark = pytest.mark.django_db
RETRY = RetryPolicy(give_up_on=("KeyError",))


def a_limited_job(noon: datetime, overlap: Overlap = Overlap.ALLOW, limit: int = 1) -> Job:
    return a_job(now=noon, overlap=overlap, max_concurrency=limit, retry=RETRY)


def deliver(execution: Execution, *, now: datetime) -> Claim | Held | None:
    """What a worker does with the message of an execution as it is now."""
    execution.refresh_from_db()
    return lifecycle.claim(execution.pk, execution.attempt, worker="w", now=now)


def held_back(*executions: Execution, now: datetime) -> None:
    for execution in executions:
        assert deliver(execution, now=now) == Held(State.SCHEDULED, "waits: 1 of this job may run at once")


def woken(now: datetime) -> list[Execution]:
    return list(Execution.objects.waiting().due(now).order_by("pk"))


# ── The policies, step by step ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_up_to_the_limit_all_run_and_the_next_one_waits(noon: datetime, limit: int) -> None:
    *first, last = asked_for(a_limited_job(noon, limit=limit), limit + 1, now=noon)
    for execution in first:
        assert isinstance(deliver(execution, now=noon), Claim)
    assert isinstance(deliver(last, now=noon), Held)
    last.refresh_from_db()
    assert (last.state, last.is_waiting, last.attempt) == (State.SCHEDULED, True, 1)
    assert last.available_at == noon + LOOK_AGAIN_AFTER
    assert last.reason == f"waits: {limit} of this job may run at once"


def test_a_run_that_was_queued_waits_as_well(noon: datetime) -> None:
    first, second = asked_for(a_limited_job(noon), 2, now=noon)
    claimed(first, now=noon)
    lifecycle.mark_queued([second], now=noon + seconds(1))
    held_back(second, now=noon + seconds(1))
    second.refresh_from_db()
    assert second.state == State.SCHEDULED


def test_a_limit_counts_for_each_job_alone(noon: datetime) -> None:
    for job in (a_limited_job(noon), a_limited_job(noon), a_job(now=noon)):
        assert isinstance(deliver(planned(job, noon), now=noon), Claim)


def test_allow_lets_any_number_wait(noon: datetime) -> None:
    first, *others = asked_for(a_limited_job(noon), 4, now=noon)
    claimed(first, now=noon)
    held_back(*others, now=noon)
    assert Execution.objects.waiting().count() == 3


def test_skip_leaves_out_what_finds_no_room_and_says_why(noon: datetime) -> None:
    first, second, third = asked_for(a_limited_job(noon, Overlap.SKIP), 3, now=noon)
    claim = claimed(first, now=noon)
    reason = "overlap SKIP: the previous one still ran"
    assert deliver(second, now=noon) == Held(State.SKIPPED, reason)
    second.refresh_from_db()
    assert (second.state, second.reason, second.finished_at) == (State.SKIPPED, reason, noon)
    assert not second.is_waiting
    assert deliver(second, now=noon) is None
    lifecycle.succeed(claim, result=None, now=noon)
    assert isinstance(deliver(third, now=noon), Claim)


def test_queue_lets_one_wait_and_leaves_out_the_next(noon: datetime) -> None:
    first, second, third = asked_for(a_limited_job(noon, Overlap.QUEUE), 3, now=noon)
    claim = claimed(first, now=noon)
    held_back(second, now=noon)
    assert deliver(third, now=noon) == Held(State.SKIPPED, "overlap QUEUE: another one waits already")
    lifecycle.succeed(claim, result=None, now=noon)
    assert isinstance(deliver(second, now=noon), Claim)


def test_queue_lets_the_one_who_waits_look_again_and_wait_on(noon: datetime) -> None:
    first, second = asked_for(a_limited_job(noon, Overlap.QUEUE), 2, now=noon)
    claimed(first, now=noon)
    held_back(second, now=noon)
    held_back(second, now=noon + LOOK_AGAIN_AFTER)
    second.refresh_from_db()
    assert second.available_at == noon + 2 * LOOK_AGAIN_AFTER


def test_queue_does_not_leave_out_the_one_who_waits_because_a_retry_joined_it(noon: datetime) -> None:
    first, second, third = asked_for(a_limited_job(noon, Overlap.QUEUE), 3, now=noon)
    assert lifecycle.fail(claimed(first, now=noon), error="boom", now=noon) is Finish.RETRY
    claimed(second, now=noon)
    held_back(third, now=noon)
    held_back(first, now=noon)  # its second attempt: it waits whatever the policy
    held_back(third, now=noon + LOOK_AGAIN_AFTER)


def test_cancel_previous_waits_and_asks_what_runs_to_stop(noon: datetime) -> None:
    job = a_limited_job(noon, Overlap.CANCEL_PREVIOUS)
    first, second = asked_for(job, 2, now=noon)
    other = planned(a_limited_job(noon), noon)
    claim, _ = claimed(first, now=noon), claimed(other, now=noon)
    later = noon + seconds(1)
    held_back(second, now=later)
    first.refresh_from_db()
    other.refresh_from_db()
    assert (first.state, first.cancel_requested_at) == (State.RUNNING, later)
    assert other.cancel_requested_at is None
    assert lifecycle.fail(claim, error="stopped", now=later) is Finish.CANCELLED
    assert woken(later) == [second]
    assert isinstance(deliver(second, now=later), Claim)


def test_cancel_previous_keeps_the_moment_of_the_first_request(noon: datetime) -> None:
    first, second = asked_for(a_limited_job(noon, Overlap.CANCEL_PREVIOUS), 2, now=noon)
    claimed(first, now=noon)
    held_back(second, now=noon)
    held_back(second, now=noon + LOOK_AGAIN_AFTER)
    first.refresh_from_db()
    assert first.cancel_requested_at == noon


def test_cancel_previous_does_not_stop_what_came_later(noon: datetime) -> None:
    """The room went to a newer one before the waiter came for it."""
    job = a_limited_job(noon, Overlap.CANCEL_PREVIOUS)
    first, waiter, newest = asked_for(job, 3, now=noon)
    claim = claimed(first, now=noon)
    held_back(waiter, now=noon)
    lifecycle.stop(claim, now=noon)
    claimed(newest, now=noon)
    held_back(waiter, now=noon)
    newest.refresh_from_db()
    assert newest.cancel_requested_at is None


@pytest.mark.parametrize("overlap", list(Overlap))
def test_a_later_attempt_waits_whatever_the_policy(noon: datetime, overlap: Overlap) -> None:
    first, second = asked_for(a_limited_job(noon, overlap), 2, now=noon)
    lifecycle.fail(claimed(first, now=noon), error="boom", now=noon)
    claimed(second, now=noon)
    held_back(first, now=noon + seconds(30))
    first.refresh_from_db()
    assert (first.state, first.attempt, first.is_waiting) == (State.SCHEDULED, 2, True)


# ── Who is woken ─────────────────────────────────────────────────────────────────────────────────────────────────


def stop(claim: Claim, now: datetime) -> None:
    lifecycle.cancel([claim.execution_id], reason="not wanted", now=now)
    assert lifecycle.stop(claim, now=now) is Finish.CANCELLED


def rescue(claim: Claim, now: datetime) -> None:
    assert len(lifecycle.rescue(silent_since=now, now=now)) == 1


@pytest.mark.parametrize("end", [succeed, retry, give_up, stop, rescue])
def test_every_end_wakes_exactly_one(noon: datetime, end: Callable[[Claim, datetime], None]) -> None:
    first, second, third = asked_for(a_limited_job(noon), 3, now=noon)
    claim = claimed(first, now=noon)
    held_back(second, third, now=noon)
    later = noon + seconds(1)
    end(claim, later)
    assert woken(later) == [second]
    second.refresh_from_db()
    assert (second.state, second.available_at) == (State.SCHEDULED, later)


def test_a_finish_that_is_refused_wakes_nobody(noon: datetime) -> None:
    first, second, third = asked_for(a_limited_job(noon), 3, now=noon)
    claim = claimed(first, now=noon)
    held_back(second, third, now=noon)
    succeed(claim, noon)
    assert lifecycle.succeed(claim, result=None, now=noon) is Finish.REFUSED
    assert lifecycle.fail(claim, error="late", now=noon) is Finish.REFUSED
    assert woken(noon) == [second]


def test_a_rescue_of_several_wakes_as_many(noon: datetime) -> None:
    rows = asked_for(a_limited_job(noon, limit=2), 5, now=noon)
    for execution in rows:
        deliver(execution, now=noon)
    lifecycle.rescue(silent_since=noon + seconds(1), now=noon + seconds(1))
    assert woken(noon + seconds(1)) == rows[2:4]


def test_the_most_urgent_waiter_is_woken_first_and_then_the_oldest(noon: datetime) -> None:
    job = a_limited_job(noon)
    first, old, young, urgent = asked_for(job, 4, now=noon)
    Execution.objects.filter(pk=urgent.pk).update(priority=9)
    claimed(first, now=noon)
    held_back(young, urgent, old, now=noon)
    order = []
    for _ in range(4):
        before = set(woken(noon))
        lifecycle.wake(job.pk, now=noon)
        order += [execution for execution in woken(noon) if execution not in before]
    assert order == [urgent, old, young]


def test_one_that_was_woken_before_is_on_its_way_and_does_not_count(noon: datetime) -> None:
    job = a_limited_job(noon)
    first, second, third, fourth = asked_for(job, 4, now=noon)
    claimed(first, now=noon)
    held_back(second, third, fourth, now=noon)
    assert lifecycle.wake(job.pk, now=noon) == 1
    lifecycle.mark_queued([Execution.objects.get(pk=second.pk)], now=noon)
    assert lifecycle.wake(job.pk, now=noon) == 1
    assert woken(noon) == [third]
    assert lifecycle.wake(job.pk, now=noon, count=9) == 1
    assert lifecycle.wake(job.pk, now=noon) == 0


def test_only_waiters_of_the_same_job_are_woken(noon: datetime) -> None:
    claims = []
    for job in (a_limited_job(noon), a_limited_job(noon)):
        first, waiter = asked_for(job, 2, now=noon)
        claims.append(claimed(first, now=noon))
        held_back(waiter, now=noon)
    succeed(claims[0], noon)
    assert [execution.job_id for execution in woken(noon)] == [Execution.objects.get(pk=claims[0].execution_id).job_id]


def test_a_waiter_that_nobody_woke_comes_back_by_itself(noon: datetime) -> None:
    first, second = asked_for(a_limited_job(noon), 2, now=noon)
    claimed(first, now=noon)
    held_back(second, now=noon)
    assert woken(noon + LOOK_AGAIN_AFTER - timedelta(microseconds=1)) == []
    assert woken(noon + LOOK_AGAIN_AFTER) == [second]


def test_a_confirm_that_comes_after_the_run_was_held_back_does_not_hide_it(noon: datetime) -> None:
    first, second = asked_for(a_limited_job(noon), 2, now=noon - seconds(1))
    claim = claimed(first, now=noon)
    (read,) = Execution.objects.due(noon)
    held_back(second, now=noon + seconds(1))
    assert lifecycle.mark_queued([read], now=noon) == 0
    succeed(claim, noon + seconds(2))
    assert lifecycle.mark_queued([read], now=noon) == 0
    assert woken(noon + seconds(2)) == [second]


def test_a_waiter_is_accepted_work_and_not_taken_back(noon: datetime) -> None:
    job = a_limited_job(noon)
    first, second = planned(job, noon), planned(job, noon + seconds(60))
    claimed(first, now=noon)
    held_back(second, now=noon)
    lifecycle.wake(job.pk, now=noon)
    assert lifecycle.unplan(job.pk, reason="paused", now=noon).removed == []
    Execution.objects.update(reason="")
    assert lifecycle.unplan(job.pk, reason="paused", now=noon).removed == []
    assert woken(noon) == [second]


def test_a_cancel_of_a_woken_waiter_wakes_another(noon: datetime) -> None:
    first, second, third = asked_for(a_limited_job(noon), 3, now=noon)
    claim = claimed(first, now=noon)
    held_back(second, third, now=noon)
    succeed(claim, noon)
    lifecycle.cancel([second.pk], reason="not wanted", now=noon)
    assert woken(noon) == [third]
    assert list(Execution.objects.waiting()) == [third]


def test_a_cancel_of_several_woken_waiters_wakes_as_many(noon: datetime) -> None:
    rows = asked_for(a_limited_job(noon, limit=2), 6, now=noon)
    claims = [deliver(execution, now=noon) for execution in rows]
    for claim in claims[:2]:
        assert isinstance(claim, Claim)
        succeed(claim, noon)
    assert woken(noon) == rows[2:4]
    lifecycle.cancel([execution.pk for execution in rows[2:4]], reason="not wanted", now=noon)
    assert woken(noon) == rows[4:]


# ── Edits of the limit ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [None, 2], ids=["removed", "raised"])
def test_a_limit_that_is_removed_or_raised_lets_a_waiter_through(noon: datetime, limit: int | None) -> None:
    job = a_limited_job(noon)
    first, second = asked_for(job, 2, now=noon)
    claimed(first, now=noon)
    held_back(second, now=noon)
    definitions.change(job, version=1, max_concurrency=limit, now=noon)
    assert isinstance(deliver(second, now=noon + LOOK_AGAIN_AFTER), Claim)
    second.refresh_from_db()
    assert (second.state, second.is_waiting, second.reason) == (State.RUNNING, False, "")


def test_a_limit_that_is_set_counts_those_that_run_already(noon: datetime) -> None:
    job = a_job(now=noon)
    first, second, third = asked_for(job, 3, now=noon)
    claims = [claimed(first, now=noon), claimed(second, now=noon)]
    definitions.change(job, version=1, max_concurrency=1, now=noon)
    for claim in claims:
        held_back(third, now=noon)
        succeed(claim, noon)
    assert isinstance(deliver(third, now=noon), Claim)
