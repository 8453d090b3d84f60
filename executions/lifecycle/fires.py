"""The rows of fires, a batch of them in one statement.

What to run is copied from the job within the database, so that payloads do not travel to the beat and back. Invariant:
a fire that already has its row keeps that one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from django.db import IntegrityError, connection, transaction

from executions import partitions, value_lists
from executions.fires import Fire, Stretch
from executions.identity import new_execution_id, new_execution_ids
from executions.lifecycle import tally
from executions.models import FROM_JOB, REASON_CHARACTERS, Execution
from executions.states import State, Trigger
from executions.storable import storable_text

# Django can neither insert from a query nor join a list of values.
_INSERT = """
INSERT INTO onbeat_execution ({columns}) SELECT {values} FROM {given} {and_job} WHERE true ON CONFLICT DO NOTHING
"""
# Each job by its key: PostgreSQL would read all that there are, and look the batch up in them.
_AND_JOB = {
    "postgresql": "CROSS JOIN LATERAL (SELECT * FROM onbeat_job WHERE id = given.job_id LIMIT 1) AS onbeat_job",
    "sqlite": "JOIN onbeat_job ON onbeat_job.id = given.job_id",
}
# What differs from row to row, with its type on PostgreSQL: of fires alone, as nearly always, or with stretches.
_OF_FIRES = {"id": "uuid", "job_id": "bigint", "fire_time": "timestamptz", "available_at": "timestamptz"}
_OF_STRETCHES = {
    **_OF_FIRES,
    "state": "text",
    "reason": "text",
    "finished_at": "timestamptz",
    "skipped_count": "integer",
    "skipped_until": "timestamptz",
}
_SCHEDULED = (State.SCHEDULED, "", None, None, None)  # what a fire has in the columns of stretches


def plan_fires(fires: Sequence[Fire], stretches: Sequence[Stretch], *, now: datetime) -> None:
    """Insert fires as SCHEDULED, and stretches of fires that will not run as one SKIPPED row each, with the reason."""
    kinds = _OF_STRETCHES if stretches else _OF_FIRES
    ids = new_execution_ids([fire.fire_time for fire in fires])
    rows: list[Sequence[object]] = [
        (execution_id, *fire, *_SCHEDULED)[: len(kinds)] for execution_id, fire in zip(ids, fires, strict=True)
    ]
    rows += [_skipped(stretch, now) for stretch in stretches]
    if rows:
        moments = [*(fire.fire_time for fire in fires), *(stretch.first for stretch in stretches)]
        with_partitions(lambda: _insert(kinds, rows, now), moments)
        tally.planned(len(fires))
        tally.skipped((stretch.reason, stretch.count or 1) for stretch in stretches)


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


def _skipped(stretch: Stretch, now: datetime) -> tuple[object, ...]:
    fire = (new_execution_id(stretch.first), stretch.job_id, stretch.first, stretch.first)
    reason = storable_text(stretch.reason, REASON_CHARACTERS)
    return (*fire, State.SKIPPED, reason, now, stretch.count, stretch.last)


def _insert(kinds: Mapping[str, str], rows: Sequence[Sequence[object]], now: datetime) -> None:
    names, constants = _the_same_in_all(frozenset(kinds))
    columns = ", ".join([*kinds, *FROM_JOB, *names])
    values = ", ".join(
        [*(f"given.{name}" for name in kinds), *(f"onbeat_job.{name}" for name in FROM_JOB), *["%s"] * len(names)]
    )
    given, given_parameters = value_lists.table("given", kinds, rows)
    parameters: list[Any] = [now if constant is _NOW else constant for constant in constants]
    insert = _INSERT.format(columns=columns, values=values, given=given, and_job=_AND_JOB[connection.vendor])
    with connection.cursor() as cursor:
        cursor.execute(insert, [*parameters, *given_parameters])


_NOW = object()


@cache
def _the_same_in_all(given: frozenset[str]) -> tuple[list[str], list[object]]:
    """The other columns, and what a new row has in them."""
    defaults = {str(field.column): field.get_default() for field in Execution._meta.concrete_fields}
    defaults |= {"trigger": Trigger.SCHEDULE.value, "created_at": _NOW}
    others = [column for column in defaults if column not in {*given, *FROM_JOB}]
    return others, [defaults[column] for column in others]
