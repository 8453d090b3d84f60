"""How a job comes into being: checked, then stored with its schedule and its first version.

Owns the rows of new jobs. Invariant: what is stored here was checked here, and a job, its schedule and its version
stand in one transaction. Many are stored in as many statements as one.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from executions import many_rows
from executions.models import REASON_CHARACTERS
from executions.storable import storable_text
from jobs.models import THROUGH_CHARACTERS, Change, Job, JobState, JobVersion, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidDefinition, KeyTaken
from jobs.specification import Specification, stored_definition
from jobs.wording import in_words


def checked(key: str, task: str, fields: Mapping[str, Any]) -> Specification:
    """What a job shall be, if it can be; whether there is such a task is another question."""
    named = {"task": task} if task else {}
    said = Specification(key=key, task=task).changed({**named, **fields})
    said.check()
    return said.normalised()


def store(
    wanted: Sequence[tuple[Specification, datetime | None]], *, by: str, through: str, now: datetime
) -> list[Job]:
    """Checked definitions with their first fires, each with a key of its own. All or none: if an open job has one of
    the keys, none is stored."""
    jobs = [Job(key=said.key, created_at=now, changed_at=now, **said.job_columns()) for said, _ in wanted]
    try:
        with transaction.atomic():
            ids = {key: pk for pk, key in many_rows.insert(jobs, ending="RETURNING id, key")}
            for job in jobs:
                job.pk, job._state.adding = ids[job.key], False
            schedules = [new_schedule(job, *each) for job, each in zip(jobs, wanted, strict=True)]
            many_rows.insert([schedule for schedule in schedules if schedule is not None])
            versions = [
                version_of(job, schedule, Change.CREATED, by=by, through=through, now=now)
                for job, schedule in zip(jobs, schedules, strict=True)
            ]
            many_rows.insert(versions)
    except IntegrityError:
        taken = Job.objects.open().filter(key__in=[job.key for job in jobs]).values_list("key", flat=True).first()
        if taken is None:
            raise
        raise KeyTaken(taken) from None
    return jobs


def new_schedule(
    job: Job, said: Specification, first_fire: datetime | None, *, follows_another: bool = False
) -> Schedule | None:
    """Not stored yet. If there was one before, a planner that read it must not take this one for it."""
    if said.schedule is None:
        return None
    return Schedule(
        job=job,
        version=secrets.randbelow(2**30) + 2 if follows_another else 1,
        next_fire_at=first_fire,
        is_active=job.state == JobState.ACTIVE,
        fires_left=said.max_fires,
        **said.schedule_columns(),
    )


def first_fire_of(schedule: Cron | Every | Once | Within | None, now: datetime) -> datetime | None:
    """None: it has no schedule. One that never fires is refused."""
    if schedule is None:
        return None
    first = schedule.next_after(now)
    if first is None:
        words = in_words(schedule)
        raise InvalidDefinition(
            "schedule", f"The schedule ({words}) never fires after now; choose a date that will come."
        )
    return first


def version_of(
    job: Job, schedule: Schedule | None, change: Change, *, by: str, through: str, now: datetime, note: str = ""
) -> JobVersion:
    """The job as it is now, for its history; not stored yet."""
    return JobVersion(
        job=job,
        version=job.version,
        change=change,
        definition=stored_definition(job, schedule),
        changed_at=now,
        changed_by=storable_text(by, REASON_CHARACTERS),
        through=storable_text(through, THROUGH_CHARACTERS),
        note=storable_text(note, REASON_CHARACTERS),
    )


def left_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were not named, as they are by default."""
    standard = Specification(key="", task="")
    return {
        each.name: getattr(standard, each.name)
        for each in dataclass_fields(Specification)
        if each.name not in {*fields, "key", "task"}
    }
