"""Store what was planned: all of it or nothing, with its entries in the audit trail."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from django.db import transaction

from access import audit
from access.audit import Deed
from api.jobs.named import as_stored, subject_of
from jobs import definitions, upserts
from jobs.models import Job
from jobs.upserts import MOST_AT_ONCE, Became, Put
from terminal.frame import THROUGH as SURFACE
from terminal.importing.plan import THROUGH, Becomes, Item, Plan


@transaction.atomic
def stored(plan: Plan, *, by: str, now: datetime, progress: Callable[[int], None]) -> None:
    wanted = plan.that_become(Becomes.CREATED, Becomes.CHANGED)
    for start in range(0, len(wanted), MOST_AT_ONCE):
        part = wanted[start : start + MOST_AT_ONCE]
        done = upserts.put([item.said for item in part], by=by, through=THROUGH, now=now)
        deeds = list(_deeds(part, done, by=by, now=now))
        audit.record_many(deeds, who=by, through=SURFACE, now=now)
        progress(len(part))


def _deeds(part: Sequence[Item], done: Sequence[Put], *, by: str, now: datetime) -> Iterator[Deed]:
    for item, put in zip(part, done, strict=True):
        job = _switched(item, put.job, by=by, now=now)
        if put.became is Became.UNCHANGED and job is put.job:
            continue
        action = "job.create" if put.became is Became.CREATED else "job.change"
        note = f"moved in: {item.moved.name}"
        yield Deed(action=action, subject=subject_of(job), after=as_stored(job), note=note)


def _switched(item: Item, job: Job, *, by: str, now: datetime) -> Job:
    if item.pause is not None:
        return definitions.pause(job, reason=item.pause, by=by, through=THROUGH, now=now)
    if item.is_resumed:
        return definitions.resume(job, by=by, through=THROUGH, now=now)
    return job
