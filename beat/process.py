"""The loop of one beat process.

Owns when a tick happens, and what a beat does about a database that goes away, a clock that is wrong, and an error that
nobody expected. Invariant: the beat says that it is well only after a tick has ended, so a beat that hangs or cannot
work is seen as silent.
"""

import gc
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django.db.backends.signals import connection_created

from beat import aside, figures, line_settings
from beat.heartbeat import Heartbeat, Progress
from beat.lease import REDIS_AGAIN, WITHOUT_REDIS, Leases
from beat.members import Members
from beat.models import REFUSAL_CHARACTERS, Beat
from beat.planning import Planner
from beat.shards import Shards
from beat.tick import Ticker, TickReport
from beat.upkeep.keeper import Upkeep, UpkeepThread
from executions import database_line, events, metrics
from executions.alive import Alive
from executions.clock import Clock
from executions.dispatch import Publisher
from executions.health import missing_migrations
from executions.outages import is_outage, why_away
from executions.redis_link import RedisLink
from executions.scraping import Server
from executions.storable import in_a_line
from executions.version import VERSION

# A beat that hangs in a call which nobody can break off leaves without it: whatever it was about, others do it.
_STOP_WITHIN_SECONDS = 4.0
_SAY_WELL_EVERY_SECONDS = 0.5
_PLAN_EVERY = timedelta(seconds=0.5)
# Python looks for garbage whenever it holds 700 things more than at the last look. A batch makes tens of thousands, and
# nearly none of them is garbage: a seventh of a burst.
_LOOK_FOR_GARBAGE_AFTER = (50_000, 20, 20)


