"""Run again what is over, and settle dead letters.

Owns replays and the mark that a person dealt with a dead letter. Invariant: nothing that is over changes its state; a
replay is a new execution that points to the old one, and DEAD stays DEAD.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from executions import lifecycle
from executions.identity import new_execution_id
from executions.models import REASON_CHARACTERS, Execution
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
    with transaction.atomic():
        over = Execution.objects.with_ids(ids).filter(state__in=FINAL | {State.SKIPPED}, skipped_until=None)
        originals = list(over.select_for_update().order_by("pk"))
        replays = [_again(original, now=now, args=args, kwargs=kwargs) for original in originals]
        lifecycle.plan(replays)
        settle([original.pk for original in originals], note=note, now=now)
    return replays


def _again(
    original: Execution, *, now: datetime, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
) -> Execution:
    return Execution(
        id=new_execution_id(now),
        job_id=original.job_id,
        fire_time=now,
        trigger=Trigger.REPLAY,
        replay_of=original.pk,
        task=original.task,
        args=original.args if args is None else list(args),
        kwargs=original.kwargs if kwargs is None else dict(kwargs),
        queue=original.queue,
        priority=original.priority,
        max_attempts=original.max_attempts,
        max_lost=original.max_lost,
        available_at=now,
        created_at=now,
    )


def settle(ids: Collection[uuid.UUID], *, note: str, now: datetime) -> int:
    """Mark dead letters as handled, with what was done about them."""
    dead = Execution.objects.with_ids(ids).filter(state=State.DEAD, handled_at=None)
    return dead.update(handled_at=now, handled_note=storable_text(note, REASON_CHARACTERS))
