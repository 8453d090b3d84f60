"""What the REST API takes for what apps and people ask of it most, beside its budgets.

Gunicorn as `./onbeat run` starts it (one process, eight threads), a real beat and a real worker, on PostgreSQL, Redis
and RabbitMQ, called over loopback. The table of executions is filled first, so that whatever is asked meets a database
that has been in use for months. Then jobs are created, run now and run in bulk. For the pages of lists the beat and the
worker are stopped, so that some executions can be made to wait in queues and to run without anybody minding.
"""

import os
from argparse import ArgumentParser, Namespace
from typing import Any

from benchmarks import api_pages, api_writes, budgets, many_executions, our_beat, our_web
from benchmarks.arguments import positive
from benchmarks.budgets import Line
from benchmarks.stage import Stage, named_services, on_stage
from launcher.progress import step

ROWS = 5_000_000
JOBS = 400
RUNS = 100
BULK = 10_000
PLACES = 20
_OPEN_ROWS = 400


WHAT = "what the REST API takes to create, run, run in bulk and list, beside its budgets"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--rows", type=positive, default=ROWS, help=f"executions in the table (default {ROWS})")
    options.add_argument("--quick", action="store_true", help="ask for little: whether it works, and no figures")


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    if options.quick:
        return measure(options.rows, jobs=8, runs=2, bulk=50, places=1)
    return measure(options.rows)


def measure(
    rows: int = ROWS, *, jobs: int = JOBS, runs: int = RUNS, bulk: int = BULK, places: int = PLACES
) -> dict[str, Any]:
    named = named_services()
    load = os.getloadavg()[0]
    with on_stage(named) as stage:
        stage.environment |= many_executions.KEEPS_ALL
        our_beat.prepare(stage)
        from executions.clock import database_now

        now = database_now()
        many_executions.fill(rows, now=now)
        web = our_web.start_web(stage)
        lines = _write(stage, web, jobs=jobs, runs=runs, bulk=bulk)
        many_executions.leave_open(_OPEN_ROWS)
        with step(print, "Reading pages of executions"):
            first = many_executions.parts(rows, now=now)[0].start
            asked = api_pages.ask(web, first=first, now=database_now(), places=places)
        web.process.see_that_it_runs()
    lines += api_pages.lines(asked, rows)
    return {
        "rows": rows,
        "are_all_met": all(line.is_met is not False for line in lines),
        "lines": [line.as_json() for line in lines],
        "pages": {one.name: one.as_json() for one in asked},
        "database": "postgresql",
        "broker": "amqp",
        "redis": bool(named.redis_url),
        "cores": os.cpu_count(),
        "load_before": round(load, 2),  # of others: what they take is missing here
    }


def _write(stage: Stage, web: our_web.Web, *, jobs: int, runs: int, bulk: int) -> list[Line]:
    with step(print, "Starting a beat and a worker"):
        beat, worker = our_beat.start(stage), our_web.start_worker(stage)
    with step(print, f"Creating {jobs:,} jobs, twice"):
        lines = list(api_writes.time_creates(web, jobs))
    with step(print, f"Running a job now, {runs:,} times"):
        lines += api_writes.time_starts(web, worker, runs)
    with step(print, f"Running a job {bulk:,} times in one request, three times"):
        lines += api_writes.time_bulks(web, bulk)
    for process in (beat, worker):
        process.see_that_it_runs()
        process.kill()
    return lines


def in_words(figures: dict[str, Any]) -> str:
    """The table for people, and beneath it the questions from the slowest on."""
    pages = sorted(figures["pages"].items(), key=lambda page: -page[1]["p95_ms"])
    width = max(len(name) for name, _ in pages)
    slowest = [f"{name:<{width}}  p50 {one['p50_ms']:>6.1f} ms  p95 {one['p95_ms']:>6.1f} ms" for name, one in pages]
    machine = f"{figures['cores']} cores, with a load of {figures['load_before']} before it began."
    return "\n".join(
        [budgets.table(figures["lines"]), "", "Pages by question, the slowest first:", *slowest, "", machine]
    )
