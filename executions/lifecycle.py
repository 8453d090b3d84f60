"""The only writer of an execution's state.

Each verb is one conditional change whose row count is looked at; a verb that ends an attempt also records it, in the
same transaction. Every step is a row of `executions.states.TRANSITIONS`. Invariant: whoever claims, finishes or
rescues names the attempt; zero rows means that somebody else was first, which is an ordinary outcome and not an error.

For a job with a limit, every verb that starts or ends an attempt holds the job's lock (`executions/concurrency.py`),
and every end wakes one waiter. A waiter also comes back by itself after a while, so a lost wake-up is only a delay.
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from executions import concurrency, partitions
from executions.concurrency import Limit
from executions.identity import fire_time_of
from executions.models import REASON_CHARACTERS, Attempt, Execution, ExecutionQuerySet
from executions.outcomes import Cancelled, Claim, Finish, Held, Rescued, Unplanned
from executions.retry import RetryPolicy, may_try_again, spread_of
from executions.states import CLAIMABLE, FIRE_TRIGGERS, Outcome, Overlap, State, Trigger
from executions.storable import storable_text

# Held rows look again by themselves after this long, whoever forgot to wake them.
LOOK_AGAIN_AFTER = timedelta(seconds=5)
_LONGEST_LINE = 60  # times that: five minutes
# What is due sooner than this may have been read by a beat already, and can no longer be moved.
SETTLED = timedelta(seconds=1)
# A message whose run is due later than this is from before it was moved. Generous, since clocks may lag.
MOVED = timedelta(minutes=1)
_CANCELLED = "cancelled while it ran"
_LOST = "The worker vanished while it ran this attempt: no heartbeat."


# ── Before it runs ───────────────────────────────────────────────────────────────────────────────────────────────


def plan(executions: Sequence[Execution]) -> None:
    """Insert the rows of fires and asked-for runs. A fire that already has its row keeps that one."""
    if not executions:
        return
    try:
        with transaction.atomic():
            Execution.objects.bulk_create(executions, ignore_conflicts=True)
    except IntegrityError as error:
        if not partitions.is_missing(error):
            raise
        partitions.make(partitions.months_of(execution.fire_time for execution in executions))
        Execution.objects.bulk_create(executions, ignore_conflicts=True)


def record_skipped(executions: Sequence[Execution], *, reason: str, now: datetime) -> None:
    """Insert rows of fires that will not run, with the reason."""
    for execution in executions:
        execution.state, execution.reason, execution.finished_at = State.SKIPPED, reason, now
    plan(executions)


def mark_queued(executions: Iterable[Execution], *, now: datetime) -> int:
    """SCHEDULED → QUEUED for what the broker has confirmed; what was claimed meanwhile stays as it is.

    `now` is when they were read as due. What is due later, or waits and did not then, was moved or held back meanwhile:
    its message is void.
    """
    as_read: defaultdict[bool, list[Execution]] = defaultdict(list)
    for execution in executions:
        as_read[execution.is_waiting].append(execution)
    return sum(
        _change_free(
            ((execution.pk, execution.attempt) for execution in alike),
            Execution.objects.due(now).filter(is_waiting=is_waiting),
            state=State.QUEUED,
            queued_at=now,
            reason="",
        )
        for is_waiting, alike in as_read.items()
    )


def hold(executions: Iterable[Execution], *, reason: str, until: datetime) -> int:
    """SCHEDULED or QUEUED → SCHEDULED at the same attempt: keep them back for a while, and let them say why."""
    return _change_free(
        ((execution.pk, execution.attempt) for execution in executions),
        Execution.objects.filter(state__in=[State.SCHEDULED, State.QUEUED]),
        state=State.SCHEDULED,
        reason=storable_text(reason, REASON_CHARACTERS),
        available_at=until,
    )


def _change_free(pairs: Iterable[tuple[uuid.UUID, int]], among: ExecutionQuerySet, **changes: object) -> int:
    """Change those of these (execution, attempt) pairs that nobody holds at this moment.

    For a beat and a heartbeat, which come again: they must not wait for the transaction of an app, nor in a ring with
    another who changes many rows at once.
    """
    by_attempt: defaultdict[int, list[uuid.UUID]] = defaultdict(list)
    for execution_id, attempt in pairs:
        by_attempt[attempt].append(execution_id)
    changed = 0
    for attempt, ids in by_attempt.items():  # nearly all are at their first attempt, so this is one round
        with transaction.atomic():
            free = among.with_ids(ids).filter(attempt=attempt).select_for_update(skip_locked=True).order_by("pk")
            changed += Execution.objects.with_ids(list(free.values_list("pk", flat=True))).update(**changes)
    return changed


def move(execution_id: uuid.UUID, *, to: datetime, now: datetime) -> bool:
    """Let a run that nobody has tried yet come at another time. False: it is about to run, or did."""
    return bool(
        Execution.objects.with_id(execution_id)
        .scheduled()
        .filter(attempt=1, is_waiting=False, available_at__gt=now + SETTLED)
        .update(available_at=to)
    )


def skip(ids: Collection[uuid.UUID], *, reason: str, now: datetime) -> int:
    """SCHEDULED → SKIPPED: it will not run, and says why."""
    return (
        Execution.objects.with_ids(ids)
        .scheduled()
        .update(state=State.SKIPPED, reason=storable_text(reason, REASON_CHARACTERS), finished_at=now, is_waiting=False)
    )


def revive(ids: Collection[uuid.UUID], *, reason: str, now: datetime) -> int:
    """SKIPPED → SCHEDULED, for a backfill: a fire that was left out runs after all. Not for a row of many fires.

    Nor for what somebody asked for: its key may be another run's by now, and its instant a fire's. It is replayed.
    """
    return (
        Execution.objects.with_ids(ids)
        .filter(state=State.SKIPPED, skipped_until=None, trigger__in=FIRE_TRIGGERS)
        .update(
            state=State.SCHEDULED,
            trigger=Trigger.BACKFILL,
            reason=storable_text(reason, REASON_CHARACTERS),
            available_at=now,
            finished_at=None,
        )
    )


def unplan(job_id: int, *, reason: str, now: datetime) -> Unplanned:
    """Take back what was planned and not begun: rows of coming fires go, those whose time has passed are SKIPPED."""
    with transaction.atomic():
        planned = list(
            Execution.objects.planned()
            .filter(job_id=job_id)
            .select_for_update()
            .order_by("pk")
            .values_list("pk", "fire_time")
        )
        coming = {pk: fire_time for pk, fire_time in planned if fire_time > now}
        # Nothing hangs on a row that was never tried, so no cascade has to be looked for.
        Execution.objects.with_ids(coming)._raw_delete(Execution.objects.db)
        skipped = skip([pk for pk, _ in planned if pk not in coming], reason=reason, now=now)
    return Unplanned(sorted(coming.values()), skipped)


# ── While it runs ────────────────────────────────────────────────────────────────────────────────────────────────


def claim(execution_id: uuid.UUID, attempt: int, *, worker: str, now: datetime) -> Claim | Held | None:
    """SCHEDULED or QUEUED → RUNNING. None: the attempt is taken, over or no longer wanted."""
    claimable = Execution.objects.with_id(execution_id).filter(_is_wanted(now), attempt=attempt, state__in=CLAIMABLE)
    if _start(claimable.filter(~concurrency.is_limited()), worker=worker, now=now):
        return Claim(execution_id, attempt, worker, now)
    job_id = claimable.values_list("job_id", flat=True).first()
    if job_id is None:
        return None
    with transaction.atomic():
        concurrency.lock([job_id])
        facts = claimable.values_list("job__max_concurrency", "job__overlap", "is_waiting").first()
        if facts is None:
            return None
        limit = Limit(job_id, facts[0], Overlap(facts[1]))
        if limit.has_room():
            started = _start(claimable, worker=worker, now=now)
            return Claim(execution_id, attempt, worker, now, limited_job=job_id) if started else None
        # A later attempt is work that has begun, and who waits was promised a turn: they wait, whatever the policy.
        may_skip = attempt == 1 and not facts[2]
        return _hold_back(claimable, execution_id, limit, may_skip=may_skip, now=now)


def _is_wanted(now: datetime) -> Q:
    """Not a message from before its run was moved. The row is still in the outbox, and comes at its new time."""
    return ~Q(state=State.SCHEDULED, available_at__gt=now + MOVED)


def _start(claimable: ExecutionQuerySet, *, worker: str, now: datetime) -> int:
    return claimable.update(
        state=State.RUNNING, worker=worker, started_at=now, heartbeat_at=now, reason="", is_waiting=False
    )


def _hold_back(
    claimable: ExecutionQuerySet, execution_id: uuid.UUID, limit: Limit, *, may_skip: bool, now: datetime
) -> Held | None:
    """There is no room: wait for it, or not, as the job's overlap policy says."""
    reason = f"waits: {limit.most} of this job may run at once"
    others = Execution.objects.waiting().filter(job_id=limit.job_id).exclude(pk=execution_id).count()
    # To be woken is the usual way. The longer the line, the more seldom each looks by itself.
    pause = LOOK_AGAIN_AFTER * min(_LONGEST_LINE, 1 + others // (10 * (limit.most or 1)))
    rows = claimable.update(state=State.SCHEDULED, reason=reason, available_at=now + pause, is_waiting=True)
    if not rows:
        return None
    if may_skip and (limit.overlap is Overlap.SKIP or (limit.overlap is Overlap.QUEUE and others > 0)):
        why = "another one waits already" if limit.overlap is Overlap.QUEUE else "the previous one still ran"
        reason = f"overlap {limit.overlap}: {why}"
        skip([execution_id], reason=reason, now=now)
        return Held(State.SKIPPED, reason)
    if limit.overlap is Overlap.CANCEL_PREVIOUS:
        _ask_previous_to_stop(execution_id, limit, now=now)
    return Held(State.SCHEDULED, reason)


def _ask_previous_to_stop(execution_id: uuid.UUID, limit: Limit, *, now: datetime) -> None:
    """Ask the oldest to stop, one for this place; never one that came later, and none while one is stopping."""
    running = Execution.objects.running().filter(job_id=limit.job_id)
    if running.filter(cancel_requested_at__isnull=False).exists():
        return
    previous = running.filter(fire_time__lt=fire_time_of(execution_id)).order_by("fire_time")
    _ask_to_stop(Execution.objects.with_ids(list(previous.values_list("pk", flat=True)[:1])), now=now)


def heartbeat(held: Iterable[tuple[uuid.UUID, int]], *, worker: str, now: datetime) -> int:
    """Say that a worker still holds these (execution, attempt) pairs."""
    return _change_free(held, Execution.objects.running().filter(worker=worker), heartbeat_at=now)


# ── Ends ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def succeed(claim: Claim, *, result: object, now: datetime) -> Finish:
    """RUNNING → SUCCEEDED. The work is done, also if somebody asked meanwhile to stop it."""
    ended = _end(claim, Outcome.SUCCEEDED, now=now, state=State.SUCCEEDED, finished_at=now, result=result)
    return Finish.SUCCEEDED if ended else Finish.REFUSED


def fail(
    claim: Claim, *, error: str, now: datetime, kinds: tuple[str, ...] = (), outcome: Outcome = Outcome.FAILED
) -> Finish:
    """RUNNING → SCHEDULED for the next attempt after a backoff, or → DEAD, or → CANCELLED if that was asked for."""
    held = Execution.objects.with_id(claim.execution_id).running().filter(attempt=claim.attempt)
    facts = held.values_list("lost", "max_attempts", "job__retry").first()
    if facts is None:
        return Finish.REFUSED
    lost, max_attempts, retry = facts
    policy = RetryPolicy.stored(retry)
    wanted = Q(cancel_requested_at=None)
    has_attempts = may_try_again(attempt=claim.attempt, lost=lost, max_attempts=max_attempts)
    if not has_attempts or not policy.deserves_retry(kinds):
        finish = Finish.DEAD
        ended = _end(claim, outcome, now=now, error=error, only=wanted, state=State.DEAD, finished_at=now)
    else:
        finish = Finish.RETRY
        delay = policy.delay(claim.attempt - lost, spread=spread_of(claim.execution_id))
        ended = _end(
            claim,
            outcome,
            now=now,
            error=error,
            only=wanted,
            state=State.SCHEDULED,
            attempt=claim.attempt + 1,
            available_at=now + delay,
            reason="waits for its retry",
        )
    return finish if ended else stop(claim, error=error, outcome=outcome, now=now)


def stop(claim: Claim, *, now: datetime, error: str = "", outcome: Outcome = Outcome.CANCELLED) -> Finish:
    """RUNNING → CANCELLED, if that was asked for."""
    ended = _end(
        claim,
        outcome,
        now=now,
        error=error,
        only=Q(cancel_requested_at__isnull=False),
        state=State.CANCELLED,
        finished_at=now,
        reason=_CANCELLED,
    )
    return Finish.CANCELLED if ended else Finish.REFUSED


def _end(
    claim: Claim, outcome: Outcome, *, now: datetime, error: str = "", only: Q | None = None, **changes: object
) -> bool:
    """End the claimed attempt, if it is still the claimant's to end, and record it."""
    with transaction.atomic():
        if claim.limited_job is not None:
            concurrency.lock([claim.limited_job])
        rows = (
            Execution.objects.with_id(claim.execution_id)
            .running()
            .filter(only or Q(), attempt=claim.attempt)
            .update(error=error, **changes)
        )
        if rows:
            Attempt.ended(claim.execution_id, claim.attempt, outcome, claim.worker, claim.started_at, now, error).save(
                force_insert=True
            )
            if claim.limited_job is not None:
                wake(claim.limited_job, now=now)
        return bool(rows)


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
        _ask_to_stop(Execution.objects.with_ids(running), now=now)
        # One that was woken for a free place does not take it now: another waiter may.
        for job_id, count in Counter(job_id for _, _, job_id, was_waiting in rows if was_waiting).items():
            wake(job_id, now=now, count=count)
    return Cancelled(waiting, running)


def _ask_to_stop(executions: ExecutionQuerySet, *, now: datetime) -> int:
    return executions.running().filter(cancel_requested_at=None).update(cancel_requested_at=now)


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
        for state, reason in ((State.CANCELLED, _CANCELLED), (State.DEAD, "")):
            _running(ends, state).update(state=state, reason=reason, lost=F("lost") + 1, finished_at=now, error=_LOST)
        _running(ends, State.SCHEDULED).update(
            state=State.SCHEDULED,
            attempt=F("attempt") + 1,
            lost=F("lost") + 1,
            available_at=now,
            reason="its worker was lost; tried again",
            error=_LOST,
        )
        Attempt.objects.bulk_create(
            Attempt.ended(e.pk, e.attempt, Outcome.WORKER_LOST, e.worker, e.started_at or now, now, _LOST) for e in lost
        )
        for job_id, count in Counter(e.job_id for e in lost if e.job_id in limited_jobs).items():
            wake(job_id, now=now, count=count)
    return [Rescued(e.pk, e.attempt, e.worker, state) for e, state in ends.items()]


def _end_of_lost(execution: Execution) -> State:
    if execution.cancel_requested_at is not None:
        return State.CANCELLED
    return State.DEAD if execution.lost + 1 >= execution.max_lost else State.SCHEDULED


def _running(ends: dict[Execution, State], state: State) -> ExecutionQuerySet:
    return Execution.objects.with_ids([execution.pk for execution, end in ends.items() if end is state]).running()
