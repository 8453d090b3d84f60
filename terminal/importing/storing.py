"""Store what was planned: all of it or nothing, with its entries in the audit trail.

Invariant: a thousand jobs take as many statements as one.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from access import audit
from access.audit import Deed
from api.jobs.named import subject_of
from jobs import definitions, edits, upserts
from jobs.edits import Held
from jobs.specification import stored_definition
from jobs.upserts import MOST_AT_ONCE, Became
from terminal.frame import THROUGH as SURFACE
from terminal.importing.plan import THROUGH, Becomes, Item, Plan


@transaction.atomic
def stored(plan: Plan, *, by: str, now: datetime, progress: Callable[[int], None]) -> None:
    wanted = plan.that_become(Becomes.CREATED, Becomes.CHANGED)
    for start in range(0, len(wanted), MOST_AT_ONCE):
        part = wanted[start : start + MOST_AT_ONCE]
        _store(part, by=by, now=now)
        progress(len(part))


def _store(part: Sequence[Item], *, by: str, now: datetime) -> None:
    done = upserts.put([item.said for item in part], by=by, through=THROUGH, now=now)
    held = {one.job.key: one for one in edits.hold([put.job.pk for put in done])}
    _switch(part, held, by=by, now=now)
    entries = [
        Deed(
            action="job.create" if put.became is Became.CREATED else "job.change",
            subject=subject_of(put.job),
            after=_as_stored(held[item.key]),
            note=f"moved in: {item.moved.name}",
        )
        for item, put in zip(part, done, strict=True)
    ]
    audit.record_many(entries, who=by, through=SURFACE, now=now)


def _switch(part: Sequence[Item], held: Mapping[str, Held], *, by: str, now: datetime) -> None:
    """Pause and resume those that are to be."""
    paused: dict[str, list[Held]] = defaultdict(list)
    for item in part:
        if item.pause is not None:
            paused[item.pause].append(held[item.key])
    for reason, those in paused.items():
        definitions.pause_all(those, reason=reason, by=by, through=THROUGH, now=now)
    resumed = [held[item.key] for item in part if item.is_resumed]
    definitions.resume_all(resumed, by=by, through=THROUGH, now=now)


def _as_stored(held: Held) -> dict[str, Any]:
    job = held.job
    pause = {"reason": job.paused_reason, "until": job.paused_until} if job.paused_reason else None
    return {**stored_definition(job, held.schedule), "state": job.state, "pause": pause}
