"""All that is known at the end of a run, as plain values: the platform's rows, the ledger, the journal, the copies.

Read once, with SQL of the harness's own, when everything is over. What the judge says depends on nothing else.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from chaos import ledger
from chaos.forgotten import Stretch, remembered
from chaos.journal import Entry
from chaos.ledger import Run
from chaos.load import made_at_the_beginning
from chaos.servers import Servers

DRAINED_WITHIN_SECONDS = 60.0


@dataclass(frozen=True)
class Row:
    """An execution."""

    id: str
    job: str
    fire_time: datetime
    trigger: str
    state: str
    attempt: int
    lost: int
    reason: str
    available_at: datetime
    queued_at: datetime | None
    cancel_requested_at: datetime | None
    skipped_until: datetime | None
    result: Any
    mark: str
    run_key: str
    error: str = ""
    finished_at: datetime | None = None


@dataclass(frozen=True)
class Attempt:
    execution: str
    number: int
    outcome: str
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True)
class Version:
    """A job from one change to the next."""

    job: str
    number: int
    change: str
    changed_at: datetime
    schedule: Mapping[str, Any] | None


@dataclass
class Evidence:
    began_at: datetime
    until: datetime  # what was due by then is judged
    rows: Sequence[Row] = ()
    attempts: Sequence[Attempt] = ()
    versions: Sequence[Version] = ()
    runs: Sequence[Run] = ()
    forgotten: int = 0  # runs that are not among them: a crashed PostgreSQL has forgotten their claims
    journal: Sequence[Entry] = ()
    marks: Mapping[tuple[str, int], int] = field(default_factory=Counter)  # how often a row became QUEUED
    copies: Mapping[tuple[str, int], int] = field(default_factory=Counter)  # how often its message was published
    limits: Mapping[str, int] = field(default_factory=dict)  # how many of a job may run at once
    load: Mapping[str, int] = field(default_factory=dict)  # every how many seconds the jobs of the beginning fire
    drained_within: float = DRAINED_WITHIN_SECONDS  # so long after the last fault all had to be over
    drained_after: float | None = 0.0  # seconds from the last fault until all was over; None: nobody waited so long
    findings: Sequence[str] = ()  # what the harness saw while it ran


_ROWS = """
SELECT e.id::text, j.key, e.fire_time, e.trigger, e.state, e.attempt, e.lost, e.reason, e.available_at, e.queued_at,
       e.cancel_requested_at, e.skipped_until, e.result, coalesce(e.kwargs->>'mark', ''), e.run_key, e.error,
       e.finished_at
FROM onbeat_execution e JOIN onbeat_job j ON j.id = e.job_id ORDER BY e.fire_time, e.id
"""
_ATTEMPTS = "SELECT execution_id::text, number, outcome, started_at, finished_at FROM onbeat_attempt"
_VERSIONS = """
SELECT j.key, v.version, v.change, v.changed_at, v.definition->'schedule'
FROM onbeat_job_version v JOIN onbeat_job j ON j.id = v.job_id ORDER BY j.key, v.version
"""
_MARKS = "SELECT execution::text, attempt, count(*) FROM chaos_mark GROUP BY 1, 2"
_LIMITS = "SELECT key, max_concurrency FROM onbeat_job WHERE max_concurrency IS NOT NULL"


@dataclass(frozen=True)
class Tables:
    """What a database of the platform holds."""

    rows: Sequence[Row]
    attempts: Sequence[Attempt]
    versions: Sequence[Version]
    limits: Mapping[str, int]


def tables_of(database: psycopg.Connection) -> Tables:
    def ask(question: str) -> list[tuple[Any, ...]]:
        return database.execute(question.encode()).fetchall()

    return Tables(
        rows=[Row(*values) for values in ask(_ROWS)],
        attempts=[Attempt(*values) for values in ask(_ATTEMPTS)],
        versions=[Version(*values) for values in ask(_VERSIONS)],
        limits=dict(ask(_LIMITS)),
    )


def collect(
    servers: Servers,
    folder: Path,
    *,
    began_at: datetime,
    until: datetime,
    journal: Sequence[Entry],
    copies: Mapping[tuple[str, int], int],
    drained_within: float,
    drained_after: float | None,
    findings: Sequence[str],
    crashes: Sequence[Stretch],
) -> Evidence:
    with servers.database() as database:
        tables = tables_of(database)
        marks = database.execute(_MARKS.encode()).fetchall()
    runs = ledger.read(folder)
    recorded = {(each.execution, each.number): each.started_at.timestamp() for each in tables.attempts}
    kept = remembered(runs, recorded=recorded, limited=tables.limits, crashes=crashes)
    return Evidence(
        began_at=began_at,
        until=until,
        rows=tables.rows,
        attempts=tables.attempts,
        versions=tables.versions,
        runs=kept,
        forgotten=len(runs) - len(kept),
        journal=journal,
        marks=Counter({(execution, attempt): count for execution, attempt, count in marks}),
        copies=copies,
        limits=tables.limits,
        load={job.key: job.step for job in made_at_the_beginning() if job.step is not None},
        drained_within=drained_within,
        drained_after=drained_after,
        findings=findings,
    )


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
