"""What is done to jobs, whoever asks: the deed and its entry in the audit trail.

REST, the admin and the commands call these. Invariant: the deed and its entry stand in one transaction, which a caller
may have begun; what changed nothing leaves no entry.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import transaction

from access import audit
from api.jobs.named import as_held, as_stored, subject_of
from jobs import applying, definitions, new_jobs, runs, upserts
from jobs import backfill as backfilling
from jobs.applying import Becomes, Rules, Step
from jobs.backfill import Preview
from jobs.edits import Held, hold
from jobs.models import Job, JobVersion
from jobs.runs import Asked, Wanted
from jobs.upserts import Became, Put, Said


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
def pause_all(
    jobs: Sequence[Job], *, reason: str, until: datetime | None = None, by: str, through: str, now: datetime
) -> None:
    """All of them or none, as the two below, and in as many statements as one."""
    signature: dict[str, Any] = {"by": by, "through": through, "now": now}
    with _recorded("job.pause", jobs, **signature, note=reason) as held:
        definitions.pause_all(held, reason=reason, until=until, **signature)


@transaction.atomic
def resume_all(jobs: Sequence[Job], *, by: str, through: str, now: datetime) -> None:
    with _recorded("job.resume", jobs, by=by, through=through, now=now) as held:
        definitions.resume_all(held, by=by, through=through, now=now)


@transaction.atomic
def archive_all(jobs: Sequence[Job], *, reason: str = "", by: str, through: str, now: datetime) -> None:
    signature: dict[str, Any] = {"by": by, "through": through, "now": now}
    with _recorded("job.archive", jobs, **signature, note=reason) as held:
        definitions.archive_all(held, reason=reason, **signature)


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


@transaction.atomic
def put(wanted: Sequence[Said], *, by: str, through: str, now: datetime) -> list[Put]:
    """Create or change many jobs by their keys: all of them or none."""
    done = upserts.put(wanted, by=by, through=through, now=now)
    changes = [(each.job, _ACTIONS.get(each.became), each.job.state) for each in done]
    _record_all(changes, by=by, through=through, now=now)
    return done


@transaction.atomic
def apply(wanted: Sequence[Said], rules: Rules, *, by: str, through: str, now: datetime) -> list[Step]:
    """Bring stored jobs in line with what a file or code says."""
    steps = applying.apply(wanted, rules, by=by, through=through, now=now)
    done = [(step.job, _ACTIONS.get(step.becomes), step.state) for step in steps if step.job is not None]
    _record_all(done, by=by, through=through, now=now, note=f"managed by {rules.manager}")
    return steps


_ACTIONS: dict[str, str] = {
    Became.CREATED: "job.create",
    Became.CHANGED: "job.change",
    Becomes.ADOPTED: "job.manage",
    Becomes.ARCHIVED: "job.archive",
}


def _record_all(
    done: Sequence[tuple[Job, str | None, str]], *, by: str, through: str, now: datetime, note: str = ""
) -> None:
    """An entry for each job that something was done to, and the state it was in before; in as many statements as for
    one."""
    changed = [(job, action, state) for job, action, state in done if action is not None]
    kept = _kept([job for job, *_ in changed])
    entries = [
        audit.Deed(action, subject_of(job), *_before_and_after(job, action, state, kept), note=note)
        for job, action, state in changed
    ]
    audit.record_many(entries, who=by, through=through, now=now)


def _before_and_after(job: Job, action: str, state: str, kept: Mapping[tuple[int, int], Any]) -> tuple[Any, Any]:
    if action == "job.manage":
        return None, {"managed_by": job.managed_by}
    after = {**kept[job.pk, job.version], "state": job.state}
    before = kept.get((job.pk, job.version - 1))
    if action == "job.create" or before is None:
        return None, after
    return audit.what_changed({**before, "state": state}, after)


def _kept(jobs: Sequence[Job]) -> dict[tuple[int, int], Any]:
    """The definitions of their last two versions, from their history."""
    newest = {job.pk: job.version for job in jobs}
    numbers = {number - back for number in newest.values() for back in (0, 1)}
    versions = JobVersion.objects.filter(job__in=newest, version__in=numbers)
    rows = versions.values_list("job_id", "version", "definition")
    return {(pk, number): definition for pk, number, definition in rows if number >= newest[pk] - 1}


@contextmanager
def _recorded(
    action: str, jobs: Sequence[Job], *, by: str, through: str, now: datetime, note: str = ""
) -> Iterator[list[Held]]:
    """Held together, in the order of their ids: whoever names the same ones in another order waits in line."""
    held = hold([job.pk for job in jobs])
    for one in held:
        one.check()
    before = [as_held(one.job, one.schedule) for one in held]
    yield held
    changes = [
        (one.job, *audit.what_changed(was, as_held(one.job, one.schedule)))
        for one, was in zip(held, before, strict=True)
    ]
    deeds = [audit.Deed(action, subject_of(job), old, new, note=note) for job, old, new in changes if old != new]
    audit.record_many(deeds, who=by, through=through, now=now)


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
