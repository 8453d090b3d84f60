"""How it ends: finished, tried again, given up, lost, cancelled. Every end of a limited job wakes a waiter."""

import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from executions import concurrency
from executions.fingerprint import of_error
from executions.identity import fire_time_of
from executions.lifecycle import tally
from executions.lifecycle.attempts import ASKED_TO_STOP, NOT_ASKED_TO_STOP, end_attempt
from executions.lifecycle.rows import ask_to_stop, held_by
from executions.lifecycle.running import start_unlimited
from executions.models import REASON_CHARACTERS, Attempt, Execution, ExecutionQuerySet
from executions.outcomes import Cancelled, Claim, Finish, Rescued, Wish
from executions.retry import RetryPolicy, may_try_again, spread_of
from executions.states import Outcome, State
from executions.storable import storable_text

_CANCELLED = "cancelled while it ran"
_LOST = "The worker vanished while it ran this attempt: no heartbeat."
_FINISHES = {
    State.SUCCEEDED: Finish.SUCCEEDED,
    State.CANCELLED: Finish.CANCELLED,
    State.DEAD: Finish.DEAD,
    State.SCHEDULED: Finish.RETRY,
}
_LOST_AND_TRIED_AGAIN = "its worker was lost; tried again"


def succeed(claim: Claim, *, result: object, now: datetime) -> Finish:
    """RUNNING → SUCCEEDED. The work is done, also if somebody asked meanwhile to stop it."""
    ended = _end(claim, Outcome.SUCCEEDED, now=now, state=State.SUCCEEDED, finished_at=now, result=result)
    return Finish.SUCCEEDED if ended else Finish.REFUSED


def fail(
    claim: Claim,
    *,
    error: str,
    now: datetime,
    kinds: tuple[str, ...] = (),
    outcome: Outcome = Outcome.FAILED,
    wish: Wish | None = None,
    no_sooner_than: timedelta = timedelta(0),
) -> Finish:
    """RUNNING → SCHEDULED for the next attempt after a backoff, or → DEAD, or → CANCELLED if that was asked for."""
    facts = held_by(claim).values_list("lost", "max_attempts", "job__retry").first()
    if facts is None:
        return Finish.REFUSED
    lost, max_attempts, retry = facts
    policy = RetryPolicy.stored(retry)
    if wish is None:
        deserves_retry, wish = policy.deserves_retry(kinds), Wish()
    else:
        deserves_retry = not wish.gives_up
    if not deserves_retry or not may_try_again(attempt=claim.attempt, lost=lost, max_attempts=max_attempts):
        return _give_up(claim, outcome, error=error, now=now)
    delay = policy.delay(claim.attempt - lost, spread=spread_of(claim.execution_id))
    delay = max(no_sooner_than, delay if wish.retry_in is None else wish.retry_in)
    payload = {"args": wish.args and list(wish.args), "kwargs": wish.kwargs and dict(wish.kwargs)}
    changes = {name: value for name, value in payload.items() if value is not None}
    return _try_again(claim, outcome, error=error, now=now, at=now + delay, reason="waits for its retry", **changes)


def lose(claim: Claim, *, error: str, now: datetime, outcome: Outcome = Outcome.WORKER_LOST) -> Finish:
    """RUNNING → SCHEDULED at once, or → DEAD after too many losses, or → CANCELLED if that was asked for."""
    facts = held_by(claim).values_list("lost", "max_lost").first()
    if facts is None:
        return Finish.REFUSED
    lost, max_lost = facts
    if lost + 1 >= max_lost:
        return _give_up(claim, outcome, error=error, now=now, lost=lost + 1)
    return _try_again(claim, outcome, error=error, now=now, at=now, reason=_LOST_AND_TRIED_AGAIN, lost=lost + 1)


def _give_up(claim: Claim, outcome: Outcome, *, error: str, now: datetime, **changes: object) -> Finish:
    changes |= {"state": State.DEAD, "finished_at": now}
    ended = _end(claim, outcome, now=now, error=error, only=NOT_ASKED_TO_STOP, **changes)
    return Finish.DEAD if ended else stop(claim, error=error, outcome=outcome, now=now)


