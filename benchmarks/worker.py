"""How many executions per second one worker runs whose task does nothing, beside plain Celery.

Prefork with two processes, on PostgreSQL and RabbitMQ; all messages wait before the worker starts. First our worker, as
`./onbeat up` starts it (`benchmarks/our_worker.py`), then one after another the same worker of plain Celery, with and
without results (`benchmarks/plain_worker.py`), each on a stage of its own. When the clock starts and ends, and what
counts, is told in `benchmarks/drained.py`; it is the same for all. Each has several turns, with a part of the
executions in each: a machine that others use as well may be twice as fast a minute later.

CPU is what the kernel counts for the worker and its children. That of PostgreSQL and RabbitMQ, which have to share the
machine with them, is not in it; it is in the executions per second.
"""

import math
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from benchmarks import budgets, cpu_time, drained, our_worker, plain_worker
from benchmarks.arguments import positive
from benchmarks.budgets import Line
from benchmarks.drained import Stretch
from benchmarks.stage import named_services, on_stage

EXECUTIONS = 5_000
TURNS = 3
LEAST_RATIOS = {"plain": 0.42, "results": 1.3}


WHAT = "how many executions per second one worker runs, beside plain Celery with and without results"


def add_options(options: ArgumentParser) -> None:
    how_many = f"how many are run by each, after those of the warm-up (default {EXECUTIONS})"
    options.add_argument("--executions", type=positive, default=EXECUTIONS, help=how_many)
    options.add_argument("--turns", type=positive, default=TURNS, help=f"in how many turns (default {TURNS})")


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.executions, options.turns)


def measure(executions: int, turns: int) -> dict[str, Any]:
    cpu_time.see_that_it_is_told()
    named = named_services()
    load = os.getloadavg()[0]
    in_each = math.ceil(executions / turns)
    of_ours: list[Stretch] = []
    of_peers: dict[str, list[Stretch]] = {peer.name: [] for peer in plain_worker.PEERS}
    for _ in range(turns):
        with on_stage(named) as stage:
            of_ours.append(our_worker.measure(stage, in_each))
        for peer in plain_worker.PEERS:
            with on_stage(named) as stage:
                of_peers[peer.name].append(plain_worker.measure(stage, peer, in_each))
    ours, peers = drained.together(of_ours), {name: drained.together(its) for name, its in of_peers.items()}
    lines = compared(ours, peers)
    return {
        "executions": executions,
        "turns": turns,
        "executions_per_s": round(ours.per_s),
        **{f"{name}_per_s": round(peer.per_s) for name, peer in peers.items()},
        **{line.name: line.figure for line in lines if line.name.startswith("ratio_")},
        "worker_cpu_ms_per_execution": round(ours.cpu_ms_per_execution, 3),
        "costs": ours.costs,
        **{f"{name}_cpu_ms_per_execution": round(peer.cpu_ms_per_execution, 3) for name, peer in peers.items()},
        "are_all_met": all(line.is_met is not False for line in lines),
        "lines": [line.as_json() for line in lines],
        "database": "postgresql",
        "broker": "amqp",
        "redis": bool(named.redis_url),
        "cores": os.cpu_count(),
        "load_before": round(load, 2),  # of others: what they take is missing here
    }


def compared(ours: Stretch, peers: Mapping[str, Stretch]) -> list[Line]:
    what = {peer.name: peer.what for peer in plain_worker.PEERS}
    lines = [Line("executions", "executions by our worker", round(ours.per_s), "per s")]
    lines += [Line(name, f"by {what[name]}", round(peer.per_s), "per s") for name, peer in peers.items()]
    for name, peer in peers.items():
        ratio, least = round(ours.per_s / peer.per_s, 2), LEAST_RATIOS.get(name)
        lines.append(
            Line(f"ratio_{name}", f"ours, against {what[name]}", ratio, "times", least, is_minimum=least is not None)
        )
    return lines


def in_words(figures: dict[str, Any]) -> str:
    ours, plain = figures["worker_cpu_ms_per_execution"], figures["plain_cpu_ms_per_execution"]
    cpu = f"CPU of our worker: {ours:.2f} ms for an execution; of plain Celery: {plain:.2f} ms."
    machine = f"{figures['cores']} cores, with a load of {figures['load_before']} before it began."
    return "\n".join([budgets.table(figures["lines"]), "", cpu, machine])
