"""Who does the duties, and when.

In a thread of its own, so that a long duty holds up no fire. Each duty is done by one beat at a time, under a lease;
harmless if two do it, since Redis may be away. Invariant: a duty that fails stops neither the others nor the beat.
"""

import threading
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from beat.lease import Leases, duty_key
from beat.upkeep import DUTIES
from beat.upkeep.duty import Duty
from executions import events
from executions.clock import Clock
from executions.outages import is_outage
from executions.storable import in_a_line

_LOOK_EVERY_SECONDS = 1.0
# Longer between two looks, and it was the database, or the whole machine, that stood still.
_STALLED_SECONDS = 5.0
_LEASE_ENDS_EARLY = timedelta(seconds=2)


class Upkeep:
    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._done_at: dict[str, datetime] = {}
        self._rests: dict[str, timedelta] = {}  # since it was begun
        self._looked_at: tuple[datetime, float] | None = None  # by the database's clock, by the monotonic one
        self._trusts_silence_from = 0.0
        self._errors: dict[str, str] = {}
        self.after_outage()  # nobody knows what was before

    def run_due(self, now: datetime) -> None:
        """Do what is due and no other beat does."""
        self._look_at_the_clocks(now)
        for duty in DUTIES:
            if self._was_done_lately(duty, now) or self._must_wait(duty):
                continue
            if self._leases.take([duty_key(duty.name)], life=_lease_life(duty.every)) == [True]:
                self._done_at[duty.name] = now
                begin = time.monotonic()
                self._do(duty, now)
                self._rest(duty, time.monotonic() - begin)

    def _look_at_the_clocks(self, now: datetime) -> None:
        """If time stood still or was set, heartbeats are older than they seem, or seem older than they are."""
        monotonic = time.monotonic()
        if self._looked_at is not None:
            then, looked_at = self._looked_at
            passed = monotonic - looked_at
            if passed > _STALLED_SECONDS or abs((now - then).total_seconds() - passed) > _STALLED_SECONDS:
                self.after_outage()
        self._looked_at = now, monotonic

    def after_outage(self) -> None:
        """Workers could not reach the database either: their silence means nothing until they had time to speak."""
        self._trusts_silence_from = time.monotonic() + settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS

    def _was_done_lately(self, duty: Duty, now: datetime) -> bool:
        done_at = self._done_at.get(duty.name)
        rests = self._rests.get(duty.name, duty.every)
        return done_at is not None and abs(now - done_at) < rests  # also after a clock was set back

    def _rest(self, duty: Duty, took_seconds: float) -> None:
        rests = self._rests[duty.name] = max(duty.every, timedelta(seconds=duty.rests_times * took_seconds))
        if rests > duty.every:
            self._leases.take([duty_key(duty.name)], life=_lease_life(rests))  # else another beat would do it meanwhile

    def _must_wait(self, duty: Duty) -> bool:
        return duty.trusts_silence and time.monotonic() < self._trusts_silence_from

    def _do(self, duty: Duty, now: datetime) -> None:
        try:
            duty.run(now)
            self._errors.pop(duty.name, None)
        except Exception as error:
            if is_outage(error):
                raise  # all of them wait
            said = in_a_line(error)
            if self._errors.get(duty.name) != said:
                events.warn("a duty of the upkeep failed; it is tried again", duty=duty.name, error=said)
            self._errors[duty.name] = said


def _lease_life(every: timedelta) -> timedelta:
    """A little less than until the duty is due again: whoever comes first does it next.

    Nobody holds it for good. Else two installations that share the names of their keys by mistake would leave one of
    them without upkeep, and nothing would tell.
    """
    return every - min(every / 2, _LEASE_ENDS_EARLY)


class UpkeepThread:
    """Runs the upkeep of one beat until it is stopped."""

    def __init__(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep
        self._clock = Clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self._was_away = False
        self._error = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Every duty may be broken off at any point: nobody waits for a long one."""
        self._stop.set()
        self._thread.join(timeout=_LOOK_EVERY_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_SECONDS):
            try:
                self._look()
                self._error = ""
            except Exception as error:
                # A thread that ended here would leave all duties undone, in silence.
                connection.close()
                if is_outage(error) or isinstance(error, OperationalError | InterfaceError):
                    self._was_away = True  # the loop of the beat says so
                elif self._error != in_a_line(error):
                    self._error = in_a_line(error)
                    events.warn("the upkeep of this beat failed; it goes on", error=self._error)
        connection.close()

    def _look(self) -> None:
        now = self._clock.now()
        if self._clock.is_off_by_more_than(settings.ONBEAT_BEAT_CLOCK_OFFSET_SECONDS):
            self._was_away = True  # what is past its days by a clock that is wrong may not be past them
            return
        if self._was_away:
            self._upkeep.after_outage()
            self._was_away = False
        self._upkeep.run_due(now)
