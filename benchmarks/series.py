"""Fires at instants to come, as in earnest: beats plan them ahead and publish each at its time.

A series is stored while it is not active, with the times of its fires counted from the moment of storing. Once the
beats are ready it is set off: its times are moved, so that the first of them is due a little after the look-ahead of a
beat. So nothing of it is planned yet, and nothing is late before it begins.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from benchmarks import our_beat
from launcher.refusal import Refusal

_MARGIN = timedelta(seconds=2)

_SET_OFF = """
    UPDATE onbeat_schedule
    SET is_active = true, next_fire_at = next_fire_at + make_interval(secs => %s), version = version + 1
    WHERE job_id IN (SELECT id FROM onbeat_job WHERE key LIKE %s)
"""


class Timed(NamedTuple):
    """One fire of a series."""

    after: timedelta  # it begins
    priority: int = 5  # as a job has it that says none


@dataclass(frozen=True)
class Series:
    """Made by `store`. The keys of its jobs begin with its prefix."""

    prefix: str
    begins_at: datetime  # as it is stored
    fires: int


def steady(*, rate: int, seconds: float) -> list[Timed]:
    """Evenly spread, to the millisecond."""
    return [Timed(timedelta(milliseconds=number * 1000 // rate)) for number in range(int(rate * seconds))]


def store(prefix: str, fires: Iterable[Timed]) -> Series:
    from executions.clock import database_now

    begins_at = database_now().replace(microsecond=0)
    to_fire = [
        our_beat.ToFire(f"{prefix}-{number}", begins_at + fire.after, fire.priority)
        for number, fire in enumerate(fires)
    ]
    our_beat.store_each(to_fire, is_active=False)
    return Series(f"{prefix}-", begins_at, len(to_fire))


def set_off(*every: Series) -> datetime:
    """Returns the instant at which they begin, all of them together."""
    from django.conf import settings
    from django.db import connection, transaction

    from executions.clock import database_now

    look_ahead = timedelta(seconds=settings.ONBEAT_BEAT_LOOK_AHEAD_SECONDS)
    begins_at = (database_now() + look_ahead + _MARGIN).replace(microsecond=0) + timedelta(seconds=1)
    with connection.cursor() as cursor:
        with transaction.atomic():
            for series in every:
                later_seconds = (begins_at - series.begins_at).total_seconds()
                cursor.execute(_SET_OFF, [later_seconds, f"{series.prefix}%"])
        cursor.execute("VACUUM ANALYZE onbeat_schedule")  # what was moved left its old place behind
    if database_now() + look_ahead > begins_at:
        raise Refusal("The database took too long to set the fires off: ask for fewer, or when it has less to do.")
    return begins_at
