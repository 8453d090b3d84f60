"""How late fires are when a beat is killed, in the middle of a burst and while others come steadily.

Two real `manage.py run_beat` processes that have fired and share the shards, on PostgreSQL, Redis and RabbitMQ. All
fires are due at instants to come, so the beats plan them up to the look-ahead before (`benchmarks/series.py`): so many
per second from two seconds before the burst until some seconds after it, and a burst at one instant. When the broker
has a tenth of the burst's messages, one of the beats is killed with SIGKILL; if nothing of its shards is left to
publish then, there is no figure.

The lateness of a fire is from its fire time to `queued_at` of its execution, the moment at which the beat has the
broker's confirms, by the database's clock. All fires count, those of the burst and the steady ones. What the killed one
had sent and not written down yet is sent again by the other: these messages are counted, and a worker drops them. If a
fire has no execution, more than one, or no message, there is no figure.

All of it several times, each with two new beats on the database that was emptied; the worst is told.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from benchmarks import fired, our_beat, series, surroundings
from benchmarks.arguments import positive
from benchmarks.budgets import Line, table
from benchmarks.fired import Fired
from benchmarks.series import Series, Timed
from benchmarks.stage import Process, Stage, named_services, on_stage
from launcher.progress import step
from launcher.refusal import Refusal

FIRES = 4000
RATE = 100
SECONDS = 8
TIMES = 3
_STEADY_BEFORE = timedelta(seconds=2)
_PATIENCE_SECONDS = 60
_LOOK_SECONDS = 0.25  # whoever asks more often makes fires late
_LOOK_OFTEN_SECONDS = 0.005


WHAT = "how late fires are when a beat is killed in the middle of a burst"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--fires", type=positive, default=FIRES, help=f"how many are due at once (default {FIRES})")
    options.add_argument("--rate", type=positive, default=RATE, help=f"steady fires per second (default {RATE})")
    options.add_argument(
        "--seconds", type=positive, default=SECONDS, help=f"how long these go on after the burst (default {SECONDS})"
    )
    options.add_argument("--times", type=positive, default=TIMES, help=f"how often a beat is killed (default {TIMES})")


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.fires, options.rate, options.seconds, options.times)


def measure(fires: int = FIRES, rate: int = RATE, seconds: int = SECONDS, times: int = TIMES) -> dict[str, Any]:
    named = named_services()
    load_before = surroundings.load()
    with on_stage(named) as stage:
        our_beat.prepare(stage)
        runs = [_run(stage, fires, rate, seconds) for _ in range(times)]
    worst = worst_of(runs)
    lines = [
        Line("latest", "the latest of all fires (aim: 2 s)", worst["latest_s"], "s", 5),
        Line("latest_steady", "the latest of the steady ones", worst["latest_steady_s"], "s"),
        Line("takeover", "from the kill until all of the burst is queued", worst["takeover_s"], "s"),
        Line("sent_twice", "messages sent a second time", worst["sent_twice"], "messages"),
    ]
    return {
        **worst,
        "are_all_met": all(line.is_met is not False for line in lines),
        "lines": [line.as_json() for line in lines],
        "runs": runs,
        **surroundings.told(named, load_before=load_before),
    }


def worst_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure the largest."""
    return {name: max(run[name] for run in runs) for name in runs[0]}


def _run(stage: Stage, fires: int, rate: int, seconds: int) -> dict[str, Any]:
    with step(print, f"Storing {fires:,} schedules that fire at once, and {rate:,} for each second"):
        our_beat.clear()
        over_seconds = _STEADY_BEFORE.total_seconds() + seconds
        steady = series.store("steady", series.steady(rate=rate, seconds=over_seconds))
        burst = series.store("burst", [Timed(_STEADY_BEFORE)] * fires)
    with step(print, "Starting two beats, until they share"):
        beats = our_beat.start_all(stage, 2)
        names = [our_beat.name_of(beat) for beat in beats]
    with step(print, f"Firing {fires:,} at once and {rate:,} per second, and killing a beat"):
        begins_at = series.set_off(steady, burst)
        _wait_for_tenth(stage, beats, fires, due_at=begins_at + _STEADY_BEFORE, rate=rate)
        killed_at, left = _kill(beats[0], burst)
        left_by_killed = len(fired.by_beat(left, names)[names[0]])
        if not left_by_killed:
            raise Refusal("The beat had published all of its own before it could be killed: ask for more by --fires.")
        every = our_beat.FIRST + steady.fires + burst.fires
        _wait_for_all(beats[1], every, seconds=seconds + _PATIENCE_SECONDS)
    our_beat.end(beats[1:])
    with step(print, "Looking at each fire and its messages"):
        rows, messages = fired.read(), fired.take_messages(stage)
        sent_twice = fired.see_that_each_is_there_once(rows, messages, fires=every)
        figures = figures_of(fired.read(burst.prefix), fired.read(steady.prefix), killed_at=killed_at)
    return {
        **figures,
        "lost": 0,  # as was seen above
        "doubled": 0,
        "sent_twice": sent_twice,
        "left_when_killed": len(left),
        "left_by_killed": left_by_killed,
    }


def _wait_for_tenth(stage: Stage, beats: Sequence[Process], fires: int, *, due_at: datetime, rate: int) -> None:
    """Until the broker has a tenth of the burst. It is asked often, and only once the burst is due."""
    from executions.clock import database_now

    our_beat.wait_until(beats, lambda: database_now() >= due_at, what="the burst is due")
    others = our_beat.FIRST + int(rate * _STEADY_BEFORE.total_seconds())
    our_beat.wait_until(
        beats,
        lambda: stage.depth(our_beat.QUEUE) >= others + fires / 10,
        what="the broker has a tenth of the burst",
        every=_LOOK_OFTEN_SECONDS,
    )


def _kill(beat: Process, burst: Series) -> tuple[datetime, list[Fired]]:
    """Returns the moment, and what was left of the burst then."""
    from executions.clock import database_now

    beat.kill()
    return database_now(), [row for row in fired.read(burst.prefix) if row.queued_at is None]


def _wait_for_all(beat: Process, fires: int, *, seconds: float) -> None:
    what = f"{fires:,} executions are queued"
    beat.wait_until(lambda: our_beat.queued() >= fires, what=what, seconds=seconds, every=_LOOK_SECONDS)


def figures_of(burst: Sequence[Fired], steady: Sequence[Fired], *, killed_at: datetime) -> dict[str, Any]:
    last_of_burst = max(row.queued_at for row in burst if row.queued_at is not None)
    return {
        "fires": len(burst) + len(steady),
        "latest_s": round(max(row.late_seconds for row in (*burst, *steady)), 3),
        "latest_steady_s": round(max(row.late_seconds for row in steady), 3),
        "takeover_s": round((last_of_burst - killed_at).total_seconds(), 3),
    }


def in_words(figures: dict[str, Any]) -> str:
    each = ", ".join(f"{run['latest_s']:g} s" for run in figures["runs"])
    counted = f"{figures['fires']:,} fires each time, none lost, none doubled; the latest of each time: {each}."
    return "\n".join([table(figures["lines"]), "", counted, surroundings.in_words(figures)])
