"""A table of executions as a busy installation has it after some months: mostly good ends, most of them of few jobs.

Written by one statement per month, straight into the partitions. The same seed gives the same rows, but for the moment
at which they end: now. Ids carry their fire time, as `executions/identity.py` says.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from launcher.progress import step
from launcher.refusal import Refusal

JOBS = 500
MONTHS_BACK = 4
QUEUES = ("default", "default", "default", "mail", "reports")  # of the jobs, in turn
TASK = "onbeat.echo"
LARGE_JOB, SMALL_JOB = "bench-0", f"bench-{JOBS - 1}"  # 21 % of the rows, and one row in 50,000
COMMON_WORKER, RARE_WORKER = "onbeat-0@crew", "onbeat-rare@crew"  # one in 20 rows, and one in 100,000
FINGERPRINTS = 200  # the first with a sixth of what is DEAD, the last with a six-hundredth
_SCHEDULED_PERCENT = 1
_SCHEDULED_FROM, _SCHEDULED_DAYS = timedelta(hours=2), 60  # so that none becomes due meanwhile
_SEED = 0.5
# For the processes of a stage: what is some months old stays, however long the months are kept elsewhere.
KEEPS_ALL = {"ONBEAT_EXECUTIONS_RETENTION_DAYS": "36600", "ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS": "36600"}

# Random values are drawn once per row in the inner query. The power makes few jobs have most of the rows.
_INSERT = """
INSERT INTO onbeat_execution (
    id, fire_time, available_at, created_at, queued_at, started_at, heartbeat_at, finished_at,
    job_id, task, args, kwargs, queue, priority, max_attempts, max_lost,
    trigger, state, reason, worker, error, fingerprint, result,
    run_key, attempt, lost, is_waiting, handled_note
)
SELECT
    (lpad(to_hex(stamp), 12, '0') || '7' || substr(noise, 1, 3) || '8' || substr(noise, 4, 15))::uuid,
    fire_time, fire_time, fire_time - interval '5 s',
    CASE WHEN has_run THEN fire_time + interval '20 ms' END,
    CASE WHEN has_run THEN fire_time + interval '40 ms' END,
    CASE WHEN has_run THEN fire_time + interval '40 ms' END,
    CASE WHEN became <> 'SCHEDULED' THEN fire_time + interval '3 s' * duration END,
    job.id, job.task, job.args, job.kwargs, job.queue, job.priority, job.max_attempts, job.max_lost,
    CASE WHEN became = 'SCHEDULED' THEN 'DELAYED' WHEN trigger_dice < 0.90 THEN 'SCHEDULE'
        WHEN trigger_dice < 0.95 THEN 'DELAYED' WHEN trigger_dice < 0.98 THEN 'MANUAL'
        WHEN trigger_dice < 0.99 THEN 'REPLAY' ELSE 'BACKFILL' END,
    became,
    CASE became WHEN 'SKIPPED' THEN 'overlap: the run before goes on' WHEN 'CANCELLED' THEN 'cancelled' ELSE '' END,
    CASE WHEN NOT has_run THEN '' WHEN number %% 100000 = 7 THEN %(rare_worker)s
        ELSE 'onbeat-' || floor(20 * worker_dice) || '@crew' END,
    CASE WHEN became = 'DEAD' THEN repeat('  File "/app/tasks.py", line 12, in run\n', 8) || 'ConnectionError: ' || kind
        ELSE '' END,
    CASE WHEN became = 'DEAD' THEN left(md5('error ' || kind), 16) ELSE '' END,
    CASE WHEN became = 'SUCCEEDED' THEN '"done"'::jsonb END,
    '', CASE WHEN became = 'DEAD' THEN 3 ELSE 1 END, 0, false, ''
FROM (
    SELECT *, to_timestamp(stamp / 1000.0) AS fire_time, became IN ('SUCCEEDED', 'DEAD') AS has_run
    FROM (
        SELECT number,
            (%(first)s + (number * %(step)s)::bigint) AS stamp,
            md5(number || ' of ' || %(first)s) AS noise,
            CASE WHEN number %% 50000 = 3 THEN %(jobs)s - 1
                ELSE floor((%(jobs)s - 1) * power(random(), %(steepness)s))::int END AS job_number,
            CASE WHEN %(is_future)s THEN 'SCHEDULED' ELSE (ARRAY['DEAD', 'SKIPPED', 'SKIPPED', 'CANCELLED'])[
                1 + floor(100 * random())::int] END AS unusual,
            floor(%(fingerprints)s * power(random(), 3))::int AS kind,
            random() AS trigger_dice, random() AS worker_dice, random() AS duration
        FROM generate_series(0, %(count)s - 1) AS number
    ) AS drawn CROSS JOIN LATERAL (SELECT coalesce(unusual, 'SUCCEEDED') AS became) AS ended
) AS fire
JOIN onbeat_job AS job ON job.id = %(first_job)s + job_number
"""


# The latest that ran, half of them queued and half of them running, as if nobody had finished them.
_OPEN = """
UPDATE onbeat_execution AS execution
SET state = CASE WHEN is_running THEN 'RUNNING' ELSE 'QUEUED' END,
    started_at = CASE WHEN is_running THEN started_at END,
    heartbeat_at = CASE WHEN is_running THEN now() END,
    worker = CASE WHEN is_running THEN worker ELSE '' END,
    finished_at = NULL, result = NULL
