"""The loop of one beat process.

Owns when a tick happens and what a beat does about a database that goes away. Invariant: the beat says that it is well
only after a tick has ended, so a beat that hangs or cannot work is seen as silent.
"""

import os
import socket
import threading
import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from beat.lease import Leases
from beat.models import Beat
from beat.planning import Planner
from beat.tick import Ticker, TickReport
from beat.upkeep import Upkeep
from executions import events
from executions.clock import Clock
from executions.dispatch import Publisher


class BeatProcess:
    def __init__(self) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._stop = threading.Event()
        self._clock = Clock()
        self._publisher = Publisher()
        self._upkeep = Upkeep()
        self._poll = timedelta(seconds=settings.ONBEAT_BEAT_POLL_SECONDS)
        self._is_database_away = False
        batch_size = settings.ONBEAT_BEAT_BATCH_SIZE
        leases = Leases(
            url=settings.REDIS_URL,
            prefix=settings.ONBEAT_EXECUTIONS_PREFIX,
            holder=self.name,
            life=timedelta(seconds=settings.ONBEAT_BEAT_LEASE_SECONDS),
        )
        planner = Planner(
            leases, look_ahead=timedelta(seconds=settings.ONBEAT_BEAT_LOOK_AHEAD_SECONDS), batch_size=batch_size
        )
        self._ticker = Ticker(planner=planner, leases=leases, publisher=self._publisher, batch_size=batch_size)

    def stop(self) -> None:
        """End after the batch in hand."""
        self._stop.set()

    def run(self) -> None:
        while not self._stop.is_set():
            try:
                pause = self._step()
            except (OperationalError, InterfaceError) as error:
                self._say_database_away(error)
                pause = self._poll
            self._stop.wait(pause.total_seconds())
        self._leave()

    def _step(self) -> timedelta:
        """One tick with its upkeep; returns how long nothing is expected to be due."""
        now = self._clock.now()
        report = self._ticker.tick(now)
        if self._is_database_away:
            events.emit("the database is back: planning goes on")
            self._is_database_away = False
            self._upkeep.after_outage(now)
        self._upkeep.run_due(now)
        self._say_well(self._clock.now())
        return self._pause_after(report)

    def _pause_after(self, report: TickReport) -> timedelta:
        if report.has_more:
            return timedelta(0)
        if report.next_available_at is None:
            return self._poll
        return max(timedelta(0), min(self._poll, report.next_available_at - self._clock.now()))

    def _say_well(self, now: datetime) -> None:
        facts = {
            "ticked_at": now,
            "is_broker_away": self._ticker.is_broker_away,
            "is_redis_away": self._ticker.leases.is_away,
        }
        if not Beat.objects.filter(name=self.name).update(**facts):
            Beat.objects.create(name=self.name, host=socket.gethostname(), pid=os.getpid(), started_at=now, **facts)

    def _leave(self) -> None:
        self._publisher.close()
        try:
            Beat.objects.filter(name=self.name).delete()
        except (OperationalError, InterfaceError):
            events.warn("the database is away: this beat leaves without signing off", beat=self.name)

    def _say_database_away(self, error: Exception) -> None:
        if not self._is_database_away:
            events.warn("the database is away: nothing is planned until it answers", error=type(error).__name__)
        self._is_database_away = True
        connection.close()
