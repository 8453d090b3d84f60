"""How long the fires of a beat wait that is killed in the middle of a burst.

Two real `manage.py run_beat` processes that have fired, so that they are connected and share the work, on PostgreSQL,
Redis and RabbitMQ. One statement makes all schedules due at once. When the broker has a tenth of the messages, one of
the beats is killed with SIGKILL, and there the clock starts. It ends when every fire has a row that is QUEUED. What the
killed one had sent and not written down yet is sent again by the other: these messages are counted, and a worker drops
them.
"""

import time
from argparse import ArgumentParser, Namespace
from typing import Any

import psycopg

from benchmarks import our_beat
from benchmarks.arguments import positive
from benchmarks.stage import Process, Stage, named_services, on_stage
from launcher.progress import step
from launcher.refusal import Refusal

_FIRST = 64


WHAT = "how long the fires of a beat wait that is killed in the middle of a burst"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--fires", type=positive, default=4000, help="how many are due at once (default 4000)")


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.fires)


def measure(fires: int) -> dict[str, Any]:
    named = named_services()
    with on_stage(named) as stage:
        with step(print, f"Storing {fires:,} schedules"):
            our_beat.prepare(stage)
            our_beat.store([f"bench-{number}" for number in range(fires)], is_active=False)
        with step(print, "Starting two beats and letting them fire once"):
            killed, other = (our_beat.start(stage, f"beat-{number}") for number in (1, 2))
            other.wait_until(our_beat.do_two_share, what="the beats share the work")
            our_beat.store([f"first-{number}" for number in range(_FIRST)], is_active=True)
            other.wait_until(lambda: our_beat.queued() == _FIRST, what="the first fires are queued")
        with step(print, f"Firing {fires:,} at once, and killing a beat"):
            seconds, left = _time_after_kill(stage, killed, other, fires + _FIRST)
        twice = _see_that_none_is_missing(stage, fires + _FIRST)
    return {
        "fires": fires,
        "left_when_killed": left,
        "takeover_s": round(seconds, 2),
        "sent_twice": twice,
        "redis": bool(named.redis_url),
    }


def _time_after_kill(stage: Stage, killed: Process, other: Process, fires: int) -> tuple[float, int]:
    with psycopg.connect(stage.database_url) as database:
        database.execute(our_beat.MAKE_ALL_DUE)
    other.wait_until(
        lambda: stage.depth(our_beat.QUEUE) > _FIRST + fires // 10, what="the burst has begun", every=0.005
    )
    killed.kill()
    started = time.monotonic()
    left = fires - our_beat.queued()
    if left <= 0:
        raise Refusal("All were published before the beat could be killed: ask for more with --fires.")
    other.wait_until(lambda: our_beat.queued() >= fires, what=f"{fires:,} executions are queued")
    return time.monotonic() - started, left


def _see_that_none_is_missing(stage: Stage, fires: int) -> int:
    """Returns how many messages were sent a second time."""
    from executions.models import Execution

    rows, messages = Execution.objects.count(), stage.depth(our_beat.QUEUE)
    if rows != fires or messages < fires:
        raise Refusal(f"{fires:,} fires became {rows:,} executions and {messages:,} messages: no figure is worth that.")
    return messages - fires
