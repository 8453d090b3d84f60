"""Jobs as a large installation has them: most with a schedule, most schedules at the hours that people choose.

Three quarters are CRON, in a handful of zones and piled up at midnight and at each full hour; others are intervals,
single fires, or run only when asked. Some are PAUSED, COMPLETED or ARCHIVED, some call a URL. Written by one statement
per table. Invariant: a next fire is the schedule's own, and lies some hours ahead, so that none comes due meanwhile.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from benchmarks.many_executions import QUEUES, TASK, Jobs
from launcher.refusal import Refusal

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Tokyo")
FIRES_FROM, FIRES_WITHIN = timedelta(hours=2), timedelta(hours=22)  # the second for what has no hour of its own
_MIDNIGHT, _HOURLY = "0 0 * * *", "0 * * * *"
_CHOSEN = [_MIDNIGHT] * 14 + [_HOURLY] * 12
_CHOSEN += ["*/5 * * * *", "*/15 * * * *", "30 2 * * *", "0 6 * * 1-5", "0 9 * * mon", "0 0 1 * *", "15 3 * * 0"]
_SPREAD = 24  # as many again that have a minute of their own
_SEED = 0.25

# The first and the last are ACTIVE. Nothing is drawn: what is asked for by number is what is there.
_STORE_JOBS = """
INSERT INTO onbeat_job (
    key, state, task, http, args, kwargs, queue, priority, max_attempts, max_lost, retry, timeout_seconds,
    stop_grace_seconds, keep_result, overlap, max_concurrency, owner, tags,
    paused_reason, paused_by, paused_until, version, created_at, changed_at
)
SELECT
    'bench-' || number, state,
    CASE WHEN calls_url THEN 'onbeat.http' ELSE %(task)s END,
    CASE WHEN calls_url THEN jsonb_build_object('url', 'https://hooks-' || number %% 50 || '.example.com/run') END,
    '[]', jsonb_build_object('message', 'of job ' || number),
    (%(queues)s::text[])[1 + number %% array_length(%(queues)s::text[], 1)],
    CASE number %% 10 WHEN 3 THEN 9 WHEN 7 THEN 1 ELSE 5 END, 3, 3,
    CASE WHEN number %% 4 = 1 THEN '{"backoff": "LINEAR", "initial_seconds": 60}'::jsonb ELSE '{}' END,
    CASE WHEN number %% 3 = 0 THEN 600 END, 30, false,
    CASE WHEN number %% 8 = 5 THEN 'SKIP' ELSE 'ALLOW' END, CASE WHEN number %% 8 = 5 THEN 1 END,
    'team-' || number %% 12,
    CASE number %% 3 WHEN 0 THEN '[]'::jsonb WHEN 1 THEN '["billing"]' ELSE '["mail", "customer"]' END,
    CASE WHEN state = 'PAUSED' THEN 'the partner is down until further notice' ELSE '' END,
    CASE WHEN state = 'PAUSED' THEN 'person-' || number %% 30 ELSE '' END,
    CASE WHEN state = 'PAUSED' AND number %% 200 > 100 THEN %(now)s + interval '9 days' END,
    CASE WHEN state = 'ACTIVE' THEN 1 ELSE 2 END,
    %(now)s - interval '150 days' + interval '1 minute' * (number %% 1000),
    CASE WHEN state = 'ACTIVE' THEN %(now)s - interval '150 days' + interval '1 minute' * (number %% 1000)
        ELSE %(now)s - interval '1 minute' * (number %% 40000) END
