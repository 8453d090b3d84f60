"""How many fires per second one beat brings to the broker when all its schedules are due at once, beside a peer.

A real `manage.py run_beat` that has fired once, so that it is connected, on PostgreSQL, Redis and RabbitMQ. The
schedules are stored but not active, and nothing is planned. One transaction takes the schedules' table, makes all of
them active and due, and is committed when the beat's next tick asks for the table. There the clock starts, so neither
the beat's start nor its pause between two ticks counts. It ends when every fire has a row that is QUEUED, which a row
is once the broker has confirmed its message.

How the peer is measured is told in `benchmarks/peer.py`.
"""

import time
from argparse import ArgumentParser, Namespace
from typing import Any

import psycopg

from benchmarks import our_beat, peer
from benchmarks.arguments import count, positive
from benchmarks.stage import Process, Stage, named_services, on_stage
from launcher.progress import step
from launcher.refusal import Refusal

WHAT = "how many fires per second one beat brings to the broker, beside django-celery-beat"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--fires", type=positive, default=20_000, help="how many are due at once (default 20000)")
    options.add_argument("--peer-fires", type=count, default=1000, help="the same for the peer (default 1000); 0: none")
    keeps = "let the peer keep its database connection (CONN_MAX_AGE = None), which is not Django's default"
    options.add_argument("--peer-keeps-connection", action="store_true", help=keeps)


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.fires, options.peer_fires, peer_keeps_connection=options.peer_keeps_connection)


def measure(fires: int, peer_fires: int, *, peer_keeps_connection: bool = False) -> dict[str, Any]:
    """Without any fires of the peer it is left out, and there is no ratio."""
    named = named_services()
    if peer_fires:
        peer.see_that_it_is_installed()
    with on_stage(named) as stage:
        seconds = _time_our_beat(stage, fires)
    figures = {
        "fires": fires,
        "seconds": round(seconds, 3),
        "fires_per_s": round(fires / seconds),
        "database": "postgresql",
        "broker": "amqp",
        "redis": bool(named.redis_url),
    }
    if not peer_fires:
        return figures
    with on_stage(named) as stage:
        peer_fires_per_s = peer.fires_per_second(stage, peer_fires, keeps_connection=peer_keeps_connection)
    return figures | {
        "peer": peer.NAME,
        "peer_keeps_connection": peer_keeps_connection,
        "peer_fires": peer_fires,
        "peer_fires_per_s": round(peer_fires_per_s, 1),
        "ratio_peer": round(fires / seconds / peer_fires_per_s, 1),
    }


def _time_our_beat(stage: Stage, fires: int) -> float:
    with step(print, f"Storing {fires:,} schedules"):
        our_beat.prepare(stage)
        our_beat.store([f"bench-{number}" for number in range(fires)], is_active=False)
    with step(print, "Starting a beat and letting it fire once"):
        beat = our_beat.start(stage)
        our_beat.store(["first"], is_active=True)
        beat.wait_until(lambda: our_beat.queued() == 1, what="the first fire is queued")
    with step(print, f"Firing {fires:,} at once"):
        started = _make_all_due(stage, beat)
        our_beat.wait_until_queued(stage, beat, fires + 1)
        seconds = time.monotonic() - started
    _see_that_each_fired_once(stage, fires + 1)
    return seconds


def _make_all_due(stage: Stage, beat: Process) -> float:
    """Returns the moment at which the beat may begin."""
    with psycopg.connect(stage.database_url) as door:
        _wait_for_end_of_tick(beat)  # the upkeep of a tick asks for the table as well
        door.execute("LOCK TABLE onbeat_schedule IN ACCESS EXCLUSIVE MODE")
        door.execute(our_beat.MAKE_ALL_DUE)
        beat.wait_until(lambda: _is_at_the_door(stage), what="the beat asks for its schedules")
        started = time.monotonic()
        door.commit()
    return started


def _wait_for_end_of_tick(beat: Process) -> None:
    from beat.models import Beat

    last = Beat.objects.get().ticked_at
    beat.wait_until(lambda: Beat.objects.filter(ticked_at__gt=last).exists(), what="the beat has ticked again")


def _is_at_the_door(stage: Stage) -> bool:
    waiting = (
        "SELECT 1 FROM pg_stat_activity "
        "WHERE datname = %s AND wait_event_type = 'Lock' AND backend_type = 'client backend'"
    )
    return stage.observer.execute(waiting, [stage.name]).fetchone() is not None


def _see_that_each_fired_once(stage: Stage, fires: int) -> None:
    from executions.models import Execution

    rows, messages = Execution.objects.count(), stage.depth(our_beat.QUEUE)
    if rows != fires or messages != fires:
        raise Refusal(f"{fires:,} fires became {rows:,} executions and {messages:,} messages: no figure is worth that.")
