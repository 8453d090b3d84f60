"""Create a job or change it to what is said, by its key: for those who keep their definitions elsewhere.

Invariants: what is said once or ten times leaves the same job, and a job that says it already keeps its version; of
many, all are stored or none, and each one that cannot be is told apart. `now` is for tests; left out, it is the
database's time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import transaction

from executions.clock import database_now
from jobs import definitions, new_jobs, targets
from jobs.models import Job
from jobs.refusals import InvalidDefinition, KeyTaken, Refused
from jobs.specification import Specification

MOST_AT_ONCE = 1000
_TRIES = 3


@dataclass(frozen=True)
class Said:
    """What a job shall be: `fields` are those of a Specification, and what is not named is as by default."""

    key: str
    task: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    task_lives_elsewhere: bool = False


class Became(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Put:
    job: Job
    became: Became


class RefusedItems(Refused):
    """Some of many cannot be, by their place; none was stored."""

    def __init__(self, refusals: Mapping[int, Refused]) -> None:
        said = f"{len(refusals)} of the jobs" if len(refusals) > 1 else "One of the jobs"
        super().__init__("jobs", f"{said} cannot be stored, so none was.")
        self.refusals = refusals


def put(wanted: Sequence[Said], *, by: str = "", through: str = "python", now: datetime | None = None) -> list[Put]:
    """Store them all; the answers come in the same order."""
    if len(wanted) > MOST_AT_ONCE:
        raise InvalidDefinition(
            "jobs", f"One call takes up to {MOST_AT_ONCE} jobs, not {len(wanted)}; send them in parts."
        )
    now = now or database_now()
    said = _checked(wanted)
    for is_last in [False] * (_TRIES - 1) + [True]:
        try:
            with transaction.atomic():
                return _store(wanted, said, by=by, through=through, now=now)
        except KeyTaken:
            # Somebody else created one of them at this moment: it is there to be changed now.
            if is_last:
                raise
    raise AssertionError("the last try answers or raises")


def _checked(wanted: Sequence[Said]) -> list[Specification]:
    refusals: dict[int, Refused] = {}
    checked: list[Specification] = []
    seen: set[str] = set()
    for place, one in enumerate(wanted):
        try:
            checked.append(new_jobs.checked(one.key, one.task, one.fields))
            if one.key in seen:
                raise InvalidDefinition("key", f"The key {one.key!r} stands twice in one call; say each job once.")
            seen.add(one.key)
        except Refused as refused:
            refusals[place] = refused
    if refusals:
        raise RefusedItems(refusals)
    return checked


def _store(
    wanted: Sequence[Said], checked: Sequence[Specification], *, by: str, through: str, now: datetime
) -> list[Put]:
    there = {job.key: job for job in _held(one.key for one in wanted)}
    fresh: list[tuple[Specification, datetime | None]] = []
    refusals: dict[int, Refused] = {}
    done: dict[str, Put] = {}
    for place, (one, said) in enumerate(zip(wanted, checked, strict=True)):
        try:
            if one.key not in there:
                targets.check(said.task, said.http, lives_elsewhere=one.task_lives_elsewhere)
                fresh.append((said, new_jobs.first_fire_of(said.schedule, now)))
            elif _says_it_already(there[one.key], said):
                done[one.key] = Put(there[one.key], Became.UNCHANGED)
            else:
                done[one.key] = _changed(there[one.key], one, by=by, through=through, now=now)
        except Refused as refused:
            refusals[place] = refused
    if refusals:
        raise RefusedItems(refusals)
    if fresh:
        created = new_jobs.store(fresh, by=by, through=through, now=now)
        done |= {job.key: Put(job, Became.CREATED) for job in created}
    return [done[one.key] for one in wanted]


def _says_it_already(job: Job, said: Specification) -> bool:
    try:
        return Specification.of(job, getattr(job, "schedule", None)).is_same_as(said)
    except ValueError:
        return False  # broken behind our back: it is given what is said


def _held(keys: Any) -> list[Job]:
    """In order: two that change the same jobs wait for one another in a line, never in a ring."""
    return list(
        Job.objects.open()
        .filter(key__in=list(keys))
        .order_by("pk")
        .select_related("schedule")
        .select_for_update(of=("self",))
    )


def _changed(job: Job, said: Said, *, by: str, through: str, now: datetime) -> Put:
    fields = {**new_jobs.left_out(said.fields), **said.fields, "task": said.task}
    after = definitions.change(
        job,
        version=job.version,
        task_lives_elsewhere=said.task_lives_elsewhere,
        by=by,
        through=through,
        now=now,
        **fields,
    )
    return Put(after, Became.UNCHANGED if after.version == job.version else Became.CHANGED)
