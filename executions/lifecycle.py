"""The only writer of an execution's state.

Each verb is one conditional statement whose row count is looked at; a verb that ends an attempt also records it, in the
same transaction. Every step is a row of `executions.states.TRANSITIONS`. Invariant: whoever claims, finishes or
rescues names the attempt; zero rows means that somebody else was first, which is an ordinary outcome and not an error.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db import transaction
from django.db.models import F

from executions.models import Attempt, Execution, ExecutionQuerySet
from executions.retry import DEFAULT_BACKOFF, may_try_again
from executions.states import CLAIMABLE, Outcome, State


@dataclass(frozen=True)
class Claim:
    """The right to run one attempt: (execution_id, attempt) is the fence."""

    execution_id: uuid.UUID
    attempt: int
    worker: str
    started_at: datetime


class Finish(StrEnum):
    """What became of the execution when its claim's holder came to finish."""

    SUCCEEDED = "succeeded"
    RETRY = "retry"
    DEAD = "dead"
    REFUSED = "refused"


@dataclass(frozen=True)
class Rescued:
    execution_id: uuid.UUID
    attempt: int
    worker: str
    state: State


def plan(executions: Sequence[Execution]) -> None:
    """Insert the rows of fires. A fire that already has its row keeps that one."""
    Execution.objects.bulk_create(executions, ignore_conflicts=True)


def record_skipped(executions: Sequence[Execution], *, reason: str, now: datetime) -> None:
    """Insert rows of fires that will not run, with the reason."""
    for execution in executions:
        execution.state, execution.reason, execution.finished_at = State.SKIPPED, reason, now
    Execution.objects.bulk_create(executions, ignore_conflicts=True)


def mark_queued(executions: Iterable[Execution], *, now: datetime) -> int:
    """SCHEDULED → QUEUED for what the broker has confirmed; what a worker has claimed meanwhile stays as it is."""
    return sum(
        Execution.objects.scheduled()
        .filter(pk__in=ids, attempt=attempt)
        .update(state=State.QUEUED, queued_at=now, reason="")
        for attempt, ids in _by_attempt((execution.pk, execution.attempt) for execution in executions).items()
    )


def hold(executions: Iterable[Execution], *, reason: str, until: datetime) -> int:
    """Keep SCHEDULED rows back for a while, and let them say why."""
    return sum(
        Execution.objects.scheduled().filter(pk__in=ids, attempt=attempt).update(reason=reason, available_at=until)
        for attempt, ids in _by_attempt((execution.pk, execution.attempt) for execution in executions).items()
    )


def claim(execution_id: uuid.UUID, attempt: int, *, worker: str, now: datetime) -> Claim | None:
    """SCHEDULED or QUEUED → RUNNING. None: the attempt is taken, over or no longer wanted."""
    rows = Execution.objects.filter(pk=execution_id, attempt=attempt, state__in=CLAIMABLE).update(
        state=State.RUNNING, worker=worker, started_at=now, heartbeat_at=now, reason=""
    )
    return Claim(execution_id, attempt, worker, now) if rows else None


def heartbeat(held: Iterable[tuple[uuid.UUID, int]], *, worker: str, now: datetime) -> int:
    """Say that a worker still holds these (execution, attempt) pairs."""
    return sum(
        Execution.objects.running().filter(pk__in=ids, attempt=attempt, worker=worker).update(heartbeat_at=now)
        for attempt, ids in _by_attempt(held).items()
    )


def _by_attempt(pairs: Iterable[tuple[uuid.UUID, int]]) -> dict[int, list[uuid.UUID]]:
    """Nearly all rows are at their first attempt, so one statement per attempt is one statement."""
    found: defaultdict[int, list[uuid.UUID]] = defaultdict(list)
    for execution_id, attempt in pairs:
        found[attempt].append(execution_id)
    return found


def succeed(claim: Claim, *, result: object, now: datetime) -> Finish:
    ended = _end(claim, Outcome.SUCCEEDED, now=now, error="", state=State.SUCCEEDED, finished_at=now, result=result)
    return Finish.SUCCEEDED if ended else Finish.REFUSED


def fail(claim: Claim, *, error: str, now: datetime) -> Finish:
    """RUNNING → SCHEDULED for the next attempt after a backoff, or → DEAD when there is none left."""
    limits = Execution.objects.filter(pk=claim.execution_id).values_list("lost", "max_attempts").first()
    if limits is None:
        return Finish.REFUSED
    lost, max_attempts = limits
    if may_try_again(attempt=claim.attempt, lost=lost, max_attempts=max_attempts):
        ended = _end(
            claim,
            Outcome.FAILED,
            now=now,
            error=error,
            state=State.SCHEDULED,
            attempt=claim.attempt + 1,
            available_at=now + DEFAULT_BACKOFF.delay(claim.attempt - lost),
            reason="waits for its retry",
        )
        return Finish.RETRY if ended else Finish.REFUSED
    ended = _end(claim, Outcome.FAILED, now=now, error=error, state=State.DEAD, finished_at=now)
    return Finish.DEAD if ended else Finish.REFUSED


def _end(claim: Claim, outcome: Outcome, *, now: datetime, error: str, **changes: object) -> bool:
    """End the claimed attempt, if it is still the claimant's to end, and record it."""
    with transaction.atomic():
        rows = (
            Execution.objects.running()
            .filter(pk=claim.execution_id, attempt=claim.attempt)
            .update(error=error, **changes)
        )
        if rows:
            Attempt.objects.create(
                execution_id=claim.execution_id,
                number=claim.attempt,
                outcome=outcome,
                worker=claim.worker,
                started_at=claim.started_at,
                finished_at=now,
                error=error,
            )
        return bool(rows)


def rescue(*, silent_since: datetime, now: datetime, limit: int = 1000) -> list[Rescued]:
    """End attempts whose worker has said nothing since a moment: try again, or give up when too many were lost."""
    with transaction.atomic():
        # Locked, so that a finish that commits first takes its row out of the set and one that comes later finds a
        # higher attempt.
        lost = list(Execution.objects.silent_since(silent_since).select_for_update(skip_locked=True)[:limit])
        hopeless = [execution for execution in lost if execution.lost + 1 >= execution.max_lost]
        hopeful = [execution for execution in lost if execution.lost + 1 < execution.max_lost]
        error = "The worker vanished while it ran this attempt: no heartbeat."
        _running(hopeless).update(state=State.DEAD, lost=F("lost") + 1, finished_at=now, error=error)
        _running(hopeful).update(
            state=State.SCHEDULED,
            attempt=F("attempt") + 1,
            lost=F("lost") + 1,
            available_at=now,
            reason="its worker was lost; tried again",
            error=error,
        )
        Attempt.objects.bulk_create(
            Attempt(
                execution_id=execution.pk,
                number=execution.attempt,
                outcome=Outcome.WORKER_LOST,
                worker=execution.worker,
                started_at=execution.started_at or now,
                finished_at=now,
                error=error,
            )
            for execution in lost
        )
    return [
        *(Rescued(e.pk, e.attempt, e.worker, State.DEAD) for e in hopeless),
        *(Rescued(e.pk, e.attempt, e.worker, State.SCHEDULED) for e in hopeful),
    ]


def _running(executions: Iterable[Execution]) -> ExecutionQuerySet:
    return Execution.objects.running().filter(pk__in=[execution.pk for execution in executions])
