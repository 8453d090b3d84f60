"""Rows for tests, made through the product's own functions where there is one."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from beat.lease import Leases
from beat.planning import Planner
from executions import lifecycle
from executions.models import Execution
from executions.outcomes import Claim
from executions.retry import RetryPolicy
from executions.states import Trigger
from jobs import definitions
from jobs.models import Job
from jobs.recurrence import Cron, Every, Once, Within


def a_job(
    *,
    now: datetime,
    key: str = "",
    schedule: Cron | Every | Once | Within | None = None,
    task: str = "onbeat.echo",
    max_attempts: int | None = None,
    **more: Any,
) -> Job:
    key = key or f"job-{uuid.uuid4().hex[:8]}"
    if max_attempts is not None:
        more["retry"] = RetryPolicy(max_attempts=max_attempts)
    return definitions.create(key=key, task=task, schedule=schedule, now=now, **more)


def every_minute(anchor: datetime) -> Every:
    return Every(seconds=60, anchor=anchor)


def planned(job: Job, fire_time: datetime) -> Execution:
    """The SCHEDULED execution of one fire."""
    execution = job.new_execution(fire_time, trigger=Trigger.SCHEDULE, now=fire_time)
    lifecycle.plan([execution])
    return Execution.objects.get(pk=execution.pk)


def claimed(execution: Execution, *, now: datetime, worker: str = "worker@here") -> Claim:
    claim = lifecycle.claim(execution.pk, execution.attempt, worker=worker, now=now)
    assert isinstance(claim, Claim)
    return claim


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def asked_for(job: Job, count: int, *, now: datetime) -> list[Execution]:
    """SCHEDULED runs that somebody asked for, a second apart, the first one due now."""
    rows = [job.new_execution(now + seconds(n), trigger=Trigger.DELAYED, now=now) for n in range(count)]
    lifecycle.plan(rows)
    return rows


def a_planner(name: str = "me", *, batch_size: int = 100) -> Planner:
    """One without leases: the database alone has to be right."""
    alone = Leases(url="", prefix="", holder=name, life=seconds(10))
    return Planner(alone, look_ahead=seconds(5), batch_size=batch_size)
