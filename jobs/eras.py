"""A job's past as its versions tell it: from when to when it had which schedule, and whether that fired.

Owns the reading of versions as eras. Invariants: eras follow one another without a gap; a fire at the very instant of a
change belongs to the era before it, since no change fires the past (`jobs/definitions.py`). The last era is the job as
it is now, by its own rows: they may have been edited without a version.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from jobs.models import Change, Job, JobState, JobVersion, Schedule

MOST_VERSIONS = 5000
_STATE_AFTER = {
    Change.CREATED: JobState.ACTIVE,
    Change.PAUSED: JobState.PAUSED,
    Change.RESUMED: JobState.ACTIVE,
    Change.COMPLETED: JobState.COMPLETED,
    Change.ARCHIVED: JobState.ARCHIVED,
}


class Turn(NamedTuple):
    """A change of a job, as far as it is told."""

    version: int
    change: str
    changed_at: datetime
    changed_by: str
    through: str
    note: str


@dataclass(frozen=True)
class Era:
    """The job from one version to the next."""

    since: datetime | None  # not included; None: before the first that is known
    until: datetime | None  # included; None: it goes on
    state: JobState | None  # None: the job was not made yet, or nobody knows any more
    schedule: Schedule | None
    turn: Turn | None  # what brought it into that state
    ended_by: Turn | None = None
    version: int = 0
    is_known: bool = True

    @property
    def is_now(self) -> bool:
        return self.until is None

    @property
    def is_over(self) -> bool:
        return self.state in (JobState.COMPLETED, JobState.ARCHIVED)

    def holds(self, moment: datetime) -> bool:
        return (self.since is None or self.since < moment) and (self.until is None or moment <= self.until)


def eras_of(job: Job, schedule: Schedule | None) -> list[Era]:
    """The oldest first; one of them holds any moment."""
    columns = (*Turn._fields, "definition__schedule")
    # The schedule alone: payloads may be long, and versions many.
    newest_first = JobVersion.objects.filter(job_id=job.pk).order_by("-version").values_list(*columns)
    read = list(newest_first[:MOST_VERSIONS])[::-1]
    if not read:  # made without a history, by SQL
        read = [(job.version, Change.CREATED, job.created_at, "", "", "", None)]
    turns = [Turn._make(row[:-1]) for row in read]
    schedules = [_schedule_of(job, row[-1]) for row in read[:-1]] + [schedule]
    return _eras(job, turns, schedules)


def _eras(job: Job, turns: Sequence[Turn], schedules: Sequence[Schedule | None]) -> list[Era]:
    is_whole = turns[0].change == Change.CREATED
    eras = [
        Era(None, turns[0].changed_at, None, schedules[0] if is_whole else None, None, turns[0], is_known=is_whole),
    ]
    state, turn = _first_state(turns), turns[0]
    for number, (one, its_schedule) in enumerate(zip(turns, schedules, strict=True)):
        if (after := _STATE_AFTER.get(Change(one.change))) is not None:
            state, turn = after, one
        is_last = number == len(turns) - 1
        following = None if is_last else turns[number + 1]
        until = None if following is None else following.changed_at
        now_state = JobState(job.state) if is_last else state
        eras.append(Era(one.changed_at, until, now_state, its_schedule, turn, following, one.version))
    return eras


def _first_state(turns: Sequence[Turn]) -> JobState:
    """Of a history that is cut off: what the first change of state that is left tells of the time before it."""
    first = next((turn.change for turn in turns if turn.change in _STATE_AFTER), Change.CREATED)
    return JobState.PAUSED if first == Change.RESUMED else JobState.ACTIVE


def _schedule_of(job: Job, kept: dict[str, Any] | None) -> Schedule | None:
    """As it was stored, by which it can be asked like any other."""
    if kept is None:
        return None
    columns = {name: value for name, value in kept.items() if name in _COLUMNS}
    for name in ("anchor_at", "start_at", "end_at"):
        if columns.get(name) is not None:
            columns[name] = datetime.fromisoformat(columns[name])
    return Schedule(job=job, **columns)


_COLUMNS = {field.name for field in Schedule._meta.concrete_fields} - {"job"}


def says_the_same(one: Schedule | None, other: Schedule | None) -> bool:
    """Whether two schedules have the same fires."""
    names = ("kind", "expression", "timezone", "anchor_at", "start_at", "end_at", "max_fires")
    return one is not None and all(getattr(one, name) == getattr(other, name) for name in names)
