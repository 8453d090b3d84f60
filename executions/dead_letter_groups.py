"""Which dead letters wait for a person, and which of them are alike.

Owns the questions asked of dead letters; `executions/dead_letters.py` acts on the answers. Invariant: only what nobody
has handled yet is found, and however many there are, the number of queries is the same.
"""

import uuid
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import CharField, Count, Max, Min, Q, QuerySet
from django.db.models.functions import Cast

from executions import queues
from executions.models import DeadMessage, Execution, ExecutionQuerySet
from executions.states import State
from executions.storable import stored_in_a_line

_FEW = 5


@dataclass(frozen=True)
class Matching:
    """Which dead letters are meant. What is left out does not matter; nothing said means all that wait."""

    ids: Collection[uuid.UUID] | None = None  # of executions
    fingerprint: str | None = None
    job: str | None = None  # its key
    job_id: int | None = None
    task: str | None = None
    queue: str | None = None  # as the job names it
    since: datetime | None = None  # when it gave up
    until: datetime | None = None  # not included

    def executions(self) -> ExecutionQuerySet:
        rows = Execution.objects.all() if self.ids is None else Execution.objects.with_ids(self.ids)
        rows = rows.filter(state=State.DEAD, handled_at=None)
        asked = {"fingerprint": self.fingerprint, "job__key": self.job, "task": self.task, "queue": self.queue}
        return rows.filter(_said(**asked, job_id=self.job_id, finished_at__gte=self.since, finished_at__lt=self.until))

    def messages(self) -> QuerySet[DeadMessage]:
        """Those that belong to no execution. None are if an execution or a job is named."""
        waiting = DeadMessage.objects.filter(handled_at=None)
        if self.ids is not None or self.job is not None or self.job_id is not None:
            return waiting.none()
        of_broker = None if self.queue is None else queues.work_queue(self.queue).name
        asked = {"fingerprint": self.fingerprint, "task": self.task, "queue": of_broker}
        return waiting.filter(_said(**asked, collected_at__gte=self.since, collected_at__lt=self.until))


def _said(**conditions: object) -> Q:
    return Q(**{name: value for name, value in conditions.items() if value is not None})


@dataclass(frozen=True)
class Group:
    """Dead letters whose errors look alike."""

    fingerprint: str
    executions: int
    messages: int
    jobs: tuple[str, ...]  # keys of the few that have most of them
    tasks: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    example: str  # the error of one of them, in a line

    @property
    def count(self) -> int:
        return self.executions + self.messages


@dataclass
class _Sum:
    executions: int = 0
    messages: int = 0
    jobs: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)
    moments: list[datetime] = field(default_factory=list)
    newest: str = ""  # the id of one of the executions
    example: str = ""


def groups(matching: Matching | None = None) -> list[Group]:
    """All that wait, by fingerprint; the largest group first."""
    matching = matching or Matching()
    sums: dict[str, _Sum] = {}
    for row in _executions_in_parts(matching):
        one = sums.setdefault(row["fingerprint"], _Sum())
        one.executions += row["count"]
        one.jobs[row["job__key"]] += row["count"]
        one.tasks[row["task"]] += row["count"]
        one.moments += [row["first"], row["last"]]
        one.newest = max(one.newest, row["newest"])
    for row in _messages_in_parts(matching):
        one = sums.setdefault(row["fingerprint"], _Sum())
        one.messages += row["count"]
        one.tasks[row["task"]] += row["count"]
        one.moments += [row["first"], row["last"]]
        one.example = row["example"]
    errors = _errors_of([uuid.UUID(one.newest) for one in sums.values() if one.newest])
    found = [_group(fingerprint, one, errors.get(one.newest, one.example)) for fingerprint, one in sums.items()]
    return sorted(found, key=lambda group: (-group.count, group.fingerprint))


@dataclass(frozen=True)
class GroupOfJob:
    """Dead letters of one job whose errors look alike."""

    job_id: int
    job: str  # its key
    fingerprint: str
    count: int
    first_at: datetime
    last_at: datetime
    example_id: uuid.UUID
    example: str  # the error of the latest, in a line


def groups_of_jobs(*, limit: int) -> list[GroupOfJob]:
    """The largest so many groups by job and fingerprint. Two queries, which cost what waits."""
    rows = (
        Matching()
        .executions()
        .values("job_id", "fingerprint")
        .annotate(
            count=Count("pk"), first=Min("finished_at"), last=Max("finished_at"), newest=Max(Cast("pk", CharField()))
        )
        .order_by("-count", "-last", "job_id")[:limit]
    )
    found = list(rows)
    examples = Execution.objects.with_ids([uuid.UUID(row["newest"]) for row in found]).select_related("job")
    newest = {one.pk: one for one in examples.only("error", "job__key", "job_id")}
    return [
        GroupOfJob(
            row["job_id"],
            one.job.key,
            row["fingerprint"],
            row["count"],
            row["first"],
            row["last"],
            one.pk,
            stored_in_a_line(one.error),
        )
        for row in found
        if (one := newest.get(uuid.UUID(row["newest"]))) is not None
    ]


def _executions_in_parts(matching: Matching) -> Iterable[Any]:
    parts = matching.executions().values("fingerprint", "job__key", "task").order_by()
    return parts.annotate(
        count=Count("pk"),
        first=Min("finished_at"),
        last=Max("finished_at"),
        # As text, since PostgreSQL knows no greatest UUID; in either form they sort by fire time.
        newest=Max(Cast("pk", CharField())),
    ).iterator()


def _messages_in_parts(matching: Matching) -> Iterable[Any]:
    parts = matching.messages().values("fingerprint", "task").order_by()
    return parts.annotate(
        count=Count("pk"), first=Min("collected_at"), last=Max("collected_at"), example=Max("error")
    ).iterator()


def _errors_of(ids: list[uuid.UUID]) -> dict[str, str]:
    rows = Execution.objects.with_ids(ids).annotate(text=Cast("pk", CharField())).values_list("text", "error")
    return dict(rows)


def _group(fingerprint: str, one: _Sum, error: str) -> Group:
    return Group(
        fingerprint,
        one.executions,
        one.messages,
        jobs=tuple(key for key, _ in one.jobs.most_common(_FEW)),
        tasks=tuple(task for task, _ in one.tasks.most_common(_FEW) if task),
        first_at=min(one.moments),
        last_at=max(one.moments),
        example=stored_in_a_line(error),
    )
