"""What a beat has stored that is not due: jobs with schedules, and months of executions; filled, or as it was kept."""

import time

from benchmarks import due_schedules, large_installation, many_executions, many_jobs
from benchmarks.stage import Stage
from launcher.progress import step
from launcher.refusal import Refusal

# What was kept for a day is due by now. A day later is right for most of them, and none of them fires.
_PUT_OFF = """
UPDATE {table} SET {column} = {column} + interval '1 day' * ceil(extract(epoch FROM %(from)s - {column}) / 86400)
WHERE {condition} AND {column} < %(from)s
"""


def fill_or_renew(stage: Stage, schedules: int, executions: int, *, keeps: bool) -> float | None:
    """Seconds to fill it; None if that was done before."""
    if stage.is_database_kept:
        with step(print, "Putting off what is due by now"):
            _renew()
        return None
    if executions and not schedules:
        raise Refusal("All schedules are due, and none is left to have a past: ask for more with --schedules.")
    started = time.monotonic()
    fill(schedules, executions)
    seconds = round(time.monotonic() - started, 1)
    if keeps:
        stage.keep_database()
    return seconds


def fill(schedules: int, executions: int) -> None:
    """Schedules that are due in some hours, and what ran; into a new database."""
    from django.db import connection

    from executions.clock import database_now

    now = database_now()
    if schedules:
        with step(print, f"Storing {schedules:,} schedules that are not due"):
            jobs = many_jobs.store(many_jobs.jobs_for(schedules), now=now)
        if executions:
            many_executions.store(executions, jobs, now=now)
            large_installation.store_attempts()
    with step(print, "Letting the database look at all of it"), connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _renew() -> None:
    """As when it was filled, but for the executions of what was measured on it."""
    from django.db import connection

    from executions.clock import database_now

    given = {"from": database_now() + many_jobs.FIRES_FROM}
    due_schedules.forget()
    with connection.cursor() as cursor:
        for table, column, condition in (
            ("onbeat_schedule", "next_fire_at", "is_active"),
            ("onbeat_execution", "available_at", "state = 'SCHEDULED'"),
        ):
            cursor.execute(_PUT_OFF.format(table=table, column=column, condition=condition), given)
        cursor.execute("VACUUM FULL onbeat_schedule")  # without the room that its rows have left
        cursor.execute("VACUUM ANALYZE")