class BeatProcess:
    def __init__(self) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.stopping = threading.Event()
        self._wake = threading.Event()
        self._clock = Clock()
        self._poll = timedelta(seconds=settings.ONBEAT_BEAT_POLL_SECONDS)
        self._link = RedisLink(
            settings.REDIS_URL, prefix=settings.ONBEAT_EXECUTIONS_PREFIX, without=WITHOUT_REDIS, again=REDIS_AGAIN
        )
        lease_life = timedelta(seconds=settings.ONBEAT_BEAT_LEASE_SECONDS)
        self._leases = leases = Leases(self._link, holder=self.name, life=lease_life)
        self._progress = Progress(stuck_after_seconds=settings.ONBEAT_BEAT_STUCK_AFTER_SECONDS)
        self._shards = Shards(self.name, linger=lease_life)
        self._members = Members(self._link, beat=self.name)
        self._heartbeat = Heartbeat(self._members, self._shards, self._progress, on_new_shards=self._wake.set)
        # Leases of its own: those of duties are not counted among those of fires.
        self._upkeep = UpkeepThread(Upkeep(Leases(self._link, holder=self.name, life=lease_life)))
        self._ticker = Ticker(
            planner=Planner(
                leases,
                look_ahead=timedelta(seconds=settings.ONBEAT_BEAT_LOOK_AHEAD_SECONDS),
                batch_size=settings.ONBEAT_BEAT_BATCH_SIZE,
            ),
            leases=leases,
            publisher=Publisher(),
            batch_size=settings.ONBEAT_BEAT_BATCH_SIZE,
            shards=self._shards,
            progress=self._progress,
            aside=aside.suitable(),
            plan_every=min(self._poll, _PLAN_EVERY),
            is_stopping=self.stopping.is_set,
        )
        self._is_joined = False
        self._are_threads_started = False
        self._said_well_at = 0.0
        self._lateness_seconds: float | None = None
        self._trouble: tuple[str, str] | None = None
        self._ticked_at = time.monotonic()
        self._alive = Alive("beat", self.name, silent_after_seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
        self._server = Server(settings.ONBEAT_BEAT_METRICS_ADDRESS, self._families)

    def stop(self) -> None:
        """End after the batch in hand."""
        # First: a signal comes in the middle of anything. The second one does not even wait for the log.
        for seconds, leave in ((_STOP_WITHIN_SECONDS, self._leave_at_once), (_STOP_WITHIN_SECONDS + 0.5, _exit)):
            leaver = threading.Timer(seconds, leave)
            leaver.daemon = True
            leaver.start()
        self.stopping.set()
        self._wake.set()

    def run(self) -> None:
        connection_created.connect(line_settings.tell)
        database_line.hurry_always()
        gc.freeze()  # what is there by now stays
        gc.set_threshold(*_LOOK_FOR_GARBAGE_AFTER)
        self._server.start()
        while not self.stopping.is_set():
            pause = self._try_step()
            self._progress.rest()
            self._wake.wait(pause.total_seconds())
            self._wake.clear()
        self._leave()

    def _try_step(self) -> timedelta:
        """One step; returns how long nothing is expected to be due. An error is told once, and never ends the beat."""
        self._progress.made()
        try:
            return self._step()
        except Exception as error:
            connection.close()
            self._ticker.aside.begin_anew()  # what broke one connection has most often broken all
            if is_outage(error):
                what = "the database is away: nothing is planned until it answers"
                self._say_trouble(what, partial(why_away, error))
            else:
                why = in_a_line(error)
                self._say_trouble("a tick failed; it is tried again", lambda: why, about=why)
            return self._poll

    def _step(self) -> timedelta:
        now = self._clock.now()
        if not self._is_joined:
            if missing_migrations():
                self._say_trouble("the database is not migrated: nothing is planned", lambda: "run `./onbeat migrate`")
                return self._poll
            self._join(now)
        refusal = self._refusal()
        if refusal:
            self._say_refusal(refusal, now)
            return self._poll
        began = time.monotonic()
        report = self._ticker.tick(now)
        self._ticked_at = time.monotonic()
        metrics.TICK.observe(self._ticked_at - began)
        self._heartbeat.is_fit = not self._ticker.is_broker_away
        if report.oldest_published is not None:
            self._lateness_seconds = (self._clock.now() - report.oldest_published).total_seconds()
        self._say_well()
        self._say_trouble_is_over()
        return self._pause_after(report)

    def _pause_after(self, report: TickReport) -> timedelta:
        if report.has_more:
            return timedelta(0)
        if report.next_available_at is None:
            return self._poll
        return max(timedelta(0), min(self._poll, report.next_available_at - self._clock.now()))

    # ── What it says of itself ───────────────────────────────────────────────────────────────────────────────────

    def _join(self, now: datetime) -> None:
        Beat.objects.update_or_create(
            name=self.name,
            defaults={
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "version": VERSION,
                "started_at": now,
                "seen_at": now,
            },
        )
        if not self._are_threads_started:
            self._heartbeat.start()
            self._upkeep.start()
        self._is_joined = self._are_threads_started = True

    def _say_well(self) -> None:
        self._alive.say("it ticks" + self._hindrances(), is_ready=True)
        if time.monotonic() - self._said_well_at < _SAY_WELL_EVERY_SECONDS:
            return
        self._said_well_at = time.monotonic()
        now = self._clock.now()
        self._register(now, ticked_at=now, refusal="")

    def _hindrances(self) -> str:
        away = {"the broker": self._ticker.is_broker_away, "Redis": self._link.is_away}
        missed = " or ".join(what for what, is_away in away.items() if is_away)
        return f", but cannot reach {missed}" if missed else ""

    def _families(self) -> Iterator[Any]:
        return figures.Own(
            tick_age_seconds=time.monotonic() - self._ticked_at,
            clock_offset_seconds=self._clock.offset.total_seconds(),
            is_redis_away=self._link.is_away,
            is_broker_away=self._ticker.is_broker_away,
            shards=len(self._shards.planning),
            leases_asked=self._leases.asked,
            leases_refused=self._leases.refused,
        ).families()

    def _register(self, now: datetime, **facts: object) -> None:
        known = Beat.objects.filter(name=self.name).update(
            seen_at=now,
            shards=len(self._shards.planning),
            lateness_seconds=self._lateness_seconds,
            clock_offset_seconds=self._clock.offset.total_seconds(),
            is_broker_away=self._ticker.is_broker_away,
            is_redis_away=self._link.is_away,
            leases_asked=self._leases.asked,
            leases_refused=self._leases.refused,
            **facts,
        )
        self._is_joined = known > 0  # after an hour without a word it was taken off, and joins anew

    def _refusal(self) -> str:
        """Why this beat must not fire, if it must not."""
        if not self._clock.is_off_by_more_than(settings.ONBEAT_BEAT_CLOCK_OFFSET_SECONDS):
            return ""
        offset = self._clock.offset.total_seconds()
        direction = "ahead of" if offset > 0 else "behind"
        return f"this machine's clock is {abs(offset):.0f} s {direction} the database's: set one of them right"

    def _say_refusal(self, refusal: str, now: datetime) -> None:
        self._register(now, refusal=refusal[:REFUSAL_CHARACTERS])
        self._say_trouble("this beat does not fire", lambda: refusal)

    def _say_trouble(self, what: str, why: Callable[[], str], *, about: str = "") -> None:
        self._heartbeat.is_fit = False  # others may be able to do what this one cannot
        if self._trouble != (what, about):
            events.warn(what, error=why())
        self._trouble = what, about
        self._alive.say(what, is_ready=False)

    def _say_trouble_is_over(self) -> None:
        if self._trouble is not None:
            events.emit("ticks go on: the trouble is over", after=self._trouble[0])
        self._trouble = None

    # ── How it ends ──────────────────────────────────────────────────────────────────────────────────────────────

    def _leave(self) -> None:
        if self._are_threads_started:
            self._heartbeat.stop()
            self._upkeep.stop()
        self._ticker.publisher.close()
        self._server.stop()
        self._alive.leave()
        try:
            Beat.objects.filter(name=self.name).delete()
        except Error as error:
            events.warn("this beat leaves without signing off", beat=self.name, error=why_away(error))

    def _leave_at_once(self) -> None:
        events.warn("beat stopped in the middle of something: what is left of it is done by the others", beat=self.name)
        _exit()


def _exit() -> None:
    os._exit(0)
