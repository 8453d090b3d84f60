"""The latest executions of many jobs at once.

Owns this one question. Invariant: one statement, whatever the number of jobs; each job costs as many rows as are shown
of it, found by the index on its fire times.
"""

import json
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection

# A subquery per job, which the ORM cannot say with a limit of its own and several columns.
_OF_JOBS = """
SELECT job.id, (
    SELECT {together}({row}(latest.id, latest.state, latest.fire_time, latest.started_at, latest.finished_at,
        latest.attempt, latest.reason))
    FROM (
        SELECT id, state, fire_time, started_at, finished_at, attempt, reason FROM onbeat_execution
        WHERE job_id = job.id AND fire_time <= %s ORDER BY fire_time DESC LIMIT %s
    ) AS latest
) FROM onbeat_job AS job WHERE job.id IN ({ids})
"""
_FUNCTIONS = {
    "postgresql": {"together": "json_agg", "row": "json_build_array"},
    "sqlite": {"together": "json_group_array", "row": "json_array"},
}


@dataclass(frozen=True)
class Recent:
    id: uuid.UUID
    state: str
    fire_time: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    reason: str

    @property
    def seconds(self) -> float | None:
        """How long its last attempt ran."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


def of_jobs(job_ids: Collection[int], *, count: int, now: datetime) -> dict[int, list[Recent]]:
    """Of each job those whose time has come, the latest first. A job without any is left out."""
    if not job_ids:
        return {}
    ids = ", ".join(["%s"] * len(job_ids))
    with connection.cursor() as cursor:
        cursor.execute(_OF_JOBS.format(ids=ids, **_FUNCTIONS[connection.vendor]), [now, count, *job_ids])
        found = cursor.fetchall()
    return {job_id: [_recent(row) for row in rows] for job_id, raw in found if (rows := _rows(raw))}


def _rows(rows: Any) -> list[Any]:
    """Of none PostgreSQL makes nothing, and SQLite an empty list."""
    rows = json.loads(rows) if isinstance(rows, str) else rows or []
    return sorted(rows, key=lambda row: str(row[2]), reverse=True)


def _recent(row: list[Any]) -> Recent:
    pk, state, fire_time, started_at, finished_at, attempt, reason = row
    fired_at = _moment(fire_time)
    assert fired_at is not None
    return Recent(uuid.UUID(pk), state, fired_at, _moment(started_at), _moment(finished_at), attempt, reason)


def _moment(text: str | None) -> datetime | None:
    """PostgreSQL writes the offset; SQLite keeps UTC without saying so."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
