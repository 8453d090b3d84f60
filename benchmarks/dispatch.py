"""How many fires per second one beat brings to the broker when all its schedules are due at once, beside its peers and
beside what the broker takes at most.

A real `manage.py run_beat` on PostgreSQL, Redis and RabbitMQ that has fired a thousand others, so that it is connected
and the servers are warm: a RabbitMQ that was just started takes twice as long. The schedules are stored but not active,
and nothing is planned. How they become due, and from when until when the time and the CPU of the beat's process are
counted, is told in `benchmarks/burst.py`.

When the beat is gone, the broker is given the messages of the same executions once more, ready-made:
`benchmarks/broker_limit.py`. Then come the peers, each on a stage of its own and one after another:
`benchmarks/peers.py`. All of it has several turns, and each figure is of all turns together: a machine that others use
as well may be half as fast a minute later, and each turn takes some seconds.
"""

import os
import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import broker_limit, costs, cpu_time, our_beat, peers
from benchmarks.arguments import count, positive
from benchmarks.budgets import Line
from benchmarks.burst import Burst, fire_all_at_once
from benchmarks.peers import Peer
from benchmarks.stage import Stage, named_services, on_stage
from launcher.progress import step
from launcher.refusal import Refusal
from launcher.service_record import Addresses

if TYPE_CHECKING:
    from executions.outgoing import Outgoing

LEAST_RATIO_PEER = 80
LEAST_RATIO_LIMIT = 0.35
TURNS = 3
_WARM_UP = 1000


WHAT = "how many fires per second one beat brings to the broker, beside other beats and what the broker takes"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--fires", type=positive, default=20_000, help="how many are due at once (default 20000)")
    for peer in peers.ALL:
        name, what = _fires(peer).replace("_", "-"), f"the same for {peer.package} (default {peer.fires}); 0: none"
        options.add_argument(f"--{name}", type=count, default=peer.fires, help=what)
    options.add_argument("--turns", type=positive, default=TURNS, help=f"how often each is measured (default {TURNS})")
    keeps = "let django-celery-beat keep its database connection (CONN_MAX_AGE = None), which is not Django's default"
    options.add_argument("--peer-keeps-connection", action="store_true", help=keeps)


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    asked = {peer: fires for peer in peers.ALL if (fires := getattr(options, _fires(peer)))}
    return measure(options.fires, asked, turns=options.turns, peer_keeps_connection=options.peer_keeps_connection)


def _fires(peer: Peer) -> str:
    return f"{peer.key}_fires"


@dataclass(frozen=True)
class _Turn:
    burst: Burst
    limit_per_s: float
    peers_per_s: dict[Peer, float]


def measure(
    fires: int, of_peers: dict[Peer, int], *, turns: int = TURNS, peer_keeps_connection: bool = False
) -> dict[str, Any]:
    """Beside those peers that are named, with so many fires each in each turn."""
    cpu_time.see_that_it_is_told()
    named = named_services()
    names = _names(named, of_peers)
    load = os.getloadavg()[0]
    taken = [_take_turn(named, fires, of_peers, peer_keeps_connection=peer_keeps_connection) for _ in range(turns)]
    seconds = sum(turn.burst.seconds for turn in taken) / turns
    limit_per_s = _per_second([turn.limit_per_s for turn in taken])
    figures: dict[str, Any] = {
        "fires": fires,
        "turns": turns,
        "seconds": round(seconds, 3),
        "fires_per_s": round(fires / seconds),
        "beat_cpu_us_per_fire": round(sum(turn.burst.cpu_seconds for turn in taken) / turns / fires * 1e6, 1),
        "costs": costs.together([(fires, costs.per(fires, *turn.burst.paid)) for turn in taken]),
        "broker_limit_per_s": round(limit_per_s),
        "ratio_limit": round(fires / seconds / limit_per_s, 3),
        "peer_keeps_connection": peer_keeps_connection,
    }
    for peer, number in of_peers.items():
        peer_per_s = _per_second([turn.peers_per_s[peer] for turn in taken])
        figures |= {peer.key: names[peer], _fires(peer): number, f"{_fires(peer)}_per_s": round(peer_per_s, 1)}
        if peer is peers.DJANGO_CELERY_BEAT:
            figures["ratio_peer"] = round(fires / seconds / peer_per_s, 1)
    lines = _lines(figures)
    return figures | {
        "are_all_met": all(line.is_met is not False for line in lines),
        "lines": [line.as_json() for line in lines],
        "database": "postgresql",
        "broker": "amqp",
        "redis": bool(named.redis_url),
        "cores": os.cpu_count(),
        "load_before": round(load, 2),  # of others: what they take is missing here
    }


