"""How late fires are: while they come steadily, and when thousands are due at one instant.

Two real `manage.py run_beat` processes that have fired and share the shards, on PostgreSQL, Redis and RabbitMQ. All
fires are due at instants to come, so the beats plan them up to the look-ahead before and publish them at their time
(`benchmarks/series.py`). First so many per second, evenly spread. When all of these are queued, a burst: all due at one
instant, with priorities from 0 to 9 in turn.

The lateness of a fire is from its fire time to `queued_at` of its execution, the moment at which the beat has the
broker's confirms of its batch, by the database's clock. Every fire counts, from the first on. In the burst a beat has
to publish priority 9 before priority 0: no fire of priority 0 may be confirmed before the last of priority 9 of the
same beat; in one batch they are confirmed at the same moment. Which beat published a fire follows from its shard.

CPU is the user and system time of both processes, from the moment at which the steady fires are set off, some seconds
before the first is due, until all of them are queued.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from benchmarks import cpu_time, fired, our_beat, series, surroundings
from benchmarks.arguments import positive
from benchmarks.budgets import Line, milliseconds, percentile, table
from benchmarks.cpu_time import cpu_seconds_of
from benchmarks.fired import Fired
from benchmarks.series import Series, Timed
from benchmarks.stage import Process, Stage, named_services, on_stage
from launcher.progress import step

RATE = 500
SECONDS = 30
BURST = 10_000
_BEATS = 2
_PRIORITIES = 10
_PATIENCE_SECONDS = 120
_LOOK_SECONDS = 0.25  # whoever asks more often makes them late


WHAT = "how late fires are, steadily and in a burst, beside their budgets"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--rate", type=positive, default=RATE, help=f"steady fires per second (default {RATE})")
    options.add_argument("--seconds", type=positive, default=SECONDS, help=f"for how long (default {SECONDS})")
    options.add_argument("--burst", type=positive, default=BURST, help=f"due at one instant (default {BURST})")


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.rate, options.seconds, options.burst)


def measure(rate: int = RATE, seconds: int = SECONDS, burst: int = BURST) -> dict[str, Any]:
    cpu_time.see_that_it_is_told()
    named = named_services()
    load_before = surroundings.load()
    with on_stage(named) as stage:
        with step(print, f"Storing {rate * seconds:,} schedules that fire steadily, and {burst:,} that fire at once"):
            our_beat.prepare(stage)
            steady = series.store("steady", series.steady(rate=rate, seconds=seconds))
            at_once = series.store("burst", (Timed(timedelta(0), number % _PRIORITIES) for number in range(burst)))
        with step(print, "Starting two beats, until they share"):
            beats = our_beat.start_all(stage, _BEATS)
            names = [our_beat.name_of(beat) for beat in beats]
        with step(print, f"Firing {rate:,} per second for {seconds} s"):
            cpu = _fire(stage, beats, steady, over_seconds=seconds, queued_before=our_beat.FIRST)
        with step(print, f"Firing {burst:,} at one instant"):
            _fire(stage, beats, at_once, over_seconds=0, queued_before=our_beat.FIRST + steady.fires)
        our_beat.end(beats)
        with step(print, "Looking at each fire and its messages"):
            sent_twice = fired.see_that_each_is_there_once(
                fired.read(), fired.take_messages(stage), fires=our_beat.FIRST + steady.fires + burst
            )
            steadily, in_burst = fired.read(steady.prefix), fired.by_beat(fired.read(at_once.prefix), names)
    figures = steady_figures(steadily, cpu=cpu, names=names) | burst_figures(in_burst) | {"sent_twice": sent_twice}
    lines = _lines(figures)
    return {
        "rate": rate,
        "seconds": seconds,
        **figures,
        "are_all_met": all(line.is_met is not False for line in lines),
        "lines": [line.as_json() for line in lines],
        **surroundings.told(named, load_before=load_before),
    }


def _fire(stage: Stage, beats: Sequence[Process], fires: Series, *, over_seconds: int, queued_before: int) -> float:
    """Returns the CPU seconds of the beats meanwhile."""
    from executions.clock import database_now

    begins_at, before = series.set_off(fires), cpu_seconds_of(beats)
    may_end = time.monotonic() + (begins_at - database_now()).total_seconds() + over_seconds
    count = queued_before + fires.fires
    our_beat.wait_until(
        beats,
        # The broker is asked only once it can have all: until then the machine is theirs.
        lambda: time.monotonic() > may_end and stage.depth(our_beat.QUEUE) >= count,
        what=f"the broker has {count:,} messages",
        seconds=over_seconds + _PATIENCE_SECONDS,
        every=_LOOK_SECONDS,
    )
    our_beat.wait_until(beats, lambda: our_beat.queued() >= count, what=f"{count:,} executions are queued")
    return cpu_seconds_of(beats) - before


def steady_figures(rows: Sequence[Fired], *, cpu: float, names: Sequence[str]) -> dict[str, Any]:
    late = [row.late_seconds for row in rows]
    return {
        "fires": len(rows),
        "p50_ms": milliseconds(percentile(late, 50)),
        "p95_ms": milliseconds(percentile(late, 95)),
        "p99_ms": milliseconds(percentile(late, 99)),
        "max_ms": milliseconds(max(late)),
        "beat_cpu_us_per_fire": round(cpu / len(rows) * 1e6, 1),
        "batches": _batches(fired.by_beat(rows, names)),
    }


def burst_figures(of_beats: Mapping[str, Sequence[Fired]]) -> dict[str, Any]:
    """Of each beat what it published."""
    late = [row.late_seconds for rows in of_beats.values() for row in rows]
    beats = [_order(rows) for rows in of_beats.values() if rows]
    lasts = [beat["priority_9_last_s"] for beat in beats if beat["priority_9_last_s"] is not None]
    firsts = [beat["priority_0_first_s"] for beat in beats if beat["priority_0_first_s"] is not None]
    return {
        "burst_fires": len(late),
        "burst_p50_s": round(percentile(late, 50), 3),
        "burst_last_s": round(max(late), 3),
        "burst_is_by_priority": not any(beat["out_of_order"] for beat in beats),
        "burst_priority_9_last_s": max(lasts, default=None),
        "burst_priority_0_first_s": min(firsts, default=None),
        "burst_batches": _batches(of_beats),
        "burst_beats": beats,
    }


def _order(rows: Sequence[Fired]) -> dict[str, Any]:
    """In which order one beat published."""
    highest = max((row.late_seconds for row in rows if row.priority == _PRIORITIES - 1), default=None)
    lowest = [row.late_seconds for row in rows if row.priority == 0]
    return {
        "fires": len(rows),
        "priority_9_last_s": None if highest is None else round(highest, 3),
        "priority_0_first_s": round(min(lowest), 3) if lowest else None,
        "out_of_order": 0 if highest is None else sum(1 for late in lowest if late < highest),
    }


def _batches(of_beats: Mapping[str, Sequence[Fired]]) -> int:
    """What one beat published together was confirmed at one moment."""
    return sum(len({row.queued_at for row in rows}) for rows in of_beats.values())


def _lines(figures: dict[str, Any]) -> list[Line]:
    out_of_order = sum(beat["out_of_order"] for beat in figures["burst_beats"])
    return [
        Line("steady_p50", "steady fires, half of them", figures["p50_ms"], "ms", 15),
        Line("steady_p99", "steady fires, 99 of 100", figures["p99_ms"], "ms", 100),
        Line("steady_max", "the latest of them", figures["max_ms"], "ms"),
        Line("steady_cpu", "CPU of both beats for one of them", figures["beat_cpu_us_per_fire"], "µs"),
        Line("burst_last", "the last of the burst", figures["burst_last_s"], "s", 4),
        Line("burst_out_of_order", "of priority 0 before the last of 9, within a beat", out_of_order, "fires", 0),
    ]


def in_words(figures: dict[str, Any]) -> str:
    counted = f"{figures['fires']:,} steady fires in {figures['batches']:,} batches, "
    counted += f"{figures['burst_fires']:,} at one instant in {figures['burst_batches']:,}."
    return "\n".join([table(figures["lines"]), "", counted, surroundings.in_words(figures)])