FROM (
    SELECT id, fire_time, row_number() OVER (ORDER BY id DESC) % 2 = 0 AS is_running FROM onbeat_execution
    WHERE state = 'SUCCEEDED' AND fire_time > now() - interval '1 day' ORDER BY id DESC LIMIT {limit}
) AS latest
WHERE execution.id = latest.id AND execution.fire_time = latest.fire_time
"""


@dataclass(frozen=True)
class Jobs:
    """Whose executions these are: so many with ids in a row, called `bench-0` and on."""

    first_id: int
    count: int

    @property
    def steepness(self) -> float:
        """By which the first of them has a fifth of the rows, however many they are."""
        return 4 * math.log(max(self.count - 1, 2)) / math.log(JOBS - 1)


@dataclass(frozen=True)
class Part:
    """A stretch of time within one month, and how many fire in it."""

    start: datetime
    end: datetime
    count: int
    is_future: bool = False


def fill(rows: int, *, now: datetime) -> None:
    """Store so many executions and their jobs, and let the database look at them."""
    from django.db import connection

    store(rows, _store_jobs(now), now=now)
    with step(print, "Letting the database look at them"), connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE onbeat_job, onbeat_execution")


def store(rows: int, jobs: Jobs, *, now: datetime) -> None:
    """Executions of jobs that are there."""
    for part in parts(rows, now=now):
        with step(print, f"Storing {part.count:,} executions of {part.start:%B %Y}"):
            _store(part, jobs)
    _see_that_they_are_as_ours(rows)


def leave_open(count: int) -> None:
    """Let so many of the latest wait in queues or run. Not while a worker or a beat could mind."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(_OPEN.format(limit=count))
        cursor.execute("ANALYZE onbeat_execution")


def _see_that_they_are_as_ours(rows: int) -> None:
    from executions.identity import fire_time_of
    from executions.models import Execution

    stored = Execution.objects.count()
    ends = [*Execution.objects.order_by("pk")[:20], *Execution.objects.order_by("-pk")[:20]]
    if stored != rows or any(fire_time_of(row.pk) != row.fire_time for row in ends):
        raise Refusal(f"{rows:,} executions became {stored:,}, or their ids are not as ours: no figure is worth that.")


def parts(rows: int, *, now: datetime) -> list[Part]:
    """What has fired, evenly since the start of a month; and a hundredth that waits for its time, ahead of now."""
    from executions.partitions import Month

    ahead = rows * _SCHEDULED_PERCENT // 100
    start = Month.of(now)
    for _ in range(MONTHS_BACK):
        start = Month.of(start.start - timedelta(days=1))
    future = now + _SCHEDULED_FROM
    past = _shared(rows - ahead, list(_within_months(start.start, now)))
    coming = _shared(ahead, list(_within_months(future, future + timedelta(days=_SCHEDULED_DAYS))))
    return [Part(*stretch, count) for stretch, count in past if count] + [
        Part(*stretch, count, is_future=True) for stretch, count in coming if count
    ]


_Stretch = tuple[datetime, datetime]


def _within_months(start: datetime, end: datetime) -> Iterator[_Stretch]:
    from executions.partitions import Month

    while start < end:
        until = min(end, Month.of(start).following.start)
        yield start, until
        start = until


def _shared(rows: int, stretches: Sequence[_Stretch]) -> list[tuple[_Stretch, int]]:
    """By their length; the last one has what is left."""
    whole = stretches[-1][1] - stretches[0][0]
    counts = [int(rows * ((end - start) / whole)) for start, end in stretches]
    counts[-1] = rows - sum(counts[:-1])
    return list(zip(stretches, counts, strict=True))


def _store_jobs(now: datetime) -> Jobs:
    from jobs.models import Job

    jobs = Job.objects.bulk_create(
        Job(
            key=f"bench-{number}",
            task=TASK,
            queue=QUEUES[number % len(QUEUES)],
            kwargs={"message": f"of job {number}"},
            created_at=now,
            changed_at=now,
        )
        for number in range(JOBS)
    )
    return Jobs(int(jobs[0].pk), JOBS)


def _store(part: Part, jobs: Jobs) -> None:
    from django.db import connection, transaction

    from executions import partitions
    from executions.identity import milliseconds

    partitions.make(partitions.months_of([part.start]))
    first = milliseconds(part.start) + 1  # the start itself may lie within a millisecond
    given: dict[str, Any] = {
        "first": first,
        "step": (milliseconds(part.end) - first) / part.count,
        "count": part.count,
        "is_future": part.is_future,
        "jobs": jobs.count,
        "first_job": jobs.first_id,
        "steepness": jobs.steepness,
        "fingerprints": FINGERPRINTS,
        "rare_worker": RARE_WORKER,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT setseed(%s)", [_SEED])
        cursor.execute(_INSERT, given)


def fingerprint(kind: int) -> str:
    """Of the errors of one kind, as the statement above makes it."""
    import hashlib

    return hashlib.md5(f"error {kind}".encode(), usedforsecurity=False).hexdigest()[:16]
