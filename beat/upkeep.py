"""Duties beside firing, each at its own interval. Harmless if two beats do one at once."""

from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError

from beat.models import Beat
from executions import events, lifecycle, partitions, run_keys
from executions.storable import in_a_line
from jobs import definitions

_EVERY = timedelta(seconds=5)
_MAKE_PARTITIONS_EVERY = timedelta(hours=1)
_FORGET_BEATS_AFTER = timedelta(hours=1)


class Upkeep:
    def __init__(self) -> None:
        self._last: datetime | None = None
        self._no_rescue_before: datetime | None = None
        self._partitions_made: datetime | None = None

    def run_due(self, now: datetime) -> None:
        if self._last is not None and now - self._last < _EVERY:
            return
        self._last = now
        if self._no_rescue_before is None or now >= self._no_rescue_before:
            _do(rescue_lost_workers, now)
        for duty in (forget_gone_beats, definitions.resume_due, definitions.complete_ended, run_keys.forget_ended):
            _do(duty, now)
        if self._partitions_made is None or now - self._partitions_made >= _MAKE_PARTITIONS_EVERY:
            self._partitions_made = now
            _do(make_partitions_ahead, now)

    def after_outage(self, now: datetime) -> None:
        """Workers could not reach the database either: their silence means nothing until they had time to speak."""
        self._no_rescue_before = now + timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)


def _do(duty: Callable[[datetime], object], now: datetime) -> None:
    """One duty that fails must neither stop the others nor the beat: firing goes on, and the duty comes again."""
    try:
        duty(now)
    except (OperationalError, InterfaceError):
        raise  # the database is away: the loop knows what to do
    except Exception as error:
        events.warn("a duty of the upkeep failed", duty=duty.__name__, error=in_a_line(error))


def rescue_lost_workers(now: datetime) -> int:
    """End attempts whose worker went silent: they run again, or are given up after too many losses."""
    silent_since = now - timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
    rescued = lifecycle.rescue(silent_since=silent_since, now=now)
    for row in rescued:
        events.warn(
            "a worker was lost", execution=row.execution_id, attempt=row.attempt, worker=row.worker, state=row.state
        )
    return len(rescued)


def forget_gone_beats(now: datetime) -> int:
    """Take beats off the registry that were killed and never signed off."""
    gone, _ = Beat.objects.filter(ticked_at__lt=now - _FORGET_BEATS_AFTER).delete()
    return gone


def make_partitions_ahead(now: datetime) -> None:
    """Have the tables of the coming months ready before the first fire asks for one."""
    try:
        made = partitions.make_ahead(now)
    except OperationalError as error:
        # Somebody holds a lock on the table. There are months in hand, and an insert makes what it lacks.
        events.warn("partitions could not be made ahead", error=in_a_line(error))
        return
    if made:
        events.emit("partitions are made ahead", months=",".join(map(str, made)))