def _try_again(
    claim: Claim, outcome: Outcome, *, error: str, now: datetime, at: datetime, reason: str, **changes: object
) -> Finish:
    changes |= {"state": State.SCHEDULED, "attempt": claim.attempt + 1, "available_at": at, "reason": reason}
    ended = _end(claim, outcome, now=now, error=error, only=NOT_ASKED_TO_STOP, **changes)
    return Finish.RETRY if ended else stop(claim, error=error, outcome=outcome, now=now)


def stop(claim: Claim, *, now: datetime, error: str = "", outcome: Outcome = Outcome.CANCELLED) -> Finish:
    """RUNNING → CANCELLED, if that was asked for."""
    ended = _end(
        claim,
        outcome,
        now=now,
        error=error,
        only=ASKED_TO_STOP,
        state=State.CANCELLED,
        finished_at=now,
        reason=_CANCELLED,
    )
    return Finish.CANCELLED if ended else Finish.REFUSED


def _end(claim: Claim, outcome: Outcome, *, now: datetime, error: str = "", only: str = "", **changes: object) -> bool:
    """End the claimed attempt, if it is still the claimant's to end, and record it."""
    changes |= {"error": error, "fingerprint": of_error(error), "awaited_until": None, "response": None}
    has_ended = _end_as_limited(claim, outcome, changes, error=error, now=now, only=only)
    if has_ended:
        tally.attempt_ended(outcome, State(str(changes["state"])), started_at=claim.started_at, now=now)
    return has_ended


def _end_as_limited(
    claim: Claim, outcome: Outcome, changes: Mapping[str, object], *, error: str, now: datetime, only: str
) -> bool:
    if claim.limited_job is None:
        return end_attempt(claim, outcome, changes, error=error, now=now, only=only) or _end_forgotten(
            claim, outcome, changes, error=error, now=now, only=only
        )
    with transaction.atomic():
        concurrency.lock([claim.limited_job])
        if not end_attempt(claim, outcome, changes, error=error, now=now, only=only):
            return False
        wake(claim.limited_job, now=now)
    return True


def _end_forgotten(
    claim: Claim, outcome: Outcome, changes: Mapping[str, object], *, error: str, now: datetime, only: str
) -> bool:
    """A server that crashed forgot the claim, whose commit was not waited for. If nobody has taken the attempt since,
    it is still its claimant's: claimed again as it was, and ended."""
    with transaction.atomic():
        is_ours = start_unlimited(claim.execution_id, claim.attempt, worker=claim.worker, now=claim.started_at)
        return is_ours and end_attempt(claim, outcome, changes, error=error, now=now, only=only)


def finish_of(claim: Claim, *, ended_at: Collection[datetime]) -> Finish | None:
    """What became of the execution, if its claim's holder ended the attempt at one of these moments.

    Only looks, and counts it: who ended it never heard that it was done.
    """
    past = Attempt.objects.filter(execution=claim.execution_id, fire_time=fire_time_of(claim.execution_id))
    ours = past.filter(number=claim.attempt, worker=claim.worker, finished_at__in=ended_at)
    end = ours.values_list("outcome", "finished_at").first()
    if end is None:
        return None
    state, attempt = Execution.objects.with_id(claim.execution_id).values_list("state", "attempt").get()
    then = State.SCHEDULED if attempt > claim.attempt else State(state)
    tally.attempt_ended(Outcome(end[0]), then, started_at=claim.started_at, now=end[1])
    return _FINISHES[then]


def record_refused(claim: Claim, outcome: Outcome, *, now: datetime) -> int:
    """Let a past attempt tell that its holder came back after all, and with what. No state changes."""
    fire_time = fire_time_of(claim.execution_id)
    over = Attempt.objects.filter(execution=claim.execution_id, number=claim.attempt, fire_time=fire_time)
    return over.filter(refused_at=None).update(refused_at=now, refused_outcome=outcome)


