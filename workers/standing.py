"""How a worker stands, for those who look at it from outside: probes and scrapes.

Said by its heartbeat thread. Invariant: ready means that its signs of life reach the database and that it takes
messages from the broker; it falls silent only if a restart would help.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from celery.bootsteps import RUN  # type: ignore[attr-defined]  # the stubs do not know it
from django.conf import settings

from executions import metrics, metrics_folder
from executions.alive import Alive
from executions.scraping import Server
from workers import figures, pools

_LOOP_HANGS_AFTER_SECONDS = 60.0


class Standing:
    def __init__(self, parent: Any, *, running: Callable[[], int]) -> None:
        self._parent = parent
        self._running = running
        self._beat_at = self._turned_at = time.monotonic()
        self._is_turn_awaited = False
        silent_after = settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS
        self._alive = Alive("worker", str(parent.hostname), silent_after_seconds=silent_after)
        self._server = Server(settings.ONBEAT_WORKERS_METRICS_ADDRESS, self._families)

    @staticmethod
    def prepare(pool: Any) -> None:
        """Before the pool has its first child: what its children count comes together in one folder."""
        if settings.ONBEAT_WORKERS_METRICS_ADDRESS and pools.name_of(pool) == "prefork":
            metrics.share_through(metrics_folder.begin())

    def start(self) -> None:
        self._server.start()

    def heard(self) -> None:
        """Its signs of life are in the database."""
        self._beat_at = time.monotonic()

    def say(self) -> None:
        if self._hangs():
            return  # so it falls silent
        if time.monotonic() - self._beat_at > settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS:
            self._alive.say("its signs of life do not reach the database", is_ready=False)
        elif not self._takes_messages():
            self._alive.say("it cannot reach the broker", is_ready=False)
        else:
            self._alive.say("it takes messages and gives signs of life", is_ready=True)

    def leave(self) -> None:
        self._server.stop()
        self._alive.leave()

    def _takes_messages(self) -> bool:
        consumer = getattr(self._parent, "consumer", None)
        connection = getattr(consumer, "connection", None)
        if consumer is None or connection is None:
            return False
        try:
            return bool(connection.connected) and consumer.blueprint.state == RUN
        except Exception:  # Celery's thread is taking it to pieces; without ours the worker would be taken for lost
            return False

    def _hangs(self) -> bool:
        """Whether Celery's loop, if the broker's transport has one, has not turned for long."""
        hub = getattr(self._parent, "hub", None)
        if hub is None or pools.name_of(self._parent.pool_cls) == "solo":  # there a task holds it up, and may
            return False
        if not self._takes_messages():  # it waits for the broker, and turns no loop meanwhile
            self._turned()
        elif not self._is_turn_awaited:
            self._is_turn_awaited = True
            hub.call_soon(self._turned)  # not by the loop's timer: that is emptied whenever the broker goes away
        return time.monotonic() - self._turned_at > _LOOP_HANGS_AFTER_SECONDS

    def _turned(self) -> None:
        self._turned_at, self._is_turn_awaited = time.monotonic(), False

    def _families(self) -> Iterator[Any]:
        yield from figures.of_one(
            heartbeat_age_seconds=time.monotonic() - self._beat_at,
            running=self._running(),
        )
