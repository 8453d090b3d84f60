"""What is done to jobs, whoever asks: the deed and its entry in the audit trail.

REST, the admin and the commands call these. Invariant: the deed and its entry stand in one transaction, which a caller
may have begun; what changed nothing leaves no entry.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from access import audit
from api.jobs.named import as_stored, subject_of
from jobs import backfill as backfilling
from jobs import definitions, new_jobs, runs
from jobs.backfill import Preview
from jobs.models import Job
from jobs.runs import Asked, Wanted
from jobs.upserts import Said


@transaction.atomic
def create(said: Said, *, by: str, through: str, now: datetime) -> Job:
    job = definitions.create(
        key=said.key,
        task=said.task,
        task_lives_elsewhere=said.task_lives_elsewhere,
        by=by,
        through=through,
        now=now,
        **said.fields,
    )
    audit.record(who=by, through=through, action="job.create", subject=subject_of(job), after=as_stored(job))
    return job


@transaction.atomic
def replace(job: Job, said: Said, *, version: int | None, by: str, through: str, now: datetime) -> Job:
    """Give a job another definition; what is left out becomes its default."""
    before = as_stored(job)
    changed = definitions.change(
        job,
        version=job.version if version is None else version,
        task_lives_elsewhere=said.task_lives_elsewhere,
        by=by,
        through=through,
        now=now,
        **new_jobs.left_out(said.fields),
        **said.fields,
        key=said.key,
        task=said.task,
    )
    _record_change("job.change", changed, before, by=by, through=through)
    return changed


@transaction.atomic
def pause(
    job: Job, *, reason: str, until: datetime | None = None, version: int | None = None, by: str, through: str
) -> Job:
    before = as_stored(job)
    paused = definitions.pause(job, reason=reason, until=until, version=version, by=by, through=through)
    _record_change("job.pause", paused, before, by=by, through=through, note=reason)
    return paused


@transaction.atomic
def resume(job: Job, *, version: int | None = None, by: str, through: str) -> Job:
    before = as_stored(job)
    resumed = definitions.resume(job, version=version, by=by, through=through)
    _record_change("job.resume", resumed, before, by=by, through=through)
    return resumed


@transaction.atomic
def archive(job: Job, *, reason: str = "", version: int | None = None, by: str, through: str) -> Job:
    before = as_stored(job)
    archived = definitions.archive(job, reason=reason, version=version, by=by, through=through)
    _record_change("job.archive", archived, before, by=by, through=through, note=reason)
    return archived


@transaction.atomic
def run(job: Job, wanted: Sequence[Wanted], *, by: str, through: str) -> list[Asked]:
    """Ask for runs; those that are due now are published by this process."""
    asked = runs.run_at_once(job, wanted)
    audit.record(who=by, through=through, action="job.run", subject=subject_of(job), after=_in_brief(asked))
    return asked


@transaction.atomic
def backfill(job: Job, *, start: datetime, end: datetime, per_minute: int, by: str, through: str) -> Preview:
    asked = {"start": start, "end": end, "per_minute": per_minute}
    done = backfilling.backfill(job, start=start, end=end, per_minute=per_minute, by=by, through=through)
    after = {**asked, "to_run": done.to_run}
    audit.record(who=by, through=through, action="job.backfill", subject=subject_of(job), after=after)
    return done


def _record_change(action: str, job: Job, before: Mapping[str, Any], *, by: str, through: str, note: str = "") -> None:
    old, new = audit.what_changed(before, as_stored(job))
    if old != new:
        audit.record(who=by, through=through, action=action, subject=subject_of(job), before=old, after=new, note=note)


def _in_brief(asked: Sequence[Asked]) -> dict[str, Any]:
    """Ten thousand ids are no use to anybody."""
    if len(asked) == 1:
        return {"executions": [asked[0].execution_id], "is_new": asked[0].is_new}
    new = [each.execution_id for each in asked if each.is_new]
    return {"asked_for": len(asked), "new": len(new), "first": new[:1], "last": new[-1:]}
