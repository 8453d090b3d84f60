"""Signs of life from a worker's parent process.

A thread of the parent, with a database connection of its own, says every few seconds which attempts its children hold.
It does not depend on the children: a task that keeps its CPU busy is not taken for dead.
"""

import os
import socket
import threading
import uuid
from contextlib import suppress
from datetime import datetime
from typing import Any

from celery import bootsteps
from celery.worker import state
from django.conf import settings
from django.db import Error, connection

from executions import events, lifecycle
from executions.clock import Clock
from executions.messages import Malformed, delivery
from executions.storable import in_a_line
from workers.models import Worker


class Heartbeat(bootsteps.StartStopStep):
    """Runs in the worker's parent from its start to its stop."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, _parent: Any, **_options: Any) -> None:
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def start(self, parent: Any) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(parent,), name="onbeat-heartbeat", daemon=True)
        self._thread.start()

    def stop(self, parent: Any) -> None:  # noqa: ARG002 - Celery passes it by name
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def terminate(self, parent: Any) -> None:
        self.stop(parent)

    def _run(self, parent: Any) -> None:
        clock = Clock()
        is_away = False
        while True:
            try:
                _say_alive(parent, clock.now())
                is_away = False
            except Exception as error:
                # Whatever it was: without heartbeats the worker's living work would be taken for lost, so go on.
                if not is_away:
                    events.warn("no heartbeat could be written", worker=parent.hostname, error=in_a_line(error))
                is_away = True
                connection.close()
            if self._stop.wait(settings.ONBEAT_WORKERS_HEARTBEAT_SECONDS):
                break
        _leave(parent)


def _say_alive(parent: Any, now: datetime) -> None:
    lifecycle.heartbeat(_held(), worker=parent.hostname, now=now)
    facts = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "queues": sorted(parent.app.amqp.queues.consume_from),
        "heartbeat_at": now,
    }
    if not Worker.objects.filter(name=parent.hostname).update(**facts):
        Worker.objects.create(name=parent.hostname, started_at=now, **facts)


def _held() -> list[tuple[uuid.UUID, int]]:
    """The attempts this worker has taken from the broker and not yet ended."""
    while True:
        try:
            requests = list(state.reserved_requests)
            break
        except RuntimeError:  # the worker's own thread changed the set while we read it
            continue
    held = []
    for request in requests:
        with suppress(Malformed):
            if (ours := delivery(request.request_dict)) is not None:
                held.append((ours.execution_id, ours.attempt))
    return held


def _leave(parent: Any) -> None:
    try:
        Worker.objects.filter(name=parent.hostname).delete()
    except Error:
        events.warn("the database is away: this worker leaves without signing off", worker=parent.hostname)
    finally:
        connection.close()
