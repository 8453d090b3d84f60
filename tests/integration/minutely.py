"""A job that fires every minute, and its rows told in minutes after it was made."""

from datetime import datetime, timedelta
from typing import Any

from executions import lifecycle
from executions.models import Execution
from executions.states import State
from jobs.models import Job, Schedule
from tests import rows
from tests.making import a_job, every_minute

Told = tuple[int, int | None, int | None, str]  # first, last, number, state


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def a_minutely_job(noon: datetime, **more: Any) -> Job:
    return a_job(now=noon, schedule=every_minute(noon), **more)


def skipped(job: Job, first: datetime, last: datetime, count: int | None) -> Execution:
    """The row of a stretch."""
    row = job.new_skipped_row(first, last, count, reason="misfire: no beat", now=last)
    lifecycle.record_skipped([row], now=last)
    return row


def go_on_from(job: Job, moment: datetime) -> None:
    """As if beats had planned, or told as skipped, all fires before."""
    Schedule.objects.filter(job=job).update(next_fire_at=moment)


def told(job: Job) -> list[Told]:
    return [
        (
            round((row.fire_time - job.created_at) / minutes(1)),
            round((row.skipped_until - job.created_at) / minutes(1)) if row.skipped_until else None,
            row.skipped_count,
            row.state,
        )
        for row in rows.of(job)
    ]


def as_told(*expected: int | tuple[int, int, int | None]) -> list[Told]:
    """A number is a fire that is to run, and a triple a stretch that was skipped: first, last, number."""
    return [
        (each, None, None, State.SCHEDULED) if isinstance(each, int) else (*each, State.SKIPPED) for each in expected
    ]
