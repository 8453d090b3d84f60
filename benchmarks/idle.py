"""What one beat costs that has nothing to do: thousands of schedules are stored, and none is due for hours.

A real `manage.py run_beat` on PostgreSQL, Redis and RabbitMQ, watched from outside once it has ticked. CPU is the
user and system time of its process that the kernel counts (`/proc/PID/stat`), of one core. Queries are counted by the
server, for the database that only this beat uses: by pg_stat_statements, which knows every statement, if the server has
loaded it; else as transactions that ended (pg_stat_database), of which a statement outside of a block is one, and a
block is one however many statements it has. The observer asks from another database.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from benchmarks import cpu_time, our_beat
from benchmarks.arguments import positive
from benchmarks.budgets import Line
from benchmarks.stage import Stage, named_services, on_stage
from launcher.progress import step

_SETTLE_SECONDS = 2
_BUDGET_PERCENT, _BUDGET_QUERIES_PER_S = 2, 10

# The observer's own question is left out.
_STATEMENTS = """
    SELECT coalesce(sum(calls), 0) FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
    WHERE datname = current_database() AND query NOT LIKE '%pg_stat_statements%'
"""
_TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"


WHAT = "what a beat costs that has nothing to do"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--schedules", type=positive, default=10_000, help="how many are stored (default 10000)")
    options.add_argument("--seconds", type=positive, default=20, help="how long it is watched (default 20)")


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.schedules, options.seconds)


def measure(schedules: int, seconds: float) -> dict[str, Any]:
    cpu_time.see_that_it_is_told()
    named = named_services()
    with on_stage(named) as stage:
        with step(print, f"Storing {schedules:,} schedules"):
            our_beat.prepare(stage)
            our_beat.store([f"bench-{number}" for number in range(schedules)], is_active=True, hours_ahead=6)
        with step(print, "Starting a beat"):
            beat = our_beat.start(stage)
            our_beat.leave_database()  # the server adds up what a connection did only after a while, or at its end
            counted_by, count = way_to_count(stage)
            time.sleep(_SETTLE_SECONDS)
        with step(print, f"Watching it for {seconds:g} s"):
            started, cpu, queries = time.monotonic(), cpu_time.cpu_seconds(beat.pid), count()
            time.sleep(seconds)
            beat.see_that_it_runs()
            passed = time.monotonic() - started
            cpu, queries = cpu_time.cpu_seconds(beat.pid) - cpu, count() - queries
    lines = [
        Line("cpu_percent", "CPU of a beat that has nothing to do", round(cpu / passed * 100, 2), "%", _BUDGET_PERCENT),
        Line("queries_per_s", f"its {counted_by}", round(queries / passed, 2), "per s", _BUDGET_QUERIES_PER_S),
    ]
    return {
        "schedules": schedules,
        "seconds": round(passed, 1),
        **{line.name: line.figure for line in lines},
        "counted_by": counted_by,
        "are_all_met": all(line.is_met for line in lines),
        "lines": [line.as_json() for line in lines],
        "database": "postgresql",
        "redis": bool(named.redis_url),
    }


def way_to_count(stage: Stage) -> tuple[str, Callable[[], int]]:
    """What is counted, and how to read its number."""
    [loaded] = _row(stage.observer.execute("SHOW shared_preload_libraries"))
    if "pg_stat_statements" in loaded:
        inside = psycopg.connect(stage.database_url, autocommit=True)
        stage.at_end.callback(inside.close)
        with suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFile):
            inside.execute("CREATE EXTENSION pg_stat_statements")
            return "statements", lambda: int(_row(inside.execute(_STATEMENTS))[0])
    return "transactions", lambda: int(_row(stage.observer.execute(_TRANSACTIONS, [stage.name]))[0])


def _row(answer: psycopg.Cursor[Any]) -> Any:
    row = answer.fetchone()
    assert row is not None
    return row
