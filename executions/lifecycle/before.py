"""Before it runs: planned, published, held back, moved, left out, taken back."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from django.db import transaction

from executions.lifecycle.fires import with_partitions
from executions.lifecycle.rows import change_free
from executions.models import REASON_CHARACTERS, Execution
from executions.outcomes import Unplanned
from executions.states import FIRE_TRIGGERS, State, Trigger
from executions.storable import storable_text

# What is due sooner than this may have been read by a beat already, and can no longer be moved.
SETTLED = timedelta(seconds=1)


def plan(executions: Sequence[Execution]) -> None:
    """Insert the rows of fires and asked-for runs. A fire that already has its row keeps that one."""
    if not executions:
        return
    with_partitions(
        lambda: Execution.objects.bulk_create(executions, ignore_conflicts=True),
        (execution.fire_time for execution in executions),
    )


def record_skipped(executions: Sequence[Execution], *, now: datetime) -> None:
    """Insert rows of fires that will not run, each with the reason that it brings."""
    for execution in executions:
        execution.state, execution.finished_at = State.SKIPPED, now
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
        change_free(
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
    return change_free(
        ((execution.pk, execution.attempt) for execution in executions),
        Execution.objects.filter(state__in=[State.SCHEDULED, State.QUEUED]),
        state=State.SCHEDULED,
        reason=storable_text(reason, REASON_CHARACTERS),
        available_at=until,
    )


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
