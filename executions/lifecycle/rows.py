"""How rows are changed in more than one part of a life."""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from executions.models import Execution, ExecutionQuerySet
from executions.outcomes import Claim


def change_free(pairs: Iterable[tuple[uuid.UUID, int]], among: ExecutionQuerySet, **changes: object) -> int:
    """Change those of these (execution, attempt) pairs that nobody holds at this moment.

    For a beat and a heartbeat, which come again: they must not wait for the transaction of an app, nor in a ring with
    another who changes many rows at once. A change that is called is asked for when the rows are held.
    """
    by_attempt: defaultdict[int, list[uuid.UUID]] = defaultdict(list)
    for execution_id, attempt in pairs:
        by_attempt[attempt].append(execution_id)
    changed = 0
    for attempt, ids in by_attempt.items():  # nearly all are at their first attempt, so this is one round
        with transaction.atomic():
            free = among.with_ids(ids).filter(attempt=attempt).select_for_update(skip_locked=True).order_by("pk")
            held = list(free.values_list("pk", flat=True))
            now = {name: change() if callable(change) else change for name, change in changes.items()}
            changed += Execution.objects.with_ids(held).update(**now)
    return changed


def held_by(claim: Claim) -> ExecutionQuerySet:
    """The claimed row, if the claim still stands: the attempt is the fence."""
    return Execution.objects.with_id(claim.execution_id).running().filter(attempt=claim.attempt)


def ask_to_stop(executions: ExecutionQuerySet, *, now: datetime) -> int:
    return executions.running().filter(cancel_requested_at=None).update(cancel_requested_at=now)
