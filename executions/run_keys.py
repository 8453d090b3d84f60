"""The names by which runs are found again.

Owns the table of run keys. Invariant: of one job, a key belongs to at most one run that is not over. A key whose run is
over is free at once; its row is taken over by the next run of that name, or removed by upkeep.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from executions.models import Execution, RunKey
from executions.new_runs import NewRun

_LOOK_AGAIN_AFTER = timedelta(minutes=10)


def take(job_id: int, wanted: Mapping[str, NewRun]) -> dict[str, uuid.UUID]:
    """Give these keys to these new runs where they are free; returns whose each key is now. In a transaction."""
    # A key that is there is written as it is: that holds its row, and upkeep cannot forget it meanwhile.
    _store(job_id, wanted, overwriting=["key"])
    holders = dict(RunKey.objects.filter(job_id=job_id, key__in=wanted).values_list("key", "execution_id"))
    others = {key: execution_id for key, execution_id in holders.items() if execution_id != wanted[key].id}
    still_open = _open_among(others.values())
    free = {key: wanted[key] for key, execution_id in others.items() if execution_id not in still_open}
    if free:
        _store(job_id, free, overwriting=["execution_id", "look_at"])
    return holders | {key: run.id for key, run in free.items()}


def _store(job_id: int, runs: Mapping[str, NewRun], *, overwriting: Sequence[str]) -> None:
    RunKey.objects.bulk_create(
        (
            RunKey(job_id=job_id, key=key, execution_id=run.id, look_at=run.available_at)
            # In order: two that want the same keys wait for one another in a line, never in a ring.
            for key, run in sorted(runs.items(), key=itemgetter(0))
        ),
        update_conflicts=True,
        unique_fields=["job", "key"],
        update_fields=overwriting,
    )


def holder(job_id: int, key: str) -> uuid.UUID | None:
    """The run that goes by this key and is not over. In a transaction: nobody else takes the key meanwhile."""
    if not key.isprintable():
        return None  # no run has such a key, and no database could be asked for it
    row = RunKey.objects.filter(job_id=job_id, key=key).select_for_update().first()
    return row.execution_id if row is not None and _open_among([row.execution_id]) else None


def found(job_id: int, key: str) -> uuid.UUID | None:
    """The same for whoever only looks."""
    if not key.isprintable():
        return None
    ids = RunKey.objects.filter(job_id=job_id, key=key).values_list("execution_id", flat=True)
    return next(iter(_open_among(list(ids))), None)


def forget_ended(now: datetime, *, limit: int = 1000) -> int:
    """Remove keys whose run is over. Looks at those that could be, a batch at a time, and later again at the rest."""
    with transaction.atomic():
        rows = list(to_look_at(now).order_by("look_at").select_for_update(skip_locked=True)[:limit])
        still_open = _open_among([row.execution_id for row in rows])
        ended = [row.pk for row in rows if row.execution_id not in still_open]
        RunKey.objects.filter(pk__in=ended).delete()
        RunKey.objects.filter(pk__in=[row.pk for row in rows]).update(look_at=now + _LOOK_AGAIN_AFTER)
    return len(ended)


def to_look_at(now: datetime) -> QuerySet[RunKey]:
    """Those whose run may be over by now."""
    return RunKey.objects.filter(look_at__lte=now)


def ended(now: datetime) -> QuerySet[RunKey]:
    """Those of them whose run is over."""
    return to_look_at(now).exclude(Exists(Execution.objects.open().filter(pk=OuterRef("execution_id"))))


def _open_among(ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    return set(Execution.objects.with_ids(ids).open().values_list("pk", flat=True))


def look_later(job_id: int, key: str, *, at: datetime) -> None:
    """The run of this key was moved: it cannot be over before."""
    RunKey.objects.filter(job_id=job_id, key=key).update(look_at=at)
