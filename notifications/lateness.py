"""Jobs of which something is due and has not begun.

Owns the question. Three things can be late, each with an index of its own: a schedule that no beat has planned, an
execution that is not published, one that no worker has taken.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from executions.models import Execution, ExecutionQuerySet
from jobs.models import Schedule
from notifications.kinds import TASK

AT_MOST = 1000
_NOT_PLANNED = "no beat has planned it"
_NOT_PUBLISHED = "it is not published"
_NOT_TAKEN = "no worker has taken it"


@dataclass(frozen=True)
class Late:
    """Of a job, what has waited longest."""

    job_key: str
    since: datetime
    why: str
    execution_id: UUID | None = None


@dataclass(frozen=True)
class LateJobs:
    by_job: Mapping[int, Late]
    is_all: bool  # nobody else is late


def late_jobs(due_before: datetime) -> LateJobs:
    """Jobs of which something was due before a moment and has not begun."""
    schedules = Schedule.objects.firing_before(due_before).values_list("job_id", "job__key", "next_fire_at")[:AT_MOST]
    due = Execution.objects.due(due_before).filter(is_waiting=False).order_by("available_at")
    queued = Execution.objects.queued_before(due_before).order_by("queued_at")
    found = [
        [(job_id, Late(key, moment, _NOT_PLANNED)) for job_id, key, moment in schedules if moment is not None],
        _executions(due, _NOT_PUBLISHED),
        _executions(queued, _NOT_TAKEN),
    ]
    is_all = all(len(rows) < AT_MOST for rows in found)
    return LateJobs(_longest(each for rows in found for each in rows), is_all)


def _executions(rows: ExecutionQuerySet, why: str) -> list[tuple[int, Late]]:
    """Not those that deliver notifications: the admin tells of these."""
    late = rows.exclude(task=TASK).values_list("job_id", "job__key", "available_at", "pk")[:AT_MOST]
    return [(job_id, Late(key, moment, why, pk)) for job_id, key, moment, pk in late]


def _longest(found: Iterable[tuple[int, Late]]) -> dict[int, Late]:
    longest: dict[int, Late] = {}
    for job_id, late in found:
        if job_id not in longest or late.since < longest[job_id].since:
            longest[job_id] = late
    return longest
