"""A database with something of everything in it, for tests that go through the whole REST API."""

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from api.jobs import bodies
from api.jobs.examples import ONE_OFF, RECURRING
from beat.models import Beat
from callbacks import completions
from executions import lifecycle, queues, statistics
from executions.fingerprint import of_error
from executions.models import DeadMessage, Execution
from executions.retry import RetryPolicy
from executions.states import Trigger
from jobs import definitions, kept_secrets, runs, upserts
from jobs.models import Job, SecretUse
from notifications import receivers
from tests import ends
from tests.making import a_job, claimed, every_minute, planned
from workers.models import Worker

RUN_KEYS = ["user-123", "a", "order/7"]
DOOMED = ["doomed-1", "doomed-2"]
_NOT_TAKEN = "No worker knows the task 'their.task'."


@dataclass(frozen=True)
class Inhabitants:
    """What there is, by the names that the API has for it."""

    jobs: dict[str, int]  # by key; those of the examples of the documentation among others
    doomed: list[int]  # more of them, for whoever wants to archive one
    executions: dict[str, list[str]]  # of the job "plain", by what became of them
    messages: list[int]
    completion: list[str | int]  # of one whose end is told later: its id, attempt and signature

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def inhabit(now: datetime, *, each: int = 3) -> Inhabitants:
    """Fill a fresh database, with so many executions in each state: who cancels one leaves another."""
    patience = RetryPolicy(give_up_on=("KeyError",), initial_seconds=3600, cap_seconds=3600)
    jobs = [put.job for put in upserts.put([bodies.said(body, now=now) for body in (RECURRING, ONE_OFF)], now=now)]
    plain = a_job(now=now, key="plain", tags=["a"], owner="me", kwargs={"n": 1}, retry=patience)
    plain = definitions.change(plain, version=1, priority=7, now=now)
    minutely = a_job(now=now, key="billing/minutely", schedule=every_minute(now), max_fires=9)
    paused = a_job(now=now, key="paused", schedule=every_minute(now))
    definitions.pause(paused, reason="for a while", until=now + timedelta(days=1), now=now)
    over = a_job(now=now, key="over")
    definitions.archive(over, now=now)
    jobs += [plain, minutely, paused, over]
    kept_secrets.keep("unused", SecretUse.SIGNING, now=now)
    receivers.create("unused", template="slack", url="https://hooks.example.com/T0P/S3CRET", now=now)
    doomed = [a_job(now=now, key=key) for key in DOOMED]
    for key in RUN_KEYS:
        for job in jobs[:3]:
            runs.run(job, run_key=key, delay=timedelta(hours=1), now=now)
    executions = _executions(plain, each, now)
    awaited = executions["awaited"][0]
    _processes(executions["running"], now)
    statistics.roll_up(now)
    return Inhabitants(
        jobs={job.key: job.pk for job in jobs},
        doomed=[job.pk for job in doomed],
        executions={name: [str(row.pk) for row in rows] for name, rows in executions.items()},
        messages=[message.pk for message in dead_messages(each, now)],
        completion=[str(awaited.pk), awaited.attempt, completions.path_of(awaited.pk, awaited.attempt).split("/")[-1]],
    )


def _executions(job: Job, each: int, now: datetime) -> dict[str, list[Execution]]:
    """A second apart, all of them past."""
    moments = iter(now - timedelta(seconds=second) for second in range(1, 10_000))
    names = ("scheduled", "queued", "running", "succeeded", "failing", "dead", "cancelled", "awaited")
    made = {name: [planned(job, next(moments)) for _ in range(each)] for name in names}
    lifecycle.mark_queued(made["queued"], now=now)
    for name, end in {"running": None, "succeeded": ends.succeed, "failing": ends.retry, "dead": ends.give_up}.items():
        for row in made[name]:
            claim = claimed(row, now=now)
            if end is not None:
                end(claim, now)
    for row in made["awaited"]:
        lifecycle.await_end(claimed(row, now=now), until=now + timedelta(hours=1), now=now)
    lifecycle.cancel([row.pk for row in made["cancelled"]], reason="not wanted", now=now)
    first = now - timedelta(hours=3)
    stretch = job.new_skipped_row(first, first + timedelta(minutes=9), 10, reason="paused", now=now)
    skipped = job.new_execution(now - timedelta(hours=4), trigger=Trigger.SCHEDULE, now=now)
    lifecycle.record_skipped([stretch, skipped], now=now)
    return {**made, "stretch": [stretch], "skipped": [skipped]}


def dead_messages(each: int, now: datetime) -> list[DeadMessage]:
    """Of no execution."""
    return [
        DeadMessage.objects.create(
            pk=number,  # the first is 1, as the examples of the documentation have it
            digest=hashlib.sha256(str(number).encode()).hexdigest(),
            queue=queues.work_queue("default").name,
            task="their.task",
            properties={"content_type": "application/json", "content_encoding": "utf-8"},
            headers={"task": "their.task", "id": str(number)},
            body=b"[[], {}, {}]",
            error=_NOT_TAKEN,
            fingerprint=of_error(_NOT_TAKEN),
            collected_at=now,
        )
        for number in range(1, each + 1)
    ]


def _processes(running: list[Execution], now: datetime) -> None:
    facts = {"host": "here", "pid": 1, "version": "1", "started_at": now}
    Worker.objects.create(
        name="worker@here",
        queues=[queues.work_queue("default").name],
        tasks=["onbeat.echo"],
        running=[str(row.pk) for row in running],
        heartbeat_at=now,
        **facts,
    )
    Beat.objects.create(name="beat@here", ticked_at=now, seen_at=now, lateness_seconds=0.1, **facts)
