"""The outbox: what still has to be published, and when the next of it is due.

Said in plain SQL, since a beat that has something to do all the time asks this all the time, and Django takes longer to
make such a statement than the database to answer it. Invariant: what is read costs what is found, however much waits.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import connection

from executions import prepared
from executions.identity import MILLISECOND, fire_time_of, is_ours
from executions.models import MAX_PRIORITY
from executions.outgoing import Due, Outgoing, moment_of
from executions.parts import ALL_JOBS, Part
from executions.value_lists import among, as_parameters, columns_as_table

# To sort a backlog of a million for each look would take longer than to publish what it finds. So on PostgreSQL each
# priority is read by itself, from the highest on, in the order of its index, and reading ends when enough is found.
# (Said as a comparison of pairs: of a plain "equal" the planner makes a scan of all that is due for each priority, if
# most have the same.) What somebody holds is passed by; its own locks end with the statement.
_DUE = "SELECT id, attempt, job_id, trigger, CAST(fire_time AS text) FROM onbeat_execution WHERE {those}"
_MOST_URGENT = {
    "postgresql": f"""
        SELECT due.* FROM generate_series({MAX_PRIORITY}, 0, -1) AS level (priority) CROSS JOIN LATERAL (
            {_DUE} AND priority >= level.priority AND (priority, available_at) <= (level.priority, %s)
            ORDER BY priority, available_at LIMIT {{most}} FOR UPDATE SKIP LOCKED
        ) AS due LIMIT {{most}}
    """,
    "sqlite": f"{_DUE} AND available_at <= %s ORDER BY priority DESC, available_at LIMIT {{most}}",
}
# How to run it as the job says now, and what to run as it said when the row was made.
_OUTGOING = """
SELECT execution.id, attempt, job.key, trigger, request_id, CAST(fire_time AS text), CAST(available_at AS text),
    is_waiting,
    execution.task, CAST(execution.args AS text), CAST(execution.kwargs AS text), execution.queue, execution.priority,
    job.timeout_seconds, job.stop_grace_seconds, job.keep_result
FROM onbeat_execution AS execution JOIN onbeat_job AS job ON job.id = job_id WHERE {those}
"""
# Not as a minimum: for that the planner may read all that is planned ahead.
_NEXT = """
SELECT CAST(available_at AS text) FROM onbeat_execution WHERE {those} ORDER BY onbeat_execution.available_at LIMIT 1
"""


def most_urgent(
    now: datetime,
    *,
    part: Part = ALL_JOBS,
    without: Collection[str] = (),
    passed_by: Collection[uuid.UUID] = (),
    most: int,
) -> list[Due]:
    """What is due, the most urgent first; without those of some queues, and without some that are passed by."""
    those = _Conditions("state = 'SCHEDULED'", []).of(part).without("queue", without).passing_by(passed_by)
    those = replace(those, parameters=[*those.parameters, now])
    return [Due.read(row) for row in those.ask(_MOST_URGENT[connection.vendor], most=most)]


def outgoing(
    ids: Collection[uuid.UUID], *, due_by: datetime | None = None, without: Collection[str] = ()
) -> list[Outgoing]:
    """These with what their messages need, the most urgent first; only what is due by a moment, if one is given."""
    ids = [execution_id for execution_id in ids if is_ours(execution_id)]
    if not ids:
        return []
    first, last = fire_time_of(min(ids)), fire_time_of(max(ids)) + MILLISECOND
    those = _Conditions("fire_time >= %s AND fire_time < %s", [first, last])
    those = those.joined_by(*among("execution.id", "uuid", ids)).without("execution.queue", without)
    if due_by is not None:
        those = those.joined_by("execution.state = 'SCHEDULED' AND available_at <= %s", [due_by])
    # Not sorted there: see `beat/line_settings.py`.
    return sorted(map(Outgoing.read, those.ask(_OUTGOING)), key=lambda row: (-row.priority, row.available_at))


def next_at(after: datetime, *, until: datetime, part: Part = ALL_JOBS) -> datetime | None:
    """When the first is due between two moments."""
    between = "state = 'SCHEDULED' AND available_at > %s AND available_at <= %s"
    found = _Conditions(between, [after, until]).of(part).ask(_NEXT)
    return moment_of(found[0][0]) if found else None


@dataclass(frozen=True)
class _Conditions:
    text: str
    parameters: Sequence[Any]

    def joined_by(self, text: str, parameters: Sequence[Any]) -> "_Conditions":
        return _Conditions(f"{self.text} AND {text}", [*self.parameters, *parameters])

    def of(self, part: Part) -> "_Conditions":
        if part.remainders is None:
            return self
        return self.joined_by(*among(f"job_id %% {part.of}", "bigint", sorted(part.remainders)))

    def without(self, column: str, values: Collection[str]) -> "_Conditions":
        if not values:
            return self
        condition, parameters = among(column, "text", list(values))
        return self.joined_by(f"NOT ({condition})", parameters)

    def passing_by(self, ids: Collection[uuid.UUID]) -> "_Conditions":
        """As a list that is looked up: a comparison with each of thousands would be made for each row."""
        if not ids:
            return self
        passed, parameters = columns_as_table("passed", {"id": "uuid"}, [list(ids)])
        return self.joined_by(f"id NOT IN (SELECT passed.id FROM {passed})", parameters)

    def ask(self, statement: str, **limits: int) -> list[tuple[Any, ...]]:
        with prepared.cursor() as cursor:
            cursor.execute(statement.format(those=self.text, **limits), as_parameters(self.parameters))
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows
