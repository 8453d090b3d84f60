"""Bring stored jobs in line with what a file or code says.

Owns the question what has to be done for that. A manager is the name of such a file or code. Invariants: looking
changes nothing; applying does all of it in one transaction or nothing; only jobs of the same manager are ever
archived, and a job of another manager is not touched unless it is taken over. A state (paused) is nobody's to apply:
it stays.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from django.db import transaction

from executions.clock import database_now
from jobs import definitions, edits, upserts
from jobs.definitions import Changing
from jobs.edits import Held
from jobs.models import OPEN_STATES, Job
from jobs.refusals import InvalidDefinition, KeyTaken, Refused, check_text
from jobs.specification import Specification
from jobs.upserts import Fresh, RefusedItems, Said

MOST_JOBS = 50_000
MANAGER_CHARACTERS = 100
_TRIES = 3
ARCHIVED_BECAUSE = "no longer named by its manager"


class Becomes(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    ADOPTED = "adopted"  # it says so already, and has a manager from now on
    UNCHANGED = "unchanged"
    ARCHIVED = "archived"
    LEFT = "left"  # its manager names it no longer, and nobody asked to archive it


@dataclass(frozen=True)
class Step:
    """What becomes of one job; as it is, and as it will be."""

    key: str
    becomes: Becomes
    before: Specification | None = None
    after: Specification | None = None
    job: Job | None = None  # as it was; once applied, as it is
    state: str = ""  # it was in before


@dataclass(frozen=True)
class Rules:
    """How far a manager may go."""

    manager: str
    is_pruning: bool = False  # archive what it managed and names no longer
    is_taking_over: bool = False  # also from other managers


def look(wanted: Sequence[Said], rules: Rules, *, now: datetime | None = None) -> list[Step]:
    """What applying would do, in the order of what is wanted; then what is managed and not wanted."""
    now = now or database_now()
    found = _found(wanted, rules, edits.look_at(_pks(wanted, rules)), now=now)
    return found.steps()


def apply(
    wanted: Sequence[Said], rules: Rules, *, by: str = "", through: str = "python", now: datetime | None = None
) -> list[Step]:
    check_text(InvalidDefinition, by=by, through=through)
    now = now or database_now()
    for _ in range(_TRIES - 1):
        try:
            return _apply(wanted, rules, by=by, through=through, now=now)
        except KeyTaken:
            pass  # somebody else created one of them at this moment: it is there to be changed now
    return _apply(wanted, rules, by=by, through=through, now=now)


def _apply(wanted: Sequence[Said], rules: Rules, *, by: str, through: str, now: datetime) -> list[Step]:
    with transaction.atomic():
        found = _found(wanted, rules, edits.hold(_pks(wanted, rules)), now=now)
        steps = found.steps()
        stored = upserts.store(found.compared, by=by, through=through, now=now)
        definitions.archive_all(found.to_archive, reason=ARCHIVED_BECAUSE, by=by, through=through, now=now)
        _manage([put.job for put in stored if put.job.managed_by != rules.manager], rules.manager)
    jobs = [*(put.job for put in stored), *(one.job for one in found.unwanted)]
    return [replace(step, job=job) for step, job in zip(steps, jobs, strict=True)]


@dataclass(frozen=True)
class _Found:
    rules: Rules
    compared: list[Fresh | Changing]
    unwanted: list[Held]  # of the same manager, and not named

    @property
    def to_archive(self) -> list[Held]:
        return self.unwanted if self.rules.is_pruning else []

    def steps(self) -> list[Step]:
        gone = Becomes.ARCHIVED if self.rules.is_pruning else Becomes.LEFT
        return [
            *(self._step(each) for each in self.compared),
            *(Step(one.job.key, gone, job=one.job, state=one.job.state) for one in self.unwanted),
        ]

    def _step(self, each: Fresh | Changing) -> Step:
        if isinstance(each, Fresh):
            return Step(each.said.key, Becomes.CREATED, None, each.said)
        job = each.held.job
        if not each.is_same:
            becomes = Becomes.CHANGED
        else:
            becomes = Becomes.UNCHANGED if job.managed_by == self.rules.manager else Becomes.ADOPTED
        return Step(job.key, becomes, each.before, each.after, job, job.state)


def _pks(wanted: Sequence[Said], rules: Rules) -> Collection[int]:
    """Of the jobs that are named, and of those that the manager has."""
    if not rules.manager or len(rules.manager) > MANAGER_CHARACTERS or not rules.manager.isprintable():
        raise InvalidDefinition("manager", f"A manager's name is 1 to {MANAGER_CHARACTERS} printable characters.")
    if len(wanted) > MOST_JOBS:
        raise InvalidDefinition("jobs", f"One call takes up to {MOST_JOBS} jobs, not {len(wanted)}; split them.")
    open_jobs = Job.objects.open()
    named = open_jobs.filter(key__in=[one.key for one in wanted]).values_list("pk", flat=True)
    return {*named, *open_jobs.managed_by(rules.manager).values_list("pk", flat=True)}


def _found(wanted: Sequence[Said], rules: Rules, there: Sequence[Held], *, now: datetime) -> _Found:
    said = upserts.checked(wanted)
    of_key = {one.job.key: one for one in there if one.job.state in OPEN_STATES}
    _check_managers(wanted, rules, of_key)
    compared = upserts.compared(wanted, said, of_key, now=now)
    named = {one.key for one in wanted}
    unwanted = [one for key, one in sorted(of_key.items()) if key not in named]
    return _Found(rules, compared, unwanted)


def _check_managers(wanted: Sequence[Said], rules: Rules, of_key: dict[str, Held]) -> None:
    if rules.is_taking_over:
        return
    refusals: dict[int, Refused] = {}
    for place, one in enumerate(wanted):
        there = of_key.get(one.key)
        if there is not None and there.job.managed_by not in ("", rules.manager):
            refusals[place] = InvalidDefinition(
                "key",
                f"The job {one.key!r} is managed by {there.job.managed_by!r} and not by {rules.manager!r}; take it out "
                "there first, or take it over.",
            )
    if refusals:
        raise RefusedItems(refusals)


def _manage(jobs: Sequence[Job], manager: str) -> None:
    """A label, like an owner: it is no version of its own."""
    if jobs:
        Job.objects.filter(pk__in=[job.pk for job in jobs]).update(managed_by=manager)
        for job in jobs:
            job.managed_by = manager
