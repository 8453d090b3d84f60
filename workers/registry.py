"""Who takes work: each worker's row, kept up by its own heartbeat."""

import os
import socket
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import Error

from executions import events
from executions.version import VERSION
from workers import pools
from workers.models import Worker

# Who vanished without a word stays to be seen for so long.
_FORGOTTEN_AFTER = timedelta(days=1)
_CELERYS_OWN = "celery."


def say(parent: Any, *, running: Sequence[tuple[uuid.UUID, int]], now: datetime) -> None:
    """That this worker lives, what it is, and what it runs."""
    news = {"heartbeat_at": now, "running": sorted({str(execution_id) for execution_id, _ in running})}
    if not Worker.objects.filter(name=parent.hostname, pid=os.getpid()).update(**news):
        _enter(parent, now=now, **news)


def _enter(parent: Any, *, now: datetime, **news: Any) -> None:
    Worker.objects.filter(heartbeat_at__lt=now - _FORGOTTEN_AFTER).delete()
    facts = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "pool": pools.name_of(parent.pool_cls),
        "concurrency": parent.concurrency,
        "queues": sorted(parent.app.amqp.queues.consume_from),
        "tasks": sorted(name for name in parent.app.tasks if not name.startswith(_CELERYS_OWN)),
        "version": VERSION,
        "started_at": now,
    }
    Worker.objects.update_or_create(name=parent.hostname, defaults=facts | news)


def leave(name: str) -> None:
    try:
        Worker.objects.filter(name=name, pid=os.getpid()).delete()
    except Error:
        events.warn("the database is away: this worker leaves without signing off", worker=name)
