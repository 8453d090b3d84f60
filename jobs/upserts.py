"""Create a job or change it to what is said, by its key: for those who keep their definitions elsewhere.

Invariants: what is said once or ten times leaves the same job, and a job that says it already keeps its version; of
many, all are stored or none, and each one that cannot be is told apart; ten thousand take as many statements as one.
`now` is for tests; left out, it is the database's time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import transaction

from executions.clock import database_now
from jobs import definitions, edits, new_jobs, targets
from jobs.definitions import Changing
from jobs.edits import Held
from jobs.models import OPEN_STATES, Job
from jobs.refusals import InvalidDefinition, KeyTaken, Refused, check_text
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


@dataclass(frozen=True)
class Fresh:
    """A job that is not there yet: checked, and not stored."""

    said: Specification
    first_fire: datetime | None


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
    check_text(InvalidDefinition, by=by, through=through)
    now = now or database_now()
    said = checked(wanted)
    for is_last in [False] * (_TRIES - 1) + [True]:
        try:
            with transaction.atomic():
                there = {one.job.key: one for one in held(one.key for one in wanted)}
                return store(compared(wanted, said, there, now=now), by=by, through=through, now=now)
        except KeyTaken:
            # Somebody else created one of them at this moment: it is there to be changed now.
            if is_last:
                raise
    raise AssertionError("the last try answers or raises")


def checked(wanted: Sequence[Said]) -> list[Specification]:
    """Each as far as it can be checked by itself."""
    refusals: dict[int, Refused] = {}
    found: list[Specification] = []
    seen: set[str] = set()
    for place, one in enumerate(wanted):
        try:
            found.append(new_jobs.checked(one.key, one.task, one.fields))
            if one.key in seen:
                raise InvalidDefinition("key", f"The key {one.key!r} stands twice in one call; say each job once.")
            seen.add(one.key)
        except Refused as refused:
            refusals[place] = refused
    if refusals:
        raise RefusedItems(refusals)
    return found


def held(keys: Iterable[str]) -> list[Held]:
    """Those of these keys that are there."""
    there = list(Job.objects.open().filter(key__in=list(keys)).values_list("pk", flat=True))
    # Somebody may have ended one of them before it was held.
    return [one for one in edits.hold(there) if one.job.state in OPEN_STATES]


def compared(
    wanted: Sequence[Said], said: Sequence[Specification], there: Mapping[str, Held], *, now: datetime
) -> list[Fresh | Changing]:
    """What each would become, in the same order."""
    found: list[Fresh | Changing] = []
    refusals: dict[int, Refused] = {}
    for place, (one, specification) in enumerate(zip(wanted, said, strict=True)):
        try:
            found.append(_compared(one, specification, there.get(one.key), now=now))
        except Refused as refused:
            refusals[place] = refused
    if refusals:
        raise RefusedItems(refusals)
    return found


def store(compared: Sequence[Fresh | Changing], *, by: str, through: str, now: datetime) -> list[Put]:
    fresh = [each for each in compared if isinstance(each, Fresh)]
    created = iter(
        new_jobs.store([(each.said, each.first_fire) for each in fresh], by=by, through=through, now=now)
        if fresh
        else ()
    )
    changes = [each for each in compared if isinstance(each, Changing)]
    definitions.change_all(changes, by=by, through=through, now=now)
    return [
        Put(next(created), Became.CREATED)
        if isinstance(each, Fresh)
        else Put(each.held.job, Became.UNCHANGED if each.is_same else Became.CHANGED)
        for each in compared
    ]


def _compared(one: Said, said: Specification, there: Held | None, *, now: datetime) -> Fresh | Changing:
    if there is None:
        targets.check(said.task, said.http, lives_elsewhere=one.task_lives_elsewhere)
        return Fresh(said, new_jobs.first_fire_of(said.schedule, now))
    if _says_it_already(there, said):
        return Changing(there, said, said, None)
    fields = {**new_jobs.left_out(one.fields), **one.fields, "task": one.task}
    return definitions.to_change(there, fields, task_lives_elsewhere=one.task_lives_elsewhere, now=now)


def _says_it_already(there: Held, said: Specification) -> bool:
    try:
        return Specification.of(there.job, there.schedule).is_same_as(said)
    except ValueError:
        return False  # broken behind our back: it is given what is said