FROM (
    SELECT number, number %% 19 = 6 AS calls_url,
        CASE WHEN number %% 100 BETWEEN 11 AND 14 THEN 'PAUSED' WHEN number %% 100 BETWEEN 15 AND 16 THEN 'COMPLETED'
            WHEN number %% 100 BETWEEN 17 AND 19 THEN 'ARCHIVED' ELSE 'ACTIVE' END AS state
    FROM generate_series(0, %(count)s - 1) AS number
) AS numbered
ORDER BY number
"""

# Of nineteen in a row 14 are CRON, 3 EVERY, 1 ONCE and 1 has no schedule.
_STORE_SCHEDULES = """
INSERT INTO onbeat_schedule (
    job_id, kind, expression, timezone, anchor_at, misfire_grace_seconds, misfire, misfire_limit, jitter_seconds,
    is_active, next_fire_at, version
)
SELECT
    job.id, kind,
    CASE kind WHEN 'CRON' THEN cron.expression WHEN 'EVERY' THEN seconds::text
        ELSE to_char(earliest AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"') END,
    CASE WHEN kind = 'CRON' THEN cron.timezone ELSE 'UTC' END,
    CASE WHEN kind = 'EVERY' THEN anchor_at END,
    60, 'FIRE_ONCE', 100, CASE WHEN number %% 6 = 4 THEN 120 ELSE 0 END,
    state = 'ACTIVE',
    CASE WHEN state IN ('COMPLETED', 'ARCHIVED') THEN NULL WHEN kind = 'CRON' THEN cron.fire_at
        WHEN kind = 'ONCE' THEN earliest
        ELSE anchor_at + interval '1 s' * seconds * ceil(extract(epoch FROM earliest - anchor_at) / seconds) END,
    1
FROM (
    SELECT number,
        CASE WHEN number %% 19 < 14 THEN 'CRON' WHEN number %% 19 < 17 THEN 'EVERY' ELSE 'ONCE' END AS kind,
        1 + floor(array_length(%(expressions)s::text[], 1) * random())::int AS place,
        (ARRAY[60, 300, 900, 3600, 86400])[1 + floor(5 * random())::int] AS seconds,
        date_trunc('second', %(now)s - interval '1 s' * floor(2592000 * random())) AS anchor_at,
        date_trunc('second', %(from)s + %(within)s * random()) AS earliest
    FROM generate_series(0, %(count)s - 1) AS number
    WHERE number %% 19 < 18
) AS drawn
JOIN onbeat_job AS job ON job.id = %(first_id)s + number
JOIN unnest(%(expressions)s::text[], %(zones)s::text[], %(fires)s::timestamptz[]) WITH ORDINALITY
    AS cron (expression, timezone, fire_at, place) ON cron.place = drawn.place
"""

# As `stored_definition` of jobs/specification.py keeps them.
_STORE_VERSIONS = """
INSERT INTO onbeat_job_version (job_id, version, change, definition, changed_at, changed_by, through, note)
SELECT
    job.id, made.version, CASE made.version WHEN 1 THEN 'CREATED' ELSE job.state END,
    to_jsonb(job) - '{id,state,paused_reason,paused_by,paused_until,version,created_at,changed_at}'::text[]
        || jsonb_build_object(
            'schedule', to_jsonb(schedule) - '{job_id,fires_left,is_active,next_fire_at,version}'::text[]
        ),
    CASE made.version WHEN 1 THEN job.created_at ELSE job.changed_at END,
    CASE job.state WHEN 'COMPLETED' THEN '' ELSE 'person-' || job.id %% 30 END,
    CASE WHEN made.version = 2 AND job.state = 'COMPLETED' THEN 'beat' ELSE 'rest' END,
    CASE made.version WHEN 1 THEN '' ELSE job.paused_reason END
FROM onbeat_job AS job
LEFT JOIN onbeat_schedule AS schedule ON schedule.job_id = job.id
CROSS JOIN LATERAL generate_series(1, job.version) AS made (version)
WHERE job.id >= %(first_id)s
"""


@dataclass(frozen=True)
class Pattern:
    expression: str
    timezone: str
    fire_at: datetime


def patterns(now: datetime) -> Iterator[Pattern]:
    """What the schedules choose from, with equal chances, and when each fires next after the hours that stay quiet."""
    from jobs.recurrence import shared_cron

    own = [f"{(number * 7 + 1) % 60} {number % 24} * * *" for number in range(_SPREAD)]
    for timezone in ZONES:
        for expression in [*_CHOSEN, *own]:
            fire_at = shared_cron(expression, timezone, "").next_after(now + FIRES_FROM)
            assert fire_at is not None  # each of them fires at least once a month
            yield Pattern(expression, timezone, fire_at)


def jobs_for(schedules: int) -> int:
    """How many jobs there have to be for so many schedules, one or more: every nineteenth has none."""
    return schedules + (schedules - 1) // 18


def store(count: int, *, now: datetime) -> Jobs:
    """So many jobs with their schedules and their history."""
    from django.db import connection, transaction
    from django.db.models import Max, Min

    from jobs.models import Job

    choice = list(patterns(now))
    given: dict[str, Any] = {
        "count": count,
        "now": now,
        "task": TASK,
        "queues": list(QUEUES),
        "from": now + FIRES_FROM,
        "within": FIRES_WITHIN,
        "expressions": [pattern.expression for pattern in choice],
        "zones": [pattern.timezone for pattern in choice],
        "fires": [pattern.fire_at for pattern in choice],
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT setseed(%s)", [_SEED])
        cursor.execute(_STORE_JOBS, given)
        ids = Job.objects.aggregate(first=Min("pk"), last=Max("pk"))
        if ids["last"] - ids["first"] != count - 1:
            raise Refusal(f"The ids of {count:,} jobs are not in a row: is this database new?")
        given["first_id"] = ids["first"]
        cursor.execute(_STORE_SCHEDULES, given)
        cursor.execute(_STORE_VERSIONS, given)
    return Jobs(ids["first"], count)
