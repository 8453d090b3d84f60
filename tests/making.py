"""Rows for tests, made through the product's own functions where there is one."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from beat.heartbeat import Progress
from beat.lease import Leases
from beat.planning import Planner
from beat.shards import Shards
from beat.tick import Ticker
from executions import lifecycle, outbox
from executions.confirms import Confirms, Report
from executions.dispatch import Publisher, Sent
from executions.models import Execution
from executions.outcomes import Claim
from executions.outgoing import Outgoing
from executions.redis_link import RedisLink
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


def outgoing(*executions: Execution) -> list[Outgoing]:
    """As a beat reads them from the outbox, in this order."""
    read = {row.pk: row for row in outbox.outgoing([row.pk for row in executions])}
    return [read[execution.pk] for execution in executions]


def an_outgoing(**more: Any) -> Outgoing:
    """One that is stored nowhere."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    facts = {"pk": uuid.uuid4(), "attempt": 1, "job_key": "job", "trigger": "SCHEDULE", "request_id": ""}
    facts |= {"fire_time": epoch, "available_at": epoch, "is_waiting": False, "queue": "default", "priority": 5}
    facts |= {"timeout_seconds": None, "stop_grace_seconds": 30, "keep_result": False}
    return Outgoing(**{**facts, "task": "onbeat.echo", "args": "[]", "kwargs": "{}", **more})


def claimed(execution: Execution, *, now: datetime, worker: str = "worker@here") -> Claim:
    claim = lifecycle.claim(execution.pk, execution.attempt, worker=worker, now=now)
    assert isinstance(claim, Claim)
    return claim


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def succeeded(job: Job, moment: datetime, *, after: float = 0, ran: float = 0) -> Execution:
    """One that began so many seconds after it was due, and ran for so many."""
    row = planned(job, moment)
    start = moment + seconds(after)
    lifecycle.succeed(claimed(row, now=start), result=None, now=start + seconds(ran))
    return row


def given_up(job: Job, moment: datetime, *, error: str) -> Execution:
    """A fire that failed three times, a second apart, of a job that allows no more. The error may name its attempt."""
    row = planned(job, moment)
    for attempt in (1, 2, 3):
        claim = lifecycle.claim(row.pk, attempt, worker="worker@here", now=moment + seconds(attempt))
        assert isinstance(claim, Claim)
        lifecycle.fail(claim, error=error.format(attempt=attempt), now=moment + seconds(attempt + 0.5))
    return Execution.objects.get(pk=row.pk)


def asked_for(job: Job, count: int, *, now: datetime) -> list[Execution]:
    """SCHEDULED runs that somebody asked for, a second apart, the first one due now."""
    rows = [job.new_execution(now + seconds(n), trigger=Trigger.DELAYED, now=now) for n in range(count)]
    lifecycle.plan(rows)
    return rows


def no_leases(name: str = "me") -> Leases:
    """Without Redis: the database alone has to be right."""
    return Leases(RedisLink("", prefix=""), holder=name, life=seconds(10))


def a_planner(name: str = "me", *, batch_size: int = 100) -> Planner:
    return Planner(no_leases(name), look_ahead=seconds(5), batch_size=batch_size)


class AnsweringPublisher(Publisher):
    """Answers by itself, for a test in which the broker is not what is tried."""

    def answer(self, executions: Sequence[Outgoing]) -> Report:
        return Report(confirmed=list(executions))

    def send(self, executions: Sequence[Outgoing]) -> Sent:
        return Sent(Confirms([]), ahead=self.answer(executions))

    def settle(self, sent: Sent) -> Report:
        return sent.ahead


def a_ticker(publisher: Publisher, *, batch_size: int = 100) -> Ticker:
    """The tick of a beat that is alone, without the process around it."""
    return Ticker(
        planner=a_planner(batch_size=batch_size),
        leases=no_leases(),
        publisher=publisher,
        batch_size=batch_size,
        shards=Shards("me", linger=seconds(10)),
        progress=Progress(stuck_after_seconds=10),
    )
