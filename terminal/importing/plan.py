"""What would become of each task here: made, changed, left as it is, or not moved.

Owns the comparison with what is stored. Invariants: a task leads to one job, however often it is moved in; a job that
was made or changed here is not overwritten unless that is wanted; what the domain would refuse is found before anything
is stored. Nothing is changed here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Max
from rest_framework.exceptions import ValidationError

from api.jobs import bodies, listing
from api.jobs.bodies import JobBody
from api.jobs.named import anchor_of
from api.problems import Problem, problem_of
from jobs import new_jobs, targets
from jobs.models import OPEN_STATES, Change, Job, JobState, JobVersion
from jobs.moving_in import keys
from jobs.moving_in.sources import Source, Task
from jobs.moving_in.translation import CannotMove, LeftOut, Moved, Note, Wishes, translated
from jobs.recurrence import Every, Within
from jobs.refusals import InvalidDefinition, Refused, shown
from jobs.specification import Specification
from jobs.upserts import Said

THROUGH = "import_beat"  # in the versions of a job: by which it is known that it came from there
_DEFINING = (Change.CREATED, Change.CHANGED)
_SHAPE = JobBody()
_LITTLE, _MUCH = timedelta(seconds=2), timedelta(minutes=1)  # by which an interval drifts there from run to run


class Becomes(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    KEPT = "kept"  # as it is here: somebody made or changed it


@dataclass(frozen=True)
class Item:
    """A task that can be moved."""

    moved: Moved
    said: Said
    becomes: Becomes
    state: JobState  # afterwards
    schedule_in_words: str
    next_fire_at: datetime | None
    pause: str | None = None  # with this reason, if it is to be done
    is_resumed: bool = False
    kept_because: str = ""

    @property
    def key(self) -> str:
        return self.said.key

    @property
    def notes(self) -> tuple[Note, ...]:
        return self.moved.notes


@dataclass(frozen=True)
class Plan:
    source: Source
    items: Sequence[Item]
    left_out: Sequence[LeftOut]
    cannot: Sequence[CannotMove]
    vanished: Sequence[str]  # keys of jobs that came from there, whose task is no longer there

    def that_become(self, *what: Becomes) -> list[Item]:
        return [item for item in self.items if item.becomes in what]


@dataclass(frozen=True)
class Manner:
    """How tasks are moved."""

    wishes: Wishes
    prefix: str = ""
    is_paused: bool = False
    is_overwriting: bool = False
    only: Sequence[str] = ()


def planned(tasks: Sequence[Task], *, source: Source, manner: Manner, now: datetime) -> Plan:
    came = _came_from(source, manner.prefix)
    chosen = keys.keys_of([task.name for task in tasks], prefix=manner.prefix, stored=came)
    named = Counter(task.name for task in tasks)
    wanted = [
        _translated(task, key, source, manner, now) if named[task.name] == 1 else _named_twice(task)
        for task, key in zip(tasks, chosen, strict=True)
        if not manner.only or task.name in manner.only
    ]
    there = _there([key for key in chosen if key is not None])
    items: list[Item] = []
    cannot = [each for each in wanted if isinstance(each, CannotMove)]
    for moved in wanted:
        if not isinstance(moved, Moved):
            continue
        try:
            items.append(_item(moved, there, source, manner, now))
        except (Refused, Problem, ValidationError) as refused:
            cannot.append(CannotMove(moved.name, _why(refused), _remedy(refused)))
    return Plan(
        source=source,
        items=items,
        left_out=[each for each in wanted if isinstance(each, LeftOut)],
        cannot=cannot,
        vanished=[] if manner.only else sorted(came - {key for key in chosen if key is not None}),
    )


def _named_twice(task: Task) -> CannotMove:
    return CannotMove(task.name, "Another task has the same name.", "Rename one of them there.")


def _translated(
    task: Task, key: str | None, source: Source, manner: Manner, now: datetime
) -> Moved | LeftOut | CannotMove:
    if key is None:
        plain = keys.plain_key(task.name, manner.prefix)
        return CannotMove(
            task.name,
            f"Another task has a name like it, and the job {plain!r} may be of either.",
            f"Archive {plain!r}, or rename one of the tasks there.",
        )
    return translated(task, key=key, source=source, wishes=manner.wishes, now=now)


# ── What is stored ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Stored:
    job: Job
    is_from_there: bool  # and nobody said otherwise since


def _came_from(source: Source, prefix: str) -> set[str]:
    """The keys of open jobs that were made by moving in."""
    ours: set[str] = set()
    for tag in (source.tag, source.tag_if_disabled):
        jobs = listing.matching({"tag": tag, **({"key_prefix": prefix} if prefix else {})})
        ours |= set(
            jobs.filter(versions__change=Change.CREATED, versions__through=THROUGH).values_list("key", flat=True)
        )
    return ours


def _there(wanted: Sequence[str]) -> Mapping[str, _Stored]:
    """The latest job of each key, also one that is over: what ran to its end here must not begin anew."""
    latest = Job.objects.filter(key__in=wanted).values("key").annotate(newest=Max("pk")).values("newest")
    jobs = list(Job.objects.filter(pk__in=latest).select_related("schedule"))
    versions = JobVersion.objects.filter(job__in=jobs, change__in=_DEFINING).order_by("version")
    through = dict(versions.values_list("job_id", "through"))  # of the last one
    return {job.key: _Stored(job, through.get(job.pk) == THROUGH) for job in jobs}


# ── One task ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _item(moved: Moved, there: Mapping[str, _Stored], source: Source, manner: Manner, now: datetime) -> Item:
    stored = there.get(moved.body["key"])
    job = stored.job if stored is not None else None
    said = bodies.said(
        _SHAPE.run_validation(moved.body), now=now, anchor=anchor_of(getattr(job, "schedule", None) if job else None)
    )
    said = _in_phase(said, job)
    checked = new_jobs.checked(said.key, said.task, said.fields)
    _check_task(said)
    first = new_jobs.first_fire_of(checked.schedule, now)
    reason = _pause_reason(moved, source, manner)
    state = JobState.ACTIVE if reason is None else JobState.PAUSED
    schedule = new_jobs.new_schedule(Job(key=said.key), checked, first)
    words = schedule.in_words if schedule is not None else ""
    item = Item(moved, said, Becomes.CREATED, state, words, first, pause=reason)
    return item if stored is None else _beside(item, stored, checked, source, manner)


def _check_task(said: Said) -> None:
    try:
        targets.check(said.task, None, lives_elsewhere=said.task_lives_elsewhere)
    except InvalidDefinition:
        if said.task_lives_elsewhere or not said.task or said.task.startswith("celery."):
            raise
        targets.check(said.task, None, lives_elsewhere=True)  # what is forbidden is told as such
        raise InvalidDefinition(
            "task",
            f"There is no task {shown(said.task)} in the installed apps; install its app, or say --lives-elsewhere if "
            "another codebase has it.",
        ) from None


def _beside(item: Item, stored: _Stored, checked: Specification, source: Source, manner: Manner) -> Item:
    """What becomes of the job that is there."""
    job = stored.job
    if job.state not in OPEN_STATES:
        if manner.is_overwriting or not stored.is_from_there:
            return item  # its key is free
        return _kept(item, job, f"is {job.state} here; --overwrite makes it anew")
    schedule = getattr(job, "schedule", None)
    if _says_it_already(job, checked):
        following = schedule.next_fire_at if schedule is not None else None
        return replace(item, becomes=Becomes.UNCHANGED, state=JobState(job.state), next_fire_at=following, pause=None)
    if not stored.is_from_there and not manner.is_overwriting:
        return _kept(item, job, "was made or changed here; --overwrite gives it what is said there")
    return _switched(replace(item, becomes=Becomes.CHANGED), job, source)


def _switched(item: Item, job: Job, source: Source) -> Item:
    """A change pauses or resumes a job only where its task was switched off or on since."""
    was_enabled = source.tag_if_disabled not in job.tags
    if was_enabled == item.moved.is_enabled:
        return replace(item, pause=None, state=JobState(job.state))
    return replace(item, is_resumed=item.pause is None)


def _kept(item: Item, job: Job, because: str) -> Item:
    schedule = getattr(job, "schedule", None)
    return replace(
        item,
        becomes=Becomes.KEPT,
        state=JobState(job.state),
        schedule_in_words=schedule.in_words if schedule is not None else "only when asked",
        next_fire_at=schedule.next_fire_at if schedule is not None and schedule.is_active else None,
        pause=None,
        kept_because=because,
    )


def _says_it_already(job: Job, checked: Specification) -> bool:
    try:
        return Specification.of(job, getattr(job, "schedule", None)).is_same_as(checked)
    except ValueError:
        return False  # broken behind our back


def _pause_reason(moved: Moved, source: Source, manner: Manner) -> str | None:
    if not moved.is_enabled:
        return f"disabled in {source.name}"
    return f"moved in from {source.name}" if manner.is_paused else None


def _in_phase(said: Said, job: Job | None) -> Said:
    """An interval that goes on in the rhythm it has keeps its anchor: there the last run moves with every run."""
    anchor, schedule = anchor_of(getattr(job, "schedule", None)) if job else None, said.fields.get("schedule")
    every = schedule.recurrence if isinstance(schedule, Within) else schedule
    if anchor is None or not isinstance(every, Every):
        return said
    step = timedelta(seconds=every.seconds)
    off = (every.anchor - anchor) % step
    if min(off, step - off) > min(max(step / 100, _LITTLE), _MUCH):
        return said
    every = replace(every, anchor=anchor)
    within = replace(schedule, recurrence=every) if isinstance(schedule, Within) else every
    return replace(said, fields={**said.fields, "schedule": within})


def _why(refused: Exception) -> str:
    problem = problem_of(refused)
    if problem is not None and problem.places and not isinstance(refused, Refused):
        return " ".join(f"{place.pointer}: {place.detail}" for place in problem.places)
    return str(refused)


def _remedy(refused: Exception) -> str:
    field = getattr(refused, "field", "")
    return "Rename its queue there, or make the job by hand." if field == "queue" else ""
