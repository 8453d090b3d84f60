"""The moment: what runs, what waits, which machines give signs of life.

Invariant: `give_signs_of_life` can be called again and again; between two calls nothing may be silent but what is meant
to be, and nothing late.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random

from beat.models import Beat
from beat.shards import COUNT
from callbacks.models import Host
from examples.lively_demo.company import (
    BEATS,
    INDEX,
    MACHINES,
    RECEIPTS,
    SILENT_MACHINE,
    THUMBNAILS,
    WORKS,
    machines_of,
)
from executions import lifecycle, outbox, queue_samples, queues
from executions.dispatch import Publisher
from executions.fingerprint import of_error
from executions.models import DeadMessage, Execution, QueueSample
from executions.states import State, Trigger
from executions.version import VERSION
from jobs import runs
from jobs.http_target import HTTP_TASK
from jobs.models import Job, Schedule
from workers.models import Worker

_WAITING = 86  # pictures that nobody has made small yet
_WAITING_SINCE = timedelta(minutes=25)
_AT_ONCE = 4  # that the machine for it runs at a time
_SILENT_SINCE = timedelta(minutes=14)
_PUT_OFF = timedelta(minutes=4)


def begin(now: datetime) -> None:
    """Into a database that has the jobs and their history."""
    _rebuild_index(now)
    _pile_up(now)
    _ask_for_later(now)
    _leave_messages(now)
    _sign_on(now)
    give_signs_of_life(now)


def _rebuild_index(now: datetime) -> None:
    """Somebody asked for it, and it is two thirds through."""
    began_at = now - timedelta(minutes=22, seconds=48)
    row = Job.objects.get(key=INDEX.key).new_execution(began_at, trigger=Trigger.MANUAL, now=began_at)
    row.state, row.worker, row.queued_at = State.RUNNING, "tasks@fra-1", began_at + timedelta(milliseconds=9)
    row.started_at, row.heartbeat_at = began_at + timedelta(milliseconds=31), now
    row.checkpoint = {"shard": 5, "document": 640_112}
    row.progress = {"done": 640, "total": 1000, "note": "shard 5 of 8"}
    lifecycle.plan([row])


def _pile_up(now: datetime) -> None:
    """Published as a beat publishes: the broker has their messages."""
    random, job = Random(THUMBNAILS.key), Job.objects.get(key=THUMBNAILS.key)
    ages = sorted((_WAITING_SINCE * random.random() for _ in range(_WAITING)), reverse=True)
    rows = [job.new_execution(now - age, trigger=Trigger.MANUAL, now=now - age) for age in ages]
    for row in rows:
        row.kwargs = {**row.kwargs, "order": random.randint(80_000, 99_999)}
    lifecycle.plan(rows)
    publisher = Publisher()
    try:
        report = publisher.publish(outbox.outgoing([row.pk for row in rows]))
    finally:
        publisher.close()
    lifecycle.mark_queued(report.confirmed, now=now)
    _run_some_more(job, now)
    for row in rows:
        Execution.objects.with_id(row.pk).update(queued_at=row.fire_time + timedelta(milliseconds=12))
    minutes = [now.replace(second=0, microsecond=0) - timedelta(minutes=back) for back in range(30, 0, -1)]
    samples = ((at, [age for age in ages if now - age <= at]) for at in minutes)
    QueueSample.objects.bulk_create(
        QueueSample(
            at=at, queue=job.queue, waiting=len(waited), oldest_seconds=(at - (now - waited[0])).total_seconds()
        )
        for at, waited in samples
        if waited
    )
    queue_samples.sample(now)


def _run_some_more(job: Job, now: datetime) -> None:
    """The machine that takes them has its hands full."""
    for number in range(_AT_ONCE):
        asked_at = now - _WAITING_SINCE - timedelta(seconds=9 + 7 * number)
        row = job.new_execution(asked_at, trigger=Trigger.MANUAL, now=asked_at)
        row.state, row.worker, row.queued_at = State.RUNNING, machines_of(job.queue)[0], asked_at
        row.started_at, row.heartbeat_at = now - timedelta(seconds=1 + number), now
        lifecycle.plan([row])


def _ask_for_later(now: datetime) -> None:
    for order, hours in ((98_213, 2), (98_240, 5), (98_377, 26)):
        asked = {"template": "reminder", "order": order}
        runs.run(RECEIPTS.key, kwargs=asked, delay=timedelta(hours=hours), run_key=f"reminder-{order}", now=now)


def _leave_messages(now: datetime) -> None:
    """That an old program sent, and nobody here can read."""
    error = "The message names the task 'legacy.tasks.ping', which no worker knows."
    for number in range(2):
        DeadMessage.objects.create(
            digest=f"{number:064x}",
            queue=queues.work_queue("default").name,
            task="legacy.tasks.ping",
            properties={"content_type": "application/json", "content_encoding": "utf-8"},
            headers={"task": "legacy.tasks.ping", "lang": "py"},
            body=b"[[], {}, {}]",
            error=error,
            fingerprint=of_error(error),
            collected_at=now - timedelta(hours=3 + 20 * number),
        )


# ── Machines ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _sign_on(now: datetime) -> None:
    for number, name in enumerate(BEATS):
        Beat.objects.create(
            name=name,
            host=name.partition("@")[2],
            pid=811 + number,
            version=VERSION,
            started_at=now - timedelta(days=4, hours=number),
            shards=COUNT // len(BEATS),
            clock_offset_seconds=0.004,
        )
    for number, (name, taken) in enumerate(MACHINES.items()):
        is_for_urls = taken == ("http",)
        Worker.objects.create(
            name=name,
            host=name.partition("@")[2],
            pid=1290 + 11 * number,
            pool="threads" if is_for_urls else "prefork",
            concurrency=32 if is_for_urls else 4,
            queues=[queues.work_queue(each).name for each in taken],
            tasks=sorted({HTTP_TASK, *(work.task for work in WORKS if work.task)}),
            version=VERSION,
            started_at=now - timedelta(days=4, minutes=7 * number),
            heartbeat_at=now - _SILENT_SINCE,
        )
    _know_hosts(now)


def _know_hosts(now: datetime) -> None:
    usual: Mapping[str, tuple[int, str]] = {
        "https://hooks.northwind.example": (0, ""),
        "https://api.parcels.example": (4, "Unanswered: no answer within 15 s"),
    }
    for origin, (failures, error) in usual.items():
        rests_until = now + timedelta(minutes=3) if failures else None
        Host.objects.create(
            origin=origin,
            failures=failures,
            rests=1 if failures else 0,
            rests_until=rests_until,
            last_error=error,
            used_at=now - timedelta(seconds=80),
        )


def give_signs_of_life(now: datetime) -> None:
    Beat.objects.update(ticked_at=now, seen_at=now, renewed_at=now, lateness_seconds=0.034)
    running: dict[str, list[str]] = {}
    for pk, name in Execution.objects.running().order_by("pk").values_list("pk", "worker"):
        running.setdefault(name, []).append(str(pk))
    for worker in Worker.objects.exclude(name=SILENT_MACHINE):
        worker.running, worker.heartbeat_at = running.get(worker.name, []), now
        worker.save(update_fields=["running", "heartbeat_at"])
    Execution.objects.running().update(heartbeat_at=now)
    # Nobody fires here: what would be due is always a little ahead.
    Execution.objects.due(now).update(available_at=now + _PUT_OFF)
    move_schedules_on(now)


def move_schedules_on(now: datetime) -> None:
    for schedule in Schedule.objects.firing_before(now).select_related("job"):
        schedule.next_fire_at = schedule.recurrence.next_after(now)
        schedule.save(update_fields=["next_fire_at"])
