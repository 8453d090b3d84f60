"""Queues: how much waits in each, since when, and who takes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from access.roles import Role
from console.people import needs
from console.readings import Reading
from executions import backlog, depths
from executions import queues as names
from executions.backlog import Backlog
from executions.clock import database_now
from executions.models import DEFAULT_QUEUE
from workers.models import Worker

_MOST = 200
_FRESH_SECONDS = 3.0
_PATIENCE_SECONDS = 0.15
_OLD_SECONDS = 30.0
_known: set[str] = {DEFAULT_QUEUE}  # whose depth is looked at


@dataclass(frozen=True)
class Queue:
    name: str
    broker_name: str
    waiting: Backlog
    oldest_seconds: float | None
    workers: Sequence[str]

    @property
    def total(self) -> int:
        return self.waiting.waiting


def _look() -> dict[str, int]:
    return depths.ready(sorted(_known)[:_MOST])


_depths = Reading(_look, fresh_seconds=_FRESH_SECONDS, patience_seconds=_PATIENCE_SECONDS)


def alive_workers(now: datetime) -> list[Worker]:
    patience = timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
    return list(Worker.objects.alive_since(now - patience).order_by("name"))


def seen(now: datetime, *, workers: Sequence[Worker] | None = None) -> list[Queue]:
    """Those in which something waits or runs, and those that a worker consumes; the fullest first."""
    waiting = backlog.by_queue(now=now)
    workers = alive_workers(now) if workers is None else workers
    consumed = {name for worker in workers for each in worker.queues if (name := names.job_queue_name(each))}
    found = [_queue(name, waiting.get(name, Backlog()), workers, now) for name in {*waiting, *consumed, DEFAULT_QUEUE}]
    return sorted(found, key=lambda queue: (-queue.total, queue.name))[:_MOST]


def _queue(name: str, waiting: Backlog, workers: Sequence[Worker], now: datetime) -> Queue:
    broker_name = names.work_queue(name).name
    consumers = [worker.name for worker in workers if broker_name in worker.queues]
    return Queue(name, broker_name, waiting, waiting.oldest_seconds(now), consumers)


@require_safe
@needs(Role.VIEWER)
def queues(request: HttpRequest) -> HttpResponse:
    now = database_now()
    found = seen(now)
    _known.update(queue.name for queue in found)
    answer = _depths.latest()
    ready = answer.value if answer is not None and answer.age_seconds < _OLD_SECONDS else {}
    rows: list[dict[str, Any]] = [{"queue": queue, "depth": ready.get(queue.name)} for queue in found]
    context = {
        **admin.site.each_context(request),
        "title": "Queues",
        "rows": rows,
        "is_broker_silent": not ready,
        "now": now,
        "now_iso": now.isoformat(),
    }
    return TemplateResponse(request, "console/queues.html", context)
