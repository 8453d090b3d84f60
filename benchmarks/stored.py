"""What a fire costs a beat that has very much stored, beside one that has little; and whether tables bloat meanwhile.

Twice the same: one real `manage.py run_beat` and one real `manage.py worker` on PostgreSQL, Redis and RabbitMQ, with so
many fires due at every second (`benchmarks/due_schedules.py`), first with few schedules stored and no past, then with
many of both. The many are jobs as `benchmarks/many_jobs.py` has them, due in two hours or later, and executions with
attempts as a busy installation has them after some months. All upkeep is done as in earnest, but nothing is too old to
be kept.

What is due is stored when the beat has signed on, has made its first forecast and rests, so that neither its start nor
the first look at all that is stored counts. The fires begin some seconds later, and a few seconds after that the clock
starts, half a second before a fire. It ends after so many seconds, of the few at most 60, half a second before a fire.
CPU per fire is what the beat's process used in between, its threads for upkeep and heartbeat included, divided by the
fires that were due in between. Memory is read at the end; its peak is that since the start of the process. Tables are
looked at when the clock starts, halfway and at the end. After that no more fires are planned, the worker ends what is
queued, and each fire has to have one row and one attempt that succeeded.
"""

import os
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from benchmarks import (
    budgets,
    costs,
    due_schedules,
    footprint,
    large_store,
    many_executions,
    our_beat,
    our_web,
    table_growth,
)
from benchmarks.arguments import count, positive
from benchmarks.budgets import Line, milliseconds, percentile
from benchmarks.costs import Reading
from benchmarks.due_schedules import Turns
from benchmarks.footprint import Cpu, Memory, ServerCpu
from benchmarks.stage import Process, Stage, named_services, on_stage
from benchmarks.table_growth import Look
from launcher.progress import step
from launcher.refusal import Refusal

SCHEDULES = 1_000_000
EXECUTIONS = 10_000_000
FEW = 1000
RATE = 100
SECONDS = 600
BUDGET_RATIO = 1.3
BUDGET_MB = 200.0
_FEW_SECONDS = 60
_WARM_UP = timedelta(seconds=5)  # longer than a beat looks ahead: it plans and publishes at the same pace
_HALF = timedelta(seconds=0.5)
_BEGINS_IN_SECONDS, _STORED_PER_S = 3.0, 50_000  # until what is due is stored, and the tables of jobs are vacuumed
_LOOK_SECONDS = 1.0
_RESTS_BELOW = 0.1  # of a core
_PATIENCE_SECONDS = 1800
_SLOWEST_RUNS_PER_S = 20  # a worker that is slower than this is taken to hang


WHAT = "what a fire costs a beat that has very much stored, beside one that has little, and whether tables bloat"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--schedules", type=positive, default=SCHEDULES, help=f"stored at last (default {SCHEDULES})")
    past = f"past executions stored at last (default {EXECUTIONS})"
    options.add_argument("--executions", type=count, default=EXECUTIONS, help=past)
    few = f"schedules stored at first, without a past (default {FEW})"
    options.add_argument("--few", type=positive, default=FEW, help=few)
    options.add_argument("--rate", type=positive, default=RATE, help=f"how many are due per second (default {RATE})")
    options.add_argument("--seconds", type=positive, default=SECONDS, help=f"how long (default {SECONDS})")
    keep = "fill this database and leave it there; if it was left there before, measure on it as it is"
    options.add_argument("--keep", metavar="DATABASE", default="", help=keep)


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(
        options.schedules,
        options.executions,
        few=options.few,
        rate=options.rate,
        seconds=options.seconds,
        keep=options.keep,
    )


def measure(
    schedules: int = SCHEDULES,
    executions: int = EXECUTIONS,
    *,
    few: int = FEW,
    rate: int = RATE,
    seconds: int = SECONDS,
    keep: str = "",
) -> dict[str, Any]:
    footprint.see_that_it_is_told()
    named = named_services()
    load = os.getloadavg()[0]
    small = _turns(few, rate, min(seconds, _FEW_SECONDS))
    large = _turns(schedules, rate, seconds)
    with on_stage(named) as stage:
        _prepare(stage)
        large_store.fill(few - small.schedules, 0)
        little = _watch(stage, small, min(seconds, _FEW_SECONDS))
    with on_stage(named, keep) as stage:
        _prepare(stage)
        fill_s = large_store.fill_or_renew(stage, schedules - large.schedules, executions, keeps=bool(keep))
        much = _watch(stage, large, seconds)
    return {
        **_figures(little, much),
        "rate": rate,
        "fill_s": fill_s,
        "kept_database": keep or None,
        "database": "postgresql",
        "broker": "amqp",
        "redis": bool(named.redis_url),
        "cores": os.cpu_count(),
        "load_before": round(load, 2),  # of others: what they take is missing here
    }


