"""What more beats bring: the same fires due at once, for one, two and four beats.

Real `manage.py run_beat` processes that have fired and share the shards, on PostgreSQL, Redis and RabbitMQ, each number
of them on the same database, which is emptied in between. The schedules are stored but not active, and nothing is
planned. How they become due, and from when until when the time and the CPU of all beats together are counted, is told
in `benchmarks/burst.py`.

A lease that is refused is a fire which a beat read for nothing, since another beat carries it; beats count these
themselves, in their registry. Without Redis none is asked for.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks import cpu_time, fired, our_beat, surroundings
from benchmarks.arguments import numbers, positive
from benchmarks.budgets import Line, table
from benchmarks.burst import fire_all_at_once
from benchmarks.stage import Process, Stage, named_services, on_stage
from launcher.progress import step

FIRES = 20_000
BEATS = (1, 2, 4)
_LARGEST_LOST_LEASE_SHARE = 0.05


WHAT = "what more beats bring, and what they do for nothing"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--fires", type=positive, default=FIRES, help=f"how many are due at once (default {FIRES})")
    how_many = ",".join(map(str, BEATS))
    options.add_argument("--beats", type=numbers, default=BEATS, help=f"how many beats, in turn (default {how_many})")


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.fires, options.beats)


def measure(fires: int = FIRES, beats: Sequence[int] = BEATS) -> dict[str, Any]:
    cpu_time.see_that_it_is_told()
    named = named_services()
    load_before = surroundings.load()
    with on_stage(named) as stage:
        our_beat.prepare(stage)
        runs = [_run(stage, count, fires) for count in beats]
    largest = max(run["lost_lease_share"] for run in runs)
    lines = [_line(run) for run in runs]
    what = "leases refused, of all that were asked for, at most"
    lines.append(Line("lost_lease_share", what, largest, "", _LARGEST_LOST_LEASE_SHARE))
    return {
        "fires": fires,
        "runs": runs,
        "largest_lost_lease_share": largest,
        "are_all_met": all(line.is_met is not False for line in lines),
        "lines": [line.as_json() for line in lines],
        **surroundings.told(named, load_before=load_before),
    }


def _run(stage: Stage, count: int, fires: int) -> dict[str, Any]:
    every = fires + our_beat.FIRST
    with step(print, f"Storing {fires:,} schedules and starting {count} of our beats"):
        our_beat.clear()
        our_beat.store([f"bench-{number}" for number in range(fires)], is_active=False)
        beats = our_beat.start_all(stage, count)
    with step(print, f"Firing {fires:,} at once"):
        leases = _leases(beats)
        burst = fire_all_at_once(stage, beats, every)
        leases = _leases(beats).since(leases)
    our_beat.end(beats)
    with step(print, "Looking at each fire and its messages"):
        rows, messages = fired.read(), fired.take_messages(stage)
        sent_twice = fired.see_that_each_is_there_once(rows, messages, fires=every)
    return {
        "beats": count,
        "seconds": round(burst.seconds, 3),
        "fires_per_s": round(fires / burst.seconds),
        "cpu_us_per_fire": round(burst.cpu_seconds / fires * 1e6, 1),
        "leases_asked": leases.asked,
        "leases_refused": leases.refused,
        "lost_lease_share": round(leases.lost_share, 4),
        "sent_twice": sent_twice,
    }


class Leases(NamedTuple):
    asked: int
    refused: int

    def since(self, before: "Leases") -> "Leases":
        return Leases(self.asked - before.asked, self.refused - before.refused)

    @property
    def lost_share(self) -> float:
        return self.refused / self.asked if self.asked else 0.0


def _leases(beats: Sequence[Process]) -> Leases:
    """Of all beats since they began, as told by each at the end of a tick that is yet to end."""
    from beat.models import Beat

    our_beat.wait_for_end_of_tick(beats)
    told = Beat.objects.filter(pid__in=[beat.pid for beat in beats]).values_list("leases_asked", "leases_refused")
    return Leases(*map(sum, zip(*told, strict=True)))


def _line(run: dict[str, Any]) -> Line:
    what = f"{run['beats']} of our beats, {run['cpu_us_per_fire']} µs of CPU a fire"
    return Line(f"fires_per_s_{run['beats']}", what, run["fires_per_s"], "fires/s")


def in_words(figures: dict[str, Any]) -> str:
    return "\n".join([table(figures["lines"]), "", surroundings.in_words(figures)])
