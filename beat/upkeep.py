"""Duties beside firing, each at its own interval. Harmless if two beats do one at once."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import OperationalError

from beat.models import Beat
from executions import events, lifecycle, partitions, run_keys
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
            rescue_lost_workers(now)
        forget_gone_beats(now)
        definitions.resume_due(now)
        definitions.complete_ended(now)
        run_keys.forget_ended(now)
        if self._partitions_made is None or now - self._partitions_made >= _MAKE_PARTITIONS_EVERY:
            self._partitions_made = now if make_partitions_ahead(now) else None

    def after_outage(self, now: datetime) -> None:
        """Workers could not reach the database either: their silence means nothing until they had time to speak."""
        self._no_rescue_before = now + timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)


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


def make_partitions_ahead(now: datetime) -> bool:
    """Have the tables of the coming months ready before the first fire asks for one. False: try again soon."""
    try:
        made = partitions.make_ahead(now)
    except OperationalError as error:
        # Somebody holds a lock on the table. There are months in hand, and an insert makes what it lacks.
        events.warn("partitions could not be made ahead", error=type(error).__name__)
        return False
    if made:
        events.emit("partitions are made ahead", months=",".join(map(str, made)))
    return True
