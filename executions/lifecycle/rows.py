"""How rows are changed in more than one part of a life."""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from executions.models import Execution, ExecutionQuerySet
from executions.outcomes import Claim


def free_by_attempt(
    pairs: Iterable[tuple[uuid.UUID, int]], among: ExecutionQuerySet
) -> list[tuple[list[uuid.UUID], ExecutionQuerySet]]:
    """Those of these (execution, attempt) pairs that nobody holds at this moment, to be locked in a transaction.

    For beats and heartbeats, which come again: they must not wait for the transaction of an app, nor in a ring with
    another who changes many rows at once. Nearly all are at their first attempt, so this is one round.
    """
    by_attempt: defaultdict[int, list[uuid.UUID]] = defaultdict(list)
    for execution_id, attempt in pairs:
        by_attempt[attempt].append(execution_id)
    return [
        (ids, among.with_ids(ids).filter(attempt=attempt).select_for_update(skip_locked=True))
        for attempt, ids in by_attempt.items()
    ]


def change_free(pairs: Iterable[tuple[uuid.UUID, int]], among: ExecutionQuerySet, **changes: object) -> int:
    """Change those that nobody holds, in one statement."""
    changed = 0
    for ids, free in free_by_attempt(pairs, among):
        with transaction.atomic():
            rows = Execution.objects.between_fires_of(ids).filter(pk__in=free.values("pk"))
            changed += rows.update(**changes)
    return changed


def held_by(claim: Claim) -> ExecutionQuerySet:
    """The claimed row, if the claim still stands: the attempt is the fence.

    And who began it, and when: a server that crashed may have forgotten a claim, and given the attempt to another.
    """
    row = Execution.objects.with_id(claim.execution_id).running()
    return row.filter(attempt=claim.attempt, worker=claim.worker, started_at=claim.started_at)


def ask_to_stop(executions: ExecutionQuerySet, *, now: datetime) -> int:
    return executions.running().filter(cancel_requested_at=None).update(cancel_requested_at=now)
