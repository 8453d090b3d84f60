"""The rows of fires, a batch of them in one statement.

What to run is copied from the job within the database, so that payloads do not travel to the beat and back. Invariant:
a fire that already has its row keeps that one.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from django.db import IntegrityError, connection, transaction

from executions import partitions, value_lists
from executions.fires import Fire, Stretch
from executions.identity import new_execution_id
from executions.models import FROM_JOB, REASON_CHARACTERS, Execution
from executions.states import State, Trigger
from executions.storable import storable_text

# Django can neither insert from a query nor join a list of values.
_INSERT = """
INSERT INTO onbeat_execution ({columns}) SELECT {values} FROM {given} JOIN onbeat_job ON onbeat_job.id = given.job_id
WHERE true ON CONFLICT DO NOTHING
"""
# What differs from row to row, with its type on PostgreSQL.
_GIVEN = {
    "id": "uuid",
    "job_id": "bigint",
    "fire_time": "timestamptz",
    "available_at": "timestamptz",
    "state": "text",
    "reason": "text",
    "finished_at": "timestamptz",
    "skipped_count": "integer",
    "skipped_until": "timestamptz",
}


def plan_fires(fires: Sequence[Fire], stretches: Sequence[Stretch], *, now: datetime) -> None:
    """Insert fires as SCHEDULED, and stretches of fires that will not run as one SKIPPED row each, with the reason."""
    rows = [_planned(fire) for fire in fires] + [_skipped(stretch, now) for stretch in stretches]
    if rows:
        with_partitions(lambda: _insert(rows, now), (row[2] for row in rows))


def with_partitions(insert: Callable[[], object], moments: Iterable[datetime]) -> None:
    """Insert rows of these fire times; if a month has no table yet, make it and insert again."""
    try:
        with transaction.atomic():
            insert()
    except IntegrityError as error:
        if not partitions.is_missing(error):
            raise
        partitions.make(partitions.months_of(moments))
        insert()


_Row = tuple[uuid.UUID, int, datetime, datetime, str, str, datetime | None, int | None, datetime | None]


def _planned(fire: Fire) -> _Row:
    return _row(fire.job_id, fire.fire_time, fire.available_at, State.SCHEDULED, "", None, None, None)


def _skipped(stretch: Stretch, now: datetime) -> _Row:
    reason = storable_text(stretch.reason, REASON_CHARACTERS)
    return _row(stretch.job_id, stretch.first, stretch.first, State.SKIPPED, reason, now, stretch.count, stretch.last)


def _row(job_id: int, fire_time: datetime, *others: object) -> _Row:
    return (new_execution_id(fire_time), job_id, fire_time, *others)  # type: ignore[return-value]


def _insert(rows: Sequence[_Row], now: datetime) -> None:
    names, constants = _the_same_in_all()
    columns = ", ".join([*_GIVEN, *FROM_JOB, *names])
    values = ", ".join(
        [*(f"given.{name}" for name in _GIVEN), *(f"onbeat_job.{name}" for name in FROM_JOB), *["%s"] * len(names)]
    )
    given, given_parameters = value_lists.table("given", _GIVEN, rows)
    parameters: list[Any] = [now if constant is _NOW else constant for constant in constants]
    with connection.cursor() as cursor:
        cursor.execute(_INSERT.format(columns=columns, values=values, given=given), [*parameters, *given_parameters])


_NOW = object()


@cache
def _the_same_in_all() -> tuple[list[str], list[object]]:
    """The other columns, and what a new row has in them."""
    defaults = {str(field.column): field.get_default() for field in Execution._meta.concrete_fields}
    defaults |= {"trigger": Trigger.SCHEDULE.value, "created_at": _NOW}
    others = [column for column in defaults if column not in {*_GIVEN, *FROM_JOB}]
    return others, [defaults[column] for column in others]
