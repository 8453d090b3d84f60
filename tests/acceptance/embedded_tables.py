"""What the SQLite of an embedded platform holds, as the chaos harness reads it from PostgreSQL: with SQL of its own."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from chaos.evidence import Attempt, Row, Tables, Version
from tests.platform import Platform

_ROWS = """
SELECT e.id, j.key, e.fire_time, e.trigger, e.state, e.attempt, e.lost, e.reason, e.available_at, e.queued_at,
       e.cancel_requested_at, e.skipped_until, e.result, e.run_key, e.error, e.finished_at
FROM onbeat_execution e JOIN onbeat_job j ON j.id = e.job_id ORDER BY e.fire_time, e.id
"""
_VERSIONS = """
SELECT j.key, v.version, v.change, v.changed_at, json_extract(v.definition, '$.schedule')
FROM onbeat_job_version v JOIN onbeat_job j ON j.id = v.job_id ORDER BY j.key, v.version
"""


def tables_of(side: Platform) -> Tables:
    attempts = side.rows("SELECT execution_id, number, outcome, started_at, finished_at FROM onbeat_attempt")
    limits = side.rows("SELECT key, max_concurrency FROM onbeat_job WHERE max_concurrency IS NOT NULL")
    return Tables(
        rows=[_row(*values) for values in side.rows(_ROWS)],
        attempts=[
            Attempt(str(uuid_of(pk)), number, outcome, moment_of(start), moment_of(end))
            for pk, number, outcome, start, end in attempts
        ],
        versions=[
            Version(job, number, change, moment_of(at), json.loads(schedule) if schedule else None)
            for job, number, change, at, schedule in side.rows(_VERSIONS)
        ],
        limits=dict(limits),
    )


def _row(*values: Any) -> Row:
    pk, job, fire_time, trigger, state, attempt, lost, reason, *moments, result, run_key, error, finished = values
    available, *others = (moment_of(each) if each else None for each in (*moments, finished))
    assert available is not None
    queued_at, cancel_requested_at, skipped_until, finished_at = others
    return Row(
        id=str(uuid_of(pk)),
        job=job,
        fire_time=moment_of(fire_time),
        trigger=trigger,
        state=state,
        attempt=attempt,
        lost=lost,
        reason=reason,
        available_at=available,
        queued_at=queued_at,
        cancel_requested_at=cancel_requested_at,
        skipped_until=skipped_until,
        result=json.loads(result) if result else None,
        mark="",
        run_key=run_key,
        error=error,
        finished_at=finished_at,
    )


def uuid_of(stored: Any) -> UUID:
    return stored if isinstance(stored, UUID) else UUID(stored)


def moment_of(stored: Any) -> datetime:
    return stored if isinstance(stored, datetime) else datetime.fromisoformat(stored).replace(tzinfo=UTC)
