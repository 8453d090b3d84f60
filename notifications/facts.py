"""What went wrong lately and was not seen yet.

Owns the question, not what is done with the answer. Commits may come in another order than their moments, so whoever
asks looks back further than the last time, and what was seen is known by its Sighting. Invariant: an attempt that ended
badly, or an execution that was given up without one, is a fact once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.db.models.functions import Left, Right

from executions import many_rows
from executions.models import Attempt, Execution
from executions.states import BAD_OUTCOMES, State
from notifications.kinds import TASK
from notifications.masking import line_of
from notifications.models import Sighting

AT_ONCE = 1000
# An error may be long, and there may be many: what a line of it is made of stands at one of its ends.
_ENDS_OF_ERROR = (Left("error", 400), Right("error", 1000))
_OF_A_TRACEBACK = "Traceback "


@dataclass(frozen=True)
class Fact:
    job_id: int
    job_key: str
    execution_id: UUID
    fire_time: datetime
    attempt: int
    at: datetime
    outcome: str  # of the attempt; nothing: it was given up without one
    error: str  # in a line, masked
    is_dead: bool
    next_at: datetime | None  # of the next attempt


@dataclass(frozen=True)
class Seen:
    facts: Sequence[Fact]
    up_to: datetime | None  # there is more after this; None: that was all


def unseen(look_from: datetime) -> Seen:
    """Facts from a moment on, the oldest first, so many at a time; they are seen by this."""
    known = Sighting.objects.filter(execution_id=OuterRef("execution_id"), attempt=OuterRef("number"))
    ended = list(
        Attempt.objects.filter(outcome__in=BAD_OUTCOMES, finished_at__gte=look_from)
        .exclude(Exists(known))
        .order_by("finished_at")
        .values_list("execution_id", "number", "finished_at", "outcome", *_ENDS_OF_ERROR)[:AT_ONCE]
    )
    known = Sighting.objects.filter(execution_id=OuterRef("pk"), attempt=OuterRef("attempt"))
    dead = list(
        Execution.objects.filter(state=State.DEAD, handled_at=None, finished_at__gte=look_from)
        .exclude(Exists(known))
        .order_by("finished_at")
        .values_list("pk", "attempt", "finished_at", *_ENDS_OF_ERROR)[:AT_ONCE]
    )
    # The last attempt of a dead letter is the same fact.
    told = {(pk, number): (at, "", _line(*error)) for pk, number, at, *error in dead if at is not None}
    told |= {(pk, number): (at, outcome, _line(*error)) for pk, number, at, outcome, *error in ended}
    if not told:
        return Seen((), None)
    many_rows.insert(
        [Sighting(execution_id=pk, attempt=number, at=at) for (pk, number), (at, _, _) in told.items()],
        ending="ON CONFLICT DO NOTHING",
    )
    cut = [at for rows in (ended, dead) if len(rows) == AT_ONCE and (at := rows[-1][2]) is not None]
    return Seen(_facts(told), min(cut, default=None))


def _facts(told: dict[tuple[UUID, int], tuple[datetime, str, str]]) -> list[Fact]:
    ids = {execution_id for execution_id, _ in told}
    columns = ("pk", "job_id", "job__key", "fire_time", "state", "attempt", "available_at")
    # Not those that deliver notifications: they would tell about themselves for ever.
    rows = {row[0]: row for row in Execution.objects.with_ids(ids).exclude(task=TASK).values_list(*columns)}
    found = []
    for (execution_id, number), (at, outcome, error) in told.items():
        if execution_id not in rows:
            continue
        _, job_id, job_key, fire_time, state, attempt, available_at = rows[execution_id]
        is_last = attempt == number
        if is_last and state == State.CANCELLED:
            continue  # somebody asked for that
        waits = state == State.SCHEDULED and attempt == number + 1
        found.append(
            Fact(
                job_id=job_id,
                job_key=job_key,
                execution_id=execution_id,
                fire_time=fire_time,
                attempt=number,
                at=at,
                outcome=outcome,
                error=error,
                is_dead=is_last and state == State.DEAD,
                next_at=available_at if waits else None,
            )
        )
    return sorted(found, key=lambda fact: fact.at)


def _line(beginning: str, end: str) -> str:
    return line_of(f"{_OF_A_TRACEBACK}\n{end}" if beginning.startswith(_OF_A_TRACEBACK) else beginning)


def forget(before: datetime) -> int:
    return Sighting.objects.filter(at__lt=before)._raw_delete(Sighting.objects.db)
