"""All stored schedules due at once, from the moment at which the beats may begin until everything is queued.

One transaction takes the schedules' table, makes all of them active and due, and is committed when the next tick of
each beat asks for the table. There the clock starts, so neither the start of a beat nor its pause between two ticks
counts. It ends when every fire has a row that is QUEUED, which a row is once the broker has confirmed its message. The
CPU time is that of the beats' processes between the two; what the servers pay is read a moment before and after.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from benchmarks import our_beat
from benchmarks.costs import Meter, Reading
from benchmarks.cpu_time import cpu_seconds_of
from benchmarks.stage import Process, Stage

_MAKE_ALL_DUE = (
    "UPDATE onbeat_schedule SET is_active = true, next_fire_at = now(), version = version + 1 WHERE NOT is_active"
)
# A tick reads schedules first of all. The duties of the upkeep read jobs, and their schedules beside them.
_AT_THE_DOOR = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = %s AND wait_event_type = 'Lock' AND backend_type = 'client backend'
    AND query ~ 'FROM "?onbeat_schedule'
"""


@dataclass(frozen=True)
class Burst:
    seconds: float
    cpu_seconds: float  # of all beats together
    paid: tuple[Reading, Reading]  # by the servers, until the beginning and until the end


def fire_all_at_once(stage: Stage, beats: Sequence[Process], queued: int) -> Burst:
    """Of beats that are connected, until so many executions are queued."""
    meter = Meter(stage)
    with psycopg.connect(stage.database_url) as door:
        our_beat.wait_for_end_of_tick(beats)  # so that none of them is in the middle of another one
        door.execute("LOCK TABLE onbeat_schedule IN ACCESS EXCLUSIVE MODE")
        door.execute(_MAKE_ALL_DUE)
        our_beat.wait_until(beats, lambda: _at_the_door(stage) >= len(beats), what="each beat asks for its schedules")
        paid = meter.read()
        cpu, started = cpu_seconds_of(beats), time.monotonic()
        door.commit()
    our_beat.wait_until_queued(stage, beats, queued)
    return Burst(time.monotonic() - started, cpu_seconds_of(beats) - cpu, (paid, meter.read()))


def _at_the_door(stage: Stage) -> int:
    row = stage.observer.execute(_AT_THE_DOOR, [stage.name]).fetchone()
    assert row is not None
    return int(row[0])