def cancel(ids: Collection[uuid.UUID], *, reason: str, now: datetime) -> Cancelled:
    """SCHEDULED or QUEUED → CANCELLED. What runs is asked to stop; whoever finishes it decides."""
    reason = storable_text(reason, REASON_CHARACTERS)
    with transaction.atomic():
        limited = Execution.objects.with_ids(ids).open().filter(concurrency.is_limited())
        concurrency.lock(limited.values_list("job_id", flat=True))
        rows = list(
            Execution.objects.with_ids(ids)
            .open()
            .select_for_update()
            .order_by("pk")
            .values_list("pk", "state", "job_id", "is_waiting")
        )
        waiting = [pk for pk, state, _, _ in rows if state != State.RUNNING]
        running = [pk for pk, state, _, _ in rows if state == State.RUNNING]
        Execution.objects.with_ids(waiting).update(
            state=State.CANCELLED, reason=reason, finished_at=now, is_waiting=False
        )
        ask_to_stop(Execution.objects.with_ids(running), now=now)
        # One that was woken for a free place does not take it now: another waiter may.
        for job_id, count in Counter(job_id for _, _, job_id, was_waiting in rows if was_waiting).items():
            wake(job_id, now=now, count=count)
        tally.cancelled_before_run(len(waiting))
    return Cancelled(waiting, running)


def wake(job_id: int, *, now: datetime, count: int = 1) -> int:
    """Let waiters of a job come now, the most urgent first. Those woken before are on their way and do not count."""
    asleep = Execution.objects.waiting().scheduled().filter(job_id=job_id, available_at__gt=now)
    chosen = list(asleep.order_by("-priority", "fire_time").values_list("pk", flat=True)[:count])
    return Execution.objects.with_ids(chosen).waiting().scheduled().update(available_at=now)


def rescue(*, silent_since: datetime, now: datetime, limit: int = 1000) -> list[Rescued]:
    """End attempts whose worker has said nothing since a moment: try again, or give up when too many were lost."""
    silent = Execution.objects.silent_since(silent_since)
    with transaction.atomic():
        ids = list(silent.values_list("pk", flat=True)[:limit])
        limited = Execution.objects.with_ids(ids).filter(concurrency.is_limited())
        limited_jobs = set(limited.values_list("job_id", flat=True))
        # An app may hold one for long: its executions are rescued next time, and no beat waits for it.
        busy_jobs = limited_jobs - concurrency.lock_free(limited_jobs)
        # Locked, so that a finish that commits first takes its row out of the set and one that comes later finds a
        # higher attempt.
        lost = list(silent.with_ids(ids).exclude(job_id__in=busy_jobs).select_for_update(skip_locked=True))
        ends = {execution: _end_of_lost(execution) for execution in lost}
        of_all = {"lost": F("lost") + 1, "error": _LOST, "fingerprint": of_error(_LOST)}
        for state, reason in ((State.CANCELLED, _CANCELLED), (State.DEAD, "")):
            _running(ends, state).update(state=state, reason=reason, finished_at=now, **of_all)
        _running(ends, State.SCHEDULED).update(
            state=State.SCHEDULED,
            attempt=F("attempt") + 1,
            available_at=now,
            reason=_LOST_AND_TRIED_AGAIN,
            **of_all,
        )
        Attempt.objects.bulk_create(
            Attempt.ended(e.pk, e.attempt, Outcome.WORKER_LOST, e.worker, e.started_at or now, now, _LOST) for e in lost
        )
        for job_id, count in Counter(e.job_id for e in lost if e.job_id in limited_jobs).items():
            wake(job_id, now=now, count=count)
        for execution, end in ends.items():
            tally.attempt_ended(Outcome.WORKER_LOST, end, started_at=execution.started_at or now, now=now)
    return [Rescued(e.pk, e.attempt, e.worker, state) for e, state in ends.items()]


def _end_of_lost(execution: Execution) -> State:
    if execution.cancel_requested_at is not None:
        return State.CANCELLED
    return State.DEAD if execution.lost + 1 >= execution.max_lost else State.SCHEDULED


def _running(ends: dict[Execution, State], state: State) -> ExecutionQuerySet:
    return Execution.objects.with_ids([execution.pk for execution, end in ends.items() if end is state]).running()