def _turns(schedules: int, rate: int, seconds: int) -> Turns:
    return due_schedules.turns(schedules, rate, seconds + 2 * _WARM_UP.total_seconds())


def _prepare(stage: Stage) -> None:
    stage.environment |= many_executions.KEEPS_ALL
    our_beat.prepare(stage)


# ── The measurement ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Watched:
    """A beat for some time, with so much stored."""

    schedules: int
    executions: int  # when the fires began
    fires: int
    seconds: int
    cpu: Cpu
    server_cpu_s: float | None
    paid: tuple[Reading, Reading]  # by the servers, until the clock started and until it ended
    first_duties: Cpu
    forecast_s: float
    memory: Memory
    late: list[float]  # seconds
    looks: tuple[Look, Look, Look]

    def figures(self) -> dict[str, Any]:
        return {
            "cpu_us_per_fire": self._each(self.cpu.whole),
            "loop_cpu_us_per_fire": self._each(self.cpu.loop),
            "server_cpu_us_per_fire": None if self.server_cpu_s is None else self._each(self.server_cpu_s),
            "costs": costs.per(self.fires, *self.paid),
            "beat_rss_mb": self.memory.now_mb,
            "beat_peak_mb": self.memory.peak_mb,
            "late_p50_ms": milliseconds(percentile(self.late, 50)),
            "late_p99_ms": milliseconds(percentile(self.late, 99)),
            "late_max_ms": milliseconds(max(self.late)),
            "first_duties_cpu_s": round(self.first_duties.whole, 2),
            "forecast_s": round(self.forecast_s, 2),
            "schedules": self.schedules,
            "executions": self.executions,
            "fires": self.fires,
            "seconds": self.seconds,
        }

    def _each(self, cpu_seconds: float) -> float:
        return round(cpu_seconds / self.fires * 1e6, 1)


def _watch(stage: Stage, turns: Turns, seconds: int) -> Watched:
    from executions.models import Execution
    from jobs.models import Schedule, StoredForecast

    executions = Execution.objects.count()
    with step(print, "Starting a beat and a worker, and letting the beat see what is stored"):
        beat, worker = our_beat.start(stage), our_web.start_worker(stage)
        _wait_for_first_duties(beat)
        first_duties = Cpu.of(beat.pid)
    with step(print, f"Storing {turns.schedules:,} schedules, of which {turns.rate:,} are due per second"):
        schedules = Schedule.objects.count() + turns.schedules
        first = _store_due(turns, schedules)
        start = first + _WARM_UP
    end = start + timedelta(seconds=seconds)
    with step(print, f"Watching the beat for {seconds:,} s with {schedules:,} schedules and {executions:,} executions"):
        cpu, server, paid, looks = _watch_between(stage, beat, start - _HALF, end - _HALF)
        memory = Memory.of(beat.pid)
    with step(print, "Waiting for the last of them"):
        due_schedules.stop()
        patience = 60 + turns.rate * seconds / _SLOWEST_RUNS_PER_S
        worker.wait_until(
            lambda: due_schedules.are_all_over(first), what="all that fired has run", seconds=patience, every=0.5
        )
    beat.see_that_it_runs()
    due_schedules.see_that_each_fired_once(turns, first=first, end=end)
    for process in (beat, worker):
        process.kill()
    return Watched(
        schedules=schedules,
        executions=executions,
        fires=turns.rate * seconds,
        seconds=seconds,
        cpu=cpu,
        server_cpu_s=server.seconds,
        paid=paid,
        first_duties=first_duties,
        forecast_s=StoredForecast.objects.get().took_seconds,
        memory=memory,
        late=due_schedules.lateness(start, end),
        looks=looks,
    )


def _wait_for_first_duties(beat: Process) -> None:
    """Each duty is done once when a beat begins; nearly the last of them is the forecast, which reads all schedules."""
    from jobs.models import StoredForecast

    patience = _PATIENCE_SECONDS
    beat.wait_until(StoredForecast.objects.exists, what="the beat has made a forecast", seconds=patience, every=0.2)
    beat.wait_until(
        lambda: footprint.share_of_a_core(beat.pid, seconds=1.0) < _RESTS_BELOW, what="the beat rests", seconds=patience
    )


def _store_due(turns: Turns, schedules: int) -> datetime:
    from django.db import connection

    from executions.clock import database_now

    lead = timedelta(seconds=_BEGINS_IN_SECONDS + schedules / _STORED_PER_S)
    first = due_schedules.store(turns, after=database_now() + lead)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE onbeat_job, onbeat_schedule")
    if database_now() > first:
        raise Refusal("Storing what is due took longer than until it was due: is this machine busy?")
    return first


