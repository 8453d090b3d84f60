"""Run again what is over, and settle dead letters.

Owns replays and the mark that a person dealt with a dead letter. Invariant: nothing that is over changes its state; a
replay is a new execution that points to the old one, and DEAD stays DEAD.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any

from django.db import transaction

from executions import events, lifecycle
from executions.identity import new_execution_id
from executions.models import FROM_JOB, REASON_CHARACTERS, Execution, ExecutionQuerySet
from executions.states import FINAL, State, Trigger
from executions.storable import storable_text


def replay(
    ids: Collection[uuid.UUID],
    *,
    now: datetime,
    note: str = "replayed",
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[Execution]:
    """Insert a new execution for each that is over, with the same payload or another. Dead ones count as handled.

    What is not over yet is left out: it will still run by itself. A row that stands for many skipped fires is, too.
    """
    over = Execution.objects.with_ids(ids).filter(state__in=FINAL | {State.SKIPPED}, skipped_until=None)
    return _replay(over, repeat(now), now=now, note=note, reason="", args=args, kwargs=kwargs)


def replay_waiting(
    ids: Collection[uuid.UUID],
    moments: Iterable[datetime],
    *,
    now: datetime,
    note: str,
    reason: str,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[Execution]:
    """The same for dead letters that nobody has handled yet. Each replay takes the next moment, and waits until then.

    Who comes at the same time waits for the rows, and then finds them handled: no dead letter is replayed twice.
    """
    waiting = Execution.objects.with_ids(ids).filter(state=State.DEAD, handled_at=None)
    return _replay(waiting, moments, now=now, note=note, reason=reason, args=args, kwargs=kwargs)


def _replay(
    rows: ExecutionQuerySet,
    moments: Iterable[datetime],
    *,
    now: datetime,
    note: str,
    reason: str,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
) -> list[Execution]:
    with transaction.atomic():
        originals = list(rows.select_for_update().order_by("pk").only("job_id", *FROM_JOB))
        payload = {"args": args if args is None else list(args), "kwargs": kwargs if kwargs is None else dict(kwargs)}
        changes = {name: value for name, value in payload.items() if value is not None}
        replays = [
            _again(original, now=now, at=moment, reason=reason if moment > now else "", **changes)
            for original, moment in zip(originals, moments, strict=False)
        ]
        lifecycle.plan(replays)
        settle([original.pk for original in originals], note=note, now=now)
    return replays


def _again(original: Execution, *, now: datetime, at: datetime, reason: str, **changes: Any) -> Execution:
    what_to_run = {name: getattr(original, name) for name in FROM_JOB} | changes
    return Execution(
        id=new_execution_id(now),
        job_id=original.job_id,
        fire_time=now,
        trigger=Trigger.REPLAY,
        replay_of=original.pk,
        available_at=at,
        reason=storable_text(reason, REASON_CHARACTERS),
        request_id=events.request_id(),
        created_at=now,
        **what_to_run,
    )


def settle(ids: Collection[uuid.UUID], *, note: str, now: datetime) -> int:
    """Mark dead letters as handled, with what was done about them."""
    dead = Execution.objects.with_ids(ids).filter(state=State.DEAD, handled_at=None)
    return dead.update(handled_at=now, handled_note=storable_text(note, REASON_CHARACTERS))
