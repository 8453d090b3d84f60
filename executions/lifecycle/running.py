"""While it runs: claimed or held back, and kept alive."""

import time
import uuid
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from executions import concurrency, lazily, partitions, prepared, value_lists
from executions.concurrency import Limit
from executions.identity import MILLISECOND, fire_time_of, is_ours
from executions.lifecycle.before import skip
from executions.lifecycle.rows import ask_to_stop, free_by_attempt, held_by
from executions.models import REASON_CHARACTERS, Execution, ExecutionQuerySet
from executions.outcomes import Claim, Held, ToStop
from executions.states import CLAIMABLE, Overlap, State
from executions.storable import storable_text

# Held rows look again by themselves after this long, whoever forgot to wake them.
LOOK_AGAIN_AFTER = timedelta(seconds=5)
_LONGEST_LINE = 60  # times that: five minutes
# What is postponed is due later than anybody publishes ahead of time, or it would be called QUEUED without a message.
SOONEST_AGAIN = timedelta(seconds=2)
PROMPT = timedelta(seconds=1)  # a statement that took longer had to wait for somebody's lock
# A message whose run is due later than this is from before it was moved. Generous, since clocks may lag.
MOVED = timedelta(minutes=1)


def claim(execution_id: uuid.UUID, attempt: int, *, worker: str, now: datetime) -> Claim | Held | None:
    """SCHEDULED or QUEUED → RUNNING. None: the attempt is taken, over or no longer wanted."""
    if not is_ours(execution_id):
        return None
    if start_unlimited(execution_id, attempt, worker=worker, now=now):
        return Claim(execution_id, attempt, worker, now)
    claimable = Execution.objects.with_id(execution_id).filter(_is_wanted(now), attempt=attempt, state__in=CLAIMABLE)
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


# Django takes a millisecond to say this, and it is said for each execution. Its commit is not waited for: if the server
# crashes and forgets the claim, nobody holds the attempt, as if its worker had died.
_START_UNLIMITED = """
UPDATE onbeat_execution
SET state = 'RUNNING', worker = %s, started_at = %s, heartbeat_at = %s, reason = '', is_waiting = false
FROM (SELECT 1) AS once{lazily}
WHERE id = %s AND fire_time >= %s AND fire_time < %s {month} AND attempt = %s
AND (state = 'QUEUED' OR (state = 'SCHEDULED' AND available_at <= %s))
AND NOT EXISTS (SELECT 1 FROM onbeat_job WHERE onbeat_job.id = job_id AND max_concurrency IS NOT NULL)
"""


def start_unlimited(execution_id: uuid.UUID, attempt: int, *, worker: str, now: datetime) -> bool:
    """Claim it, if its job has no limit."""
    fire_time = fire_time_of(execution_id)
    parameters = (worker, now, now, execution_id, fire_time, fire_time + MILLISECOND, attempt, now + MOVED)
    with prepared.cursor() as cursor:
        statement = _START_UNLIMITED.format(lazily=lazily.source(), month=partitions.month_in_words(fire_time))
        cursor.execute(statement, value_lists.as_parameters(parameters))
        return bool(cursor.rowcount)


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


def postpone(execution_id: uuid.UUID, attempt: int, *, reason: str, until: datetime, now: datetime) -> bool:
    """SCHEDULED or QUEUED → SCHEDULED at the same attempt, by the worker that has its message: it comes again later.

    It waits for whoever holds the row, a beat that is about to call it QUEUED: the message is gone after this. False:
    the attempt is taken, over or no longer wanted.
    """
    claimable = Execution.objects.with_id(execution_id).filter(_is_wanted(now), attempt=attempt, state__in=CLAIMABLE)
    until = max(until, now + SOONEST_AGAIN)
    return bool(
        claimable.update(state=State.SCHEDULED, reason=storable_text(reason, REASON_CHARACTERS), available_at=until)
    )


def _ask_previous_to_stop(execution_id: uuid.UUID, limit: Limit, *, now: datetime) -> None:
    """Ask the oldest to stop, one for this place; never one that came later, and none while one is stopping."""
    running = Execution.objects.running().filter(job_id=limit.job_id)
    if running.filter(cancel_requested_at__isnull=False).exists():
        return
    previous = running.filter(fire_time__lt=fire_time_of(execution_id)).order_by("fire_time")
    ask_to_stop(Execution.objects.with_ids(list(previous.values_list("pk", flat=True)[:1])), now=now)


def claim_of(execution_id: uuid.UUID, attempt: int, *, worker: str) -> Claim | None:
    """The claim that a worker holds already, for whoever must end it in its place."""
    return standing_claim(execution_id, attempt, Q(worker=worker, awaited_until=None))


def standing_claim(execution_id: uuid.UUID, attempt: int, only: Q) -> Claim | None:
    """The claim on an attempt that runs."""
    running = Execution.objects.with_id(execution_id).running().filter(only, attempt=attempt)
    facts = running.values_list("worker", "started_at", "job_id", "job__max_concurrency", "response").first()
    if facts is None:
        return None
    worker, started_at, job_id, most, response = facts
    assert started_at is not None  # what runs was started
    limited_job = None if most is None else job_id
    return Claim(execution_id, attempt, worker, started_at, limited_job=limited_job, response=response)


def heartbeat(held: Iterable[tuple[uuid.UUID, int]], *, worker: str, now: datetime) -> int:
    """Say that a worker still holds these (execution, attempt) pairs. What had to wait says the moment after that."""
    asked_at = time.monotonic()
    ours = Execution.objects.running().filter(worker=worker, awaited_until=None)
    said = 0
    for _, free in free_by_attempt(held, ours):
        with transaction.atomic():
            ids = list(free.order_by("pk").values_list("pk", flat=True))
            waited = timedelta(seconds=time.monotonic() - asked_at)
            said += Execution.objects.with_ids(ids).update(heartbeat_at=now + waited if waited > PROMPT else now)
    return said


def to_stop(held: Collection[tuple[uuid.UUID, int]], *, worker: str) -> list[ToStop]:
    """Which of the attempts that a worker holds somebody asked to stop. Only looks."""
    running = Execution.objects.with_ids([pk for pk, _ in held]).running().filter(worker=worker)
    asked = running.filter(cancel_requested_at__isnull=False)
    found = asked.values_list("pk", "attempt", "job__stop_grace_seconds")
    return [ToStop(pk, attempt, timedelta(seconds=grace)) for pk, attempt, grace in found if (pk, attempt) in held]


def checkpoint(claim: Claim, *, data: object) -> bool:
    """Keep what the next attempt shall know. False: the claim no longer stands."""
    return bool(held_by(claim).update(checkpoint=data))


def progress(claim: Claim, *, said: object) -> bool:
    """Keep how far it is. False: the claim no longer stands."""
    return bool(held_by(claim).update(progress=said))
