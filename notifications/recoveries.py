"""Which jobs in trouble have succeeded since.

Owns the question. Invariant: it costs the same however often a job runs: looked at are the execution that went wrong
last, those of the fires right after it, and the newest ones.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from executions import value_lists
from executions.models import Execution
from notifications.models import Trouble

_LOOKED_AT = 100  # at each end
_KINDS = {"job_id": "bigint", "execution_id": "uuid", "fire_time": "timestamptz", "last_at": "timestamptz"}
# Django can neither limit a subquery per row nor join a list of values.
_WITHIN = """
(SELECT around.id FROM (
    SELECT id, state, finished_at FROM onbeat_execution AS one
    WHERE one.job_id = given.job_id AND one.fire_time >= given.fire_time AND one.fire_time <= %s
    ORDER BY one.fire_time {order} LIMIT {most}
) AS around WHERE around.state = 'SUCCEEDED' AND around.finished_at > given.last_at LIMIT 1)
"""
_SUCCEEDED = f"""
SELECT given.job_id, coalesce(
    (SELECT own.id FROM onbeat_execution AS own WHERE own.id = given.execution_id AND own.fire_time = given.fire_time
     AND own.state = 'SUCCEEDED' AND own.finished_at > given.last_at),
    {_WITHIN.format(order="ASC", most=_LOOKED_AT)},
    {_WITHIN.format(order="DESC", most=_LOOKED_AT)}
) FROM {{given}}
"""


@dataclass(frozen=True)
class Success:
    execution_id: UUID
    attempt: int
    at: datetime


def since(troubles: Collection[Trouble], *, now: datetime) -> Mapping[int, Success]:
    """By job, an execution that succeeded after the last thing that went wrong in these."""
    last: dict[int, Trouble] = {}
    for trouble in troubles:
        if trouble.job_id not in last or trouble.last_at > last[trouble.job_id].last_at:
            last[trouble.job_id] = trouble
    if not last:
        return {}
    rows = [(t.job_id, t.execution_id, t.fire_time, t.last_at) for t in last.values()]
    given, parameters = value_lists.table("given", _KINDS, rows)
    moment = value_lists.as_parameters([now])
    with connection.cursor() as cursor:
        cursor.execute(_SUCCEEDED.format(given=given), [*moment, *moment, *parameters])
        found = {job_id: _id(execution_id) for job_id, execution_id in cursor.fetchall() if execution_id is not None}
    if not found:
        return {}
    read = Execution.objects.with_ids(list(found.values())).values_list("pk", "attempt", "finished_at")
    ended = {pk: Success(pk, attempt, at) for pk, attempt, at in read if at is not None}
    return {job_id: ended[pk] for job_id, pk in found.items() if pk in ended}


def _id(value: UUID | str) -> UUID:
    """SQLite has it as text."""
    return value if isinstance(value, UUID) else UUID(value)
