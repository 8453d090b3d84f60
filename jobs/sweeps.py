"""Act on everything that matches: cancel or replay executions, a batch at a time.

Owns the order of such a sweep. Invariants: a sweep goes through what matches in the order of fire times and meets each
execution once; what is stored after it began is left alone, so that a replay that fails is not replayed by the same
sweep. Each batch stands for itself: whoever stops in the middle has done the first part.
"""

import uuid
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from django.db.models import Q

from executions import finding
from executions.clock import database_now
from executions.finding import Sought
from executions.models import ExecutionQuerySet
from executions.states import FINAL, State
from jobs import runs
from jobs.refusals import InvalidRun

MOST_COUNTED = 100_000
DEFAULT_BATCH = 1000
MOST_IN_A_BATCH = 5000


class Deed(StrEnum):
    CANCEL = "cancel"
    REPLAY = "replay"


@dataclass(frozen=True)
class Swept:
    """What one batch did, and the last execution it met; None: there was no more."""

    done: int
    asked_to_stop: int
    last: uuid.UUID | None


def count(deed: Deed, sought: Sought, *, after: uuid.UUID | None = None, now: datetime | None = None) -> int:
    """How many executions a sweep would still meet; counts no further than MOST_COUNTED."""
    rows = _rows(deed, sought, now=now or database_now())
    return finding.beyond(rows, after).values("pk")[:MOST_COUNTED].count()


def sweep(
    deed: Deed,
    sought: Sought,
    *,
    note: str,
    limit: int = DEFAULT_BATCH,
    after: uuid.UUID | None = None,
    now: datetime | None = None,
) -> Swept:
    """Do it to the next so many of what matches."""
    now = now or database_now()
    rows = finding.beyond(_rows(deed, sought, now=now), after)
    ids = list(rows.order_by("pk").values_list("pk", flat=True)[:limit])
    last = ids[-1] if len(ids) == limit else None
    if deed is Deed.REPLAY:
        return Swept(len(runs.replay(ids, note=note, now=now)), 0, last)
    cancelled = runs.cancel_executions(ids, reason=note, now=now)
    return Swept(len(cancelled.before_run), len(cancelled.asked_to_stop), last)


def _rows(deed: Deed, sought: Sought, *, now: datetime) -> ExecutionQuerySet:
    if replace(sought, created_before=None) == Sought():
        raise InvalidRun("filter", f"Say what to {deed}: without any condition it would be everything.")
    rows = sought.rows(now=now)
    if deed is Deed.CANCEL:
        return rows.open()
    # A dead letter that somebody dealt with is done with, and a row of many skipped fires cannot be run.
    return rows.filter(state__in=FINAL | {State.SKIPPED}, skipped_until=None).exclude(
        Q(state=State.DEAD), handled_at__isnull=False
    )
