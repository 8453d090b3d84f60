"""Signs of life from a worker's parent process, and the word to stop.

A thread of the parent, with a database connection of its own, says every few seconds which attempts its children hold.
It does not depend on the children: a task that keeps its CPU busy is not taken for dead. In between it asks each second
whether one of them is to stop. A second thread, without the database, enforces time limits and graces. Invariant: both
go on until the last child has ended, also while the worker is stopping.
"""

import os
import threading
import time
import uuid
from datetime import datetime
from typing import Any

from celery import bootsteps, signals
from celery.bootsteps import RUN  # type: ignore[attr-defined]  # the stubs do not know it
from celery.worker import state
from django.conf import settings
from django.db import connection

from executions import database_line, events, lifecycle
from executions.clock import Clock
from executions.outcomes import ToStop
from executions.storable import in_a_line
from workers import forks, orders, pools, registry, stopping
from workers.orders import Why, name_of
from workers.recorder import Recorder
from workers.request import TrackedRequest
from workers.standing import Standing

LOOK_EVERY_SECONDS = 1.0
# A free child takes a task within milliseconds, a new one within a second.
STUCK_AFTER_LOOKS = 15


class Heartbeat(bootsteps.StartStopStep):
    """Started with the worker's pool; stopped when the worker has nothing left that could run."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **_options: Any) -> None:
        pools.check(parent.pool_cls)
        if pools.name_of(parent.pool_cls) == "prefork":
            forks.keep_apart()
        Standing.prepare(parent.pool_cls)
        self._thread = HeartbeatThread(parent)
        self._recorder = Recorder()

    def start(self, parent: Any) -> None:  # noqa: ARG002 - Celery passes it by name
        self._recorder.start()
        self._thread.start()
        # Not when Celery stops its steps: it stops this one first, and only then waits for the tasks that run.
        signals.worker_shutdown.connect(self._leave, weak=False)

    def _leave(self, **_kwargs: Any) -> None:
        self._recorder.stop()
        self._thread.stop()


class HeartbeatThread:
    def __init__(self, parent: Any) -> None:
        self._parent = parent
        self._clock = Clock()
        self._thread = threading.Thread(target=self._run, name="onbeat-heartbeat", daemon=True)
        self._limits = threading.Thread(target=self._enforce_limits, name="onbeat-limits", daemon=True)
        self._stop = threading.Event()
        self._is_away = False
        self._kill_at: dict[TrackedRequest, float] = {}
        self._looks_stuck = 0
        self._standing = Standing(parent, running=lambda: len(_running()))

    def start(self) -> None:
        self._standing.start()
        self._thread.start()
        self._limits.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    @database_line.hurried()
    def _run(self) -> None:
        beat_at = time.monotonic()
        while True:
            try:
                with forks.database_work():
                    if time.monotonic() >= beat_at:
                        beat_at = time.monotonic() + settings.ONBEAT_WORKERS_HEARTBEAT_SECONDS
                        self._beat(self._clock.now())
                    self._look()
                self._is_away = False
            except Exception as error:
                # Whatever it was: without heartbeats the worker's living work would be taken for lost, so go on.
                if not self._is_away:
                    events.warn("no heartbeat could be written", worker=self._name, error=in_a_line(error))
                self._is_away = True
                connection.close()
            self._standing.say()
            if self._stop.wait(min(LOOK_EVERY_SECONDS, settings.ONBEAT_WORKERS_HEARTBEAT_SECONDS)):
                break
        with forks.database_work():
            registry.leave(self._name)
        connection.close()
        self._standing.leave()

    @property
    def _name(self) -> str:
        return str(self._parent.hostname)

    def _beat(self, now: datetime) -> None:
        held = _held()
        lifecycle.heartbeat(held, worker=self._name, now=now)
        registry.say(self._parent, running=_running(), now=now)
        self._standing.heard()

    def _enforce_limits(self) -> None:
        """What takes too long is stopped or killed, and so is who was asked to stop and did not.

        In a thread of its own, since the other may wait for a database that is away.
        """
        while not self._stop.wait(LOOK_EVERY_SECONDS):
            try:
                self._stop_or_kill()
            except Exception as error:
                # Whatever it was: without this thread no limit would hold any more, so go on.
                events.warn("a time limit could not be enforced", worker=self._name, error=in_a_line(error))

    def _stop_or_kill(self) -> None:
        stopping.stop_overdue()
        for request in _requests():
            if request.is_overdue():
                self._in_loop(request.kill_overdue)
            elif request.is_late():
                self._in_loop(request.say_late)
        self._kill_stubborn()

    def _look(self) -> None:
        """What is to stop because somebody asked for it."""
        self._notice_stuck_pool()
        if held := _running():
            self._notice_dead_children()
            for order in lifecycle.to_stop(held, worker=self._name):
                self._tell(order)

    def _notice_stuck_pool(self) -> None:
        """Without an event loop the children share a lock, and one that is killed while idle takes it to its grave.

        Then no child takes a task again. There is no way out but another worker; what this one holds goes back.
        """
        waits = any(request.time_start is None for request in _requests())
        is_idle = not state.active_requests  # plain tasks count as well
        is_stuck = getattr(self._parent, "hub", None) is None and waits and is_idle
        self._looks_stuck = self._looks_stuck + 1 if is_stuck else 0
        if self._looks_stuck > STUCK_AFTER_LOOKS:
            events.warn("no child takes a task any more: this worker ends, start another", worker=self._name)
            os._exit(1)

    def _notice_dead_children(self) -> None:
        """Celery looks when a child's end shows, and that may be a moment too soon; then only 5 s later."""
        if getattr(self._parent, "hub", None) is not None and self._parent.blueprint.state == RUN:
            self._in_loop(self._parent.pool.maintain_pool)

    def _tell(self, order: ToStop) -> None:
        if stopping.stop(name_of(str(order.execution_id), order.attempt), Why.CANCELLED):
            return  # it ran in this very process
        for request in _requests():
            if _pair(request) == (order.execution_id, order.attempt):
                self._kill_at.setdefault(request, time.monotonic() + order.grace.total_seconds())
                # At each look, for a word may be lost: in a loop that ends at this moment, or before the call began.
                # The call hears it once.
                self._in_loop(request.ask_to_stop)

    def _kill_stubborn(self) -> None:
        for request, moment in list(self._kill_at.items()):
            if not request.is_running():
                del self._kill_at[request]
            elif time.monotonic() >= moment:
                self._in_loop(request.kill)

    def _in_loop(self, deed: Any) -> None:
        """In Celery's loop, if the broker's transport has one, and it still turns: a worker that stops leaves it."""
        hub = getattr(self._parent, "hub", None)
        if hub is None or self._parent.blueprint.state != RUN:
            deed()
        else:
            hub.call_soon(deed)


def _requests() -> list[TrackedRequest]:
    """What this worker has taken from the broker and not yet ended, of ours."""
    while True:
        try:
            requests = list(state.reserved_requests)
            break
        except RuntimeError:  # the worker's own thread changed the set while we read it
            continue
    return [request for request in requests if getattr(request, "delivery", None) is not None]


def _pair(request: TrackedRequest) -> tuple[uuid.UUID, int]:
    assert request.delivery is not None
    return request.delivery.execution_id, request.delivery.attempt


def _held() -> set[tuple[uuid.UUID, int]]:
    """What this worker has taken, by Celery's word, and what its children say that they hold."""
    return {_pair(request) for request in _requests()} | orders.held()


def _running() -> list[tuple[uuid.UUID, int]]:
    """Of these, what a child or a thread has begun with."""
    return [_pair(request) for request in _requests() if request.time_start is not None]