def _take_turn(named: Addresses, fires: int, of_peers: dict[Peer, int], *, peer_keeps_connection: bool) -> _Turn:
    with on_stage(named) as stage:
        burst = _time_our_beat(stage, fires)
        limit_per_s = broker_limit.messages_per_second(stage, _burst_again())
    peers_per_s = {}
    for peer, number in of_peers.items():
        with on_stage(named) as stage:
            peers_per_s[peer] = peers.fires_per_second(stage, peer, number, keeps_connection=peer_keeps_connection)
    return _Turn(burst, limit_per_s, peers_per_s)


def _per_second(in_each_turn: Sequence[float]) -> float:
    """Of all turns together, which had as many each."""
    return statistics.harmonic_mean(in_each_turn)


def _names(named: Addresses, of_peers: Iterable[Peer]) -> dict[Peer, str]:
    """Refuses who cannot run, before anything takes its time."""
    for peer in of_peers:
        if peer.needs_redis and not named.redis_url:
            option = _fires(peer).replace("_", "-")
            raise Refusal(f"{peer.package} needs Redis: name one in REDIS_URL, or leave it out with --{option} 0.")
    return {peer: peer.name for peer in of_peers}


def _lines(figures: dict[str, Any]) -> list[Line]:
    limit = "fires per second, as a share of the messages that the broker takes"
    lines = [Line("ratio_limit", limit, figures["ratio_limit"], "", LEAST_RATIO_LIMIT, is_minimum=True)]
    if "ratio_peer" in figures:
        peer = f"fires per second, as a multiple of those of {figures['peer']}"
        lines.append(Line("ratio_peer", peer, figures["ratio_peer"], "", LEAST_RATIO_PEER, is_minimum=True))
    return lines


def _time_our_beat(stage: Stage, fires: int) -> Burst:
    with step(print, f"Storing {fires:,} schedules"):
        our_beat.prepare(stage)
        our_beat.store([f"bench-{number}" for number in range(fires)], is_active=False)
    with step(print, f"Starting a beat and letting it fire {_WARM_UP:,}"):
        beat = our_beat.start(stage)
        our_beat.store([f"first-{number}" for number in range(_WARM_UP)], is_active=True)
        beat.wait_until(lambda: our_beat.queued() == _WARM_UP, what="the first fires are queued")
    with step(print, f"Firing {fires:,} at once"):
        burst = fire_all_at_once(stage, [beat], _WARM_UP + fires)
    _see_that_each_fired_once(stage, _WARM_UP + fires)
    beat.kill()  # the broker is to be alone with what comes
    return burst


def _burst_again() -> "list[Outgoing]":
    """What the beat has published, the first fires too."""
    from executions import outbox
    from executions.models import Execution

    return outbox.outgoing(list(Execution.objects.values_list("pk", flat=True)))


def _see_that_each_fired_once(stage: Stage, fires: int) -> None:
    from executions.models import Execution

    rows, messages = Execution.objects.count(), stage.depth(our_beat.QUEUE)
    if rows != fires or messages != fires:
        raise Refusal(f"{fires:,} fires became {rows:,} executions and {messages:,} messages: no figure is worth that.")
