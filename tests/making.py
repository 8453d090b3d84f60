"""Rows for tests, made through the product's own functions where there is one."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from executions import lifecycle
from executions.identity import new_execution_id
from executions.models import Execution
from executions.states import Trigger
from jobs import definitions
from jobs.models import Job
from jobs.recurrence import Cron, Every, Once


def a_job(
    *, now: datetime, key: str = "", schedule: Cron | Every | Once | None = None, task: str = "onbeat.echo", **more: Any
) -> Job:
    key = key or f"job-{uuid.uuid4().hex[:8]}"
    return definitions.create(key=key, task=task, schedule=schedule, now=now, **more)


def every_minute(anchor: datetime) -> Every:
    return Every(seconds=60, anchor=anchor)


def planned(job: Job, fire_time: datetime, **more: Any) -> Execution:
    """The SCHEDULED execution of one fire."""
    execution = Execution(
        id=new_execution_id(fire_time),
        job=job,
        fire_time=fire_time,
        trigger=Trigger.SCHEDULE,
        task=job.task,
        args=job.args,
        kwargs=job.kwargs,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        available_at=fire_time,
        created_at=fire_time,
        **more,
    )
    lifecycle.plan([execution])
    return Execution.objects.get(pk=execution.pk)


def claimed(execution: Execution, *, now: datetime, worker: str = "worker@here") -> lifecycle.Claim:
    claim = lifecycle.claim(execution.pk, execution.attempt, worker=worker, now=now)
    assert claim is not None
    return claim


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)
