"""How fast a worker empties a queue, watched from outside in the same way whoever the worker is.

All messages wait in the queue before the worker is started. The first of them are its warm-up: it starts, connects and
imports while they wait, and its processes get to know their task with them. Every 50 ms the broker is asked how many
are left, and the kernel how much CPU time the worker and its children have used. The stretch that counts begins with
the first look that sees the warm-up gone and ends with the last look that sees any message; what counts is how many
went from the queue between these two. As many are in the hands of the worker at its end as at its beginning: one for
each of its processes. What one costs the servers is read from when the worker is warm until the queue is empty.

When the queue is empty the worker is told to end, which it does when it has done what it holds. What it has not
acknowledged then is in the queue again, and what it has rejected is with the dead letters: either leaves no figure.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import costs, cpu_time
from benchmarks.costs import Meter
from benchmarks.stage import Process, Stage
from launcher.refusal import Refusal

WARM_UP = 200
_LOOK_SECONDS = 0.05
_SLOWEST_PER_S = 20  # whoever is slower than this is taken to hang
_END_SECONDS = 30


@dataclass(frozen=True)
class Look:
    left: int
    at: float
    cpu_seconds: float


@dataclass(frozen=True)
class Stretch:
    executions: int
    seconds: float
    cpu_seconds: float
    costs: Mapping[str, float | None] = field(default_factory=dict)  # what each costs the servers

    @property
    def per_s(self) -> float:
        return self.executions / self.seconds

    @property
    def cpu_ms_per_execution(self) -> float:
        return self.cpu_seconds * 1000 / self.executions


def drain(stage: Stage, worker: Process, *, queue: str, dead_letters: str, executions: int) -> Stretch:
    """Of a worker that was just started, on a queue with so many messages and those of the warm-up."""
    looks: list[Look] = []

    def is_empty() -> bool:
        looks.append(Look(stage.depth(queue), time.monotonic(), cpu_seconds_of_session(worker.pid)))
        return not looks[-1].left

    meter = Meter(stage)
    worker.wait_until(lambda: stage.depth(queue) <= executions, what="the worker is warm")
    paid = meter.read()
    patience = 60 + executions / _SLOWEST_PER_S
    worker.wait_until(is_empty, what="the queue is empty", seconds=patience, every=_LOOK_SECONDS)
    each_cost = costs.per(max(looks[0].left, 1), paid, meter.read())
    _end(worker)
    left, rejected = stage.depth(queue), stage.depth(dead_letters)
    if left or rejected:
        raise Refusal(f"{left:,} messages came back and {rejected:,} were rejected: no figure is worth that.")
    return replace(stretch(looks), costs=each_cost)


def stretch(looks: Sequence[Look]) -> Stretch:
    seen = [look for look in looks if look.left]
    if len(seen) < 2:
        raise Refusal("All were done before anybody could look twice: ask for more with --executions.")
    first, last = seen[0], seen[-1]
    return Stretch(first.left - last.left, last.at - first.at, last.cpu_seconds - first.cpu_seconds)


def together(turns: Sequence[Stretch]) -> Stretch:
    """Several stretches of the same worker as one."""
    return Stretch(
        executions=sum(turn.executions for turn in turns),
        seconds=sum(turn.seconds for turn in turns),
        cpu_seconds=sum(turn.cpu_seconds for turn in turns),
        costs=costs.together([(turn.executions, turn.costs) for turn in turns]),
    )


def _end(worker: Process) -> None:
    worker.popen.send_signal(signal.SIGTERM)
    try:
        worker.popen.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        raise Refusal(f"{worker.name} was told to end and has not within {_END_SECONDS} s.") from None


def cpu_seconds_of_session(leader: int) -> float:
    """Of a process that was started on a stage, and of all that it started."""
    seconds = 0.0
    for entry in Path("/proc").iterdir():
        with suppress(ValueError, ProcessLookupError, FileNotFoundError):  # not a process, or one that has ended
            if os.getsid(pid := int(entry.name)) == leader:
                seconds += cpu_time.cpu_seconds(pid)
    return seconds
