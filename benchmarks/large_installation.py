"""A whole database as a large installation has it: jobs, executions and all that comes with them.

Beside `many_jobs` and `many_executions`: attempts of what is DEAD and of a share of what SUCCEEDED, dead letters of
which most are handled, an audit trail, API keys, beats and workers that live, what they run, and the hourly counts of
two days as the product makes them. Written by few statements. The same seed gives the same rows, but for the moment.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks import many_executions, many_jobs
from benchmarks.many_executions import RARE_WORKER, TASK
from launcher.progress import step

COUNTED_HOURS = 48
_AUDIT_ENTRIES = 200_000
_API_KEYS = 150
_OPEN_ROWS = 400
_BEATS = 3
_WORKERS = 20  # as many as the executions name
_SEED = 0.125

# Three of each that is DEAD, and the one of a tenth of those that SUCCEEDED.
_STORE_ATTEMPTS = """
INSERT INTO onbeat_attempt (execution_id, fire_time, number, outcome, worker, started_at, finished_at, error)
SELECT
    id, fire_time, number,
    CASE WHEN state = 'SUCCEEDED' THEN state WHEN number = 2 THEN 'TIMED_OUT' ELSE 'FAILED' END, worker,
    started_at - interval '1 minute' * (attempt - number), finished_at - interval '1 minute' * (attempt - number), error
FROM onbeat_execution CROSS JOIN LATERAL generate_series(1, attempt) AS number
WHERE state = 'DEAD' OR state = 'SUCCEEDED' AND random() < 0.1
ORDER BY id, number
"""

_HANDLE_DEAD_LETTERS = """
UPDATE onbeat_execution SET handled_at = finished_at + interval '5 hours', handled_note = 'discarded: known outage'
WHERE state = 'DEAD' AND fire_time < %(until)s AND random() < 0.8
"""

_STORE_AUDIT_TRAIL = """
INSERT INTO onbeat_audit_entry (at, who, through, action, subject, before, after, note)
SELECT
    %(now)s - interval '90 days' * (1 - number::float / %(count)s), 'person-' || floor(30 * random()),
    (ARRAY['rest', 'rest', 'rest', 'admin', 'command'])[1 + floor(5 * random())::int],
    action, 'job:bench-' || floor(%(jobs)s * power(random(), 2)),
    CASE WHEN action = 'job.change' THEN '{"priority": 5, "tags": []}'::jsonb END,
    CASE WHEN action = 'job.change' THEN '{"priority": 9, "tags": ["billing"]}'::jsonb END,
    CASE WHEN action = 'job.pause' THEN 'the partner is down until further notice' ELSE '' END
FROM (
    SELECT number, (ARRAY['job.run', 'job.run', 'job.run', 'job.change', 'job.change', 'job.create', 'job.pause',
        'job.resume', 'job.archive', 'job.backfill'])[1 + floor(10 * random())::int] AS action
    FROM generate_series(1, %(count)s) AS number
) AS drawn
ORDER BY number
"""

_STORE_API_KEYS = """
INSERT INTO onbeat_api_key (
    name, prefix, digest, role, created_at, created_by, expires_at, revoked_at, revoked_by, last_used_at
)
SELECT
    'server ' || number, 'bench' || lpad(number::text, 7, '0'), repeat('0', 64),
    (ARRAY['viewer', 'operator', 'editor', 'admin'])[1 + number %% 4],
    %(now)s - interval '1 day' * number, 'person-' || number %% 30,
    CASE WHEN number %% 5 = 0 THEN %(now)s + interval '1 day' * (number - 20) END,
    CASE WHEN number %% 7 = 0 THEN %(now)s - interval '1 hour' * number END,
    CASE WHEN number %% 7 = 0 THEN 'person-1' ELSE '' END,
    CASE WHEN number %% 3 > 0 THEN %(now)s - interval '1 minute' * number END
FROM generate_series(1, %(count)s) AS number
"""


@dataclass(frozen=True)
class Counted:
    """What the product took for the counts of two days."""

    counts: int
    seconds: float


def fill(rows: int, jobs: int, *, now: datetime) -> None:
    """Into a new database, all but what goes stale: that is for `give_signs_of_life` and `count_hours`."""
    from django.db import connection

    with step(print, f"Storing {jobs:,} jobs"):
        there = many_jobs.store(jobs, now=now)
    many_executions.store(rows, there, now=now)
    many_executions.leave_open(_OPEN_ROWS)
    store_attempts()
    with step(print, "Storing what people did"), connection.cursor() as cursor:
        cursor.execute(_HANDLE_DEAD_LETTERS, {"until": now - timedelta(days=2)})
        cursor.execute(_STORE_AUDIT_TRAIL, {"now": now, "count": _AUDIT_ENTRIES, "jobs": jobs})
        cursor.execute(_STORE_API_KEYS, {"now": now, "count": _API_KEYS})
    with step(print, "Letting the database look at all of it"), connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def store_attempts() -> None:
    """Of the executions that are there."""
    from django.db import connection

    with step(print, "Storing attempts"), connection.cursor() as cursor:
        cursor.execute("SELECT setseed(%s)", [_SEED])
        cursor.execute(_STORE_ATTEMPTS)


def give_signs_of_life(now: datetime) -> None:
    """Beats that tick and workers that run what is RUNNING, at this moment; again when some time has passed."""
    from executions.models import Execution

    _sign_on_beats(now)
    _sign_on_workers(now)
    Execution.objects.running().update(heartbeat_at=now)


def _sign_on_beats(now: datetime) -> None:
    from beat.models import Beat
    from beat.shards import COUNT
    from executions.version import VERSION

    for number in range(_BEATS):
        Beat.objects.update_or_create(
            name=f"beat-{number}",
            defaults={
                "host": f"machine-{number}",
                "pid": 100 + number,
                "version": VERSION,
                "started_at": now - timedelta(days=3),
                "ticked_at": now,
                "seen_at": now,
                "shards": (COUNT + number) // _BEATS,
                "lateness_seconds": 0.02,
                "clock_offset_seconds": 0.001,
            },
        )


def _sign_on_workers(now: datetime) -> None:
    """One of them has said nothing for some time."""
    from executions.models import Execution
    from executions.version import VERSION
    from workers.models import Worker

    running: dict[str, list[str]] = {}
    for execution_id, worker in Execution.objects.running().order_by("pk").values_list("pk", "worker"):
        running.setdefault(worker, []).append(str(execution_id))
    names = [f"onbeat-{number}@crew" for number in range(_WORKERS)]
    for name in [*names, RARE_WORKER]:
        Worker.objects.update_or_create(
            name=name,
            defaults={
                "host": "crew",
                "pid": 200 + len(name),
                "pool": "prefork",
                "concurrency": 16,
                "queues": sorted({*many_executions.QUEUES}),
                "tasks": [TASK],
                "version": VERSION,
                "running": running.get(name, []),
                "started_at": now - timedelta(days=3),
                "heartbeat_at": now - timedelta(minutes=30) if name == RARE_WORKER else now,
            },
        )


def count_hours(now: datetime) -> Counted:
    """As the product does it, for two days at once; and let the database look at the counts."""
    from django.db import connection

    from executions import statistics

    started = time.perf_counter()
    with step(print, f"Counting {COUNTED_HOURS} hours"):
        counts = statistics.roll_up(now, hours=COUNTED_HOURS)
    seconds = time.perf_counter() - started
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE onbeat_hourly_count")
    return Counted(counts, round(seconds, 2))