def _watch_between(
    stage: Stage, beat: Process, start: datetime, end: datetime
) -> tuple[Cpu, ServerCpu, tuple[Reading, Reading], tuple[Look, Look, Look]]:
    from executions.clock import database_now

    names = table_growth.tables(start)
    now = database_now()
    begins_at = time.monotonic() + (start - now).total_seconds()
    ends_at = begins_at + (end - start).total_seconds()
    our_beat.leave_database()
    with psycopg.connect(stage.database_url, autocommit=True) as inside:
        server, meter = ServerCpu(stage, besides=[inside.info.backend_pid]), costs.Meter(stage)
        first = table_growth.look(inside, names)
        _sleep_until(begins_at)
        before, paid_before = Cpu.of(beat.pid), meter.read()
        server.look()
        _wait(beat, server, until=(begins_at + ends_at) / 2)
        middle = table_growth.look(inside, names, counts_rows=False)
        _wait(beat, server, until=ends_at)
        server.look()
        used, paid = Cpu.of(beat.pid).since(before), (paid_before, meter.read())
        return used, server, paid, (first, middle, table_growth.look(inside, names))


def _wait(beat: Process, server: ServerCpu, *, until: float) -> None:
    """And look now and then: a process of the server that is gone tells no more."""
    while time.monotonic() < until:
        _sleep_until(min(until, time.monotonic() + _LOOK_SECONDS))
        beat.see_that_it_runs()
        server.look()


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


# ── Figures ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _figures(little: Watched, much: Watched) -> dict[str, Any]:
    small, large = little.figures(), much.figures()
    grown = table_growth.growth(*much.looks)
    tables = {name: one for name, one in grown.items() if "of" not in one}
    start, _, end = (look.whole(table_growth.SCHEDULES) for look in much.looks)
    figures = {
        "small_cpu_us_per_fire": small.pop("cpu_us_per_fire"),
        "large_cpu_us_per_fire": large.pop("cpu_us_per_fire"),
        "ratio_cpu": round(much.cpu.whole / much.fires / (little.cpu.whole / little.fires), 3),
        "ratio_loop_cpu": round(much.cpu.loop / much.fires / (little.cpu.loop / little.fires), 3),
        **large,
        **{f"small_{name}": figure for name, figure in small.items()},
        "schedule_growth_percent": table_growth.percent(start, end),
        "dead_tuples_end": {name: one["dead_end"] for name, one in tables.items()},
        "autovacuums": {name: one["autovacuums"] for name, one in tables.items()},
        "growth": grown,
    }
    lines = _lines(figures)
    return figures | {
        "are_all_met": all(line.is_met is not False for line in lines),
        "lines": [line.as_json() for line in lines],
    }


def _lines(figures: dict[str, Any]) -> list[Line]:
    few, many = f"{figures['small_schedules']:,} schedules", f"{figures['schedules']:,} schedules"
    lines = [
        Line("ratio_cpu", "CPU per fire, many by few", figures["ratio_cpu"], "times", BUDGET_RATIO),
        Line("beat_peak_mb", "the most memory of the beat", figures["beat_peak_mb"], "MB", BUDGET_MB),
        Line("small_cpu_us_per_fire", f"CPU per fire, {few}", figures["small_cpu_us_per_fire"], "µs"),
        Line("large_cpu_us_per_fire", f"CPU per fire, {many}", figures["large_cpu_us_per_fire"], "µs"),
        Line("ratio_loop_cpu", "the same of the thread that fires", figures["ratio_loop_cpu"], "times"),
        Line("late_p99_ms", "from fire time to the broker's confirm, p99", figures["late_p99_ms"], "ms"),
        Line("schedule_growth_percent", "growth of the schedules", figures["schedule_growth_percent"], "%"),
    ]
    for name, one in figures["growth"].items():
        if one.get("bytes_per_new_row") is not None and "of" not in one:
            was, new = one["bytes_per_row_start"], one["bytes_per_new_row"]
            before = "" if was is None else f", {was:g} before"
            lines.append(Line(f"{name}_bytes_per_new_row", f"{name}: bytes per new row{before}", new, "B"))
    return lines


def in_words(figures: dict[str, Any]) -> str:
    """The table for people, and beneath it the tables of the database."""
    names = figures["growth"]
    width = max(map(len, names))
    sizes = [
        f"{name:<{width}}  {one['start_bytes'] / 1e6:>8.1f} MB  {one['end_bytes'] / 1e6:>8.1f} MB"
        for name, one in names.items()
    ]
    stored = f"{figures['schedules']:,} schedules and {figures['executions']:,} executions were stored."
    machine = f"{figures['cores']} cores, with a load of {figures['load_before']} before it began."
    told = budgets.table(figures["lines"])
    return "\n".join([told, "", "Tables and indexes, at the start and at the end:", *sizes, "", stored, machine])
