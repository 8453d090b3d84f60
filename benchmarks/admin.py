"""What the pages of the admin take on a large database, beside their budgets.

Gunicorn as `./onbeat run` starts it (one process, eight threads) on PostgreSQL, visited over loopback by one person who
is signed in. The time of a page is that of its whole HTML, and not of what a browser does with it. No beat and no
worker runs: what they would write is stored beforehand, so that nothing moves while somebody measures.
"""

import os
import time
from argparse import ArgumentParser, Namespace
from typing import Any

from benchmarks import admin_pages, budgets, large_installation, our_beat, our_web
from benchmarks.admin_pages import Visited
from benchmarks.arguments import positive
from benchmarks.budgets import Line
from benchmarks.stage import Stage, named_services, on_stage
from launcher.progress import step

ROWS = 5_000_000
JOBS = 100_000


WHAT = "what the pages of the admin take on a large database, beside their budgets"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--rows", type=positive, default=ROWS, help=f"executions in the table (default {ROWS})")
    options.add_argument("--jobs", type=positive, default=JOBS, help=f"jobs in the table (default {JOBS})")
    options.add_argument("--quick", action="store_true", help="ask for little: whether it works, and no figures")
    keep = "fill this database and leave it there; if it was left there before, measure on it as it is"
    options.add_argument("--keep", metavar="DATABASE", default="", help=keep)


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    requests = 2 if options.quick else admin_pages.REQUESTS
    return measure(options.rows, options.jobs, requests=requests, keep=options.keep)


def measure(
    rows: int = ROWS, jobs: int = JOBS, *, requests: int = admin_pages.REQUESTS, keep: str = ""
) -> dict[str, Any]:
    """On a database that is made for it, or on the one to keep: filled if it is new, and else taken as it is."""
    named = named_services()
    load = os.getloadavg()[0]
    with on_stage(named, keep) as stage:
        our_beat.prepare(stage)
        lines = [] if stage.is_database_kept else [_fill(rows, jobs)]
        if keep:
            stage.keep_database()
        lines.append(_bring_up_to_date())
        visited = _visit(stage, requests)
        stored = _stored()
    if keep:
        print(_how_to_use(keep))
    lines = admin_pages.lines(visited) + lines
    return {
        **stored,
        "are_all_met": all(line.is_met is not False for line in lines),
        "lines": [line.as_json() for line in lines],
        "pages": {one.name: one.as_json() for one in visited},
        "kept_database": keep or None,
        "database": "postgresql",
        "broker": "amqp",
        "redis": bool(named.redis_url),
        "cores": os.cpu_count(),
        "load_before": round(load, 2),  # of others: what they take is missing here
    }


def _fill(rows: int, jobs: int) -> Line:
    from executions.clock import database_now

    started = time.monotonic()
    large_installation.fill(rows, jobs, now=database_now())
    return Line("fill", "filling the database", round(time.monotonic() - started, 1), "s")


def _bring_up_to_date() -> Line:
    from executions.clock import database_now

    now = database_now()
    large_installation.give_signs_of_life(now)
    counted = large_installation.count_hours(now)
    what = f"counting {large_installation.COUNTED_HOURS} hours ({counted.counts:,} counts written)"
    return Line("roll_up", what, counted.seconds, "s")


def _visit(stage: Stage, requests: int) -> list[Visited]:
    from executions.clock import database_now

    site = our_web.start_admin(stage)
    wanted = admin_pages.pages(admin_pages.rows_to_visit(database_now()))
    with step(print, f"Visiting {len(wanted)} pages, {requests} times each"):
        visited = admin_pages.visit(site.visitor(), wanted, requests=requests)
    site.process.see_that_it_runs()
    return visited


def _stored() -> dict[str, int]:
    """As counted, since a database that was kept is as it is."""
    from executions.models import Execution
    from jobs.models import Job

    return {"rows": Execution.objects.count(), "jobs": Job.objects.count()}


def _how_to_use(database: str) -> str:
    return (
        f"The database {database!r} stays, on the server of DATABASE_URL: name it there to use it, "
        "and make yourself a person with `./onbeat createsuperuser`. Let no beat run on it, which would fire. "
        f'To be rid of it: DROP DATABASE "{database}".'
    )


def in_words(figures: dict[str, Any]) -> str:
    """The table for people, and beneath it the pages from the slowest on."""
    pages = sorted(figures["pages"].items(), key=lambda page: -page[1]["p95_ms"])
    width = max(len(name) for name, _ in pages)
    slowest = [
        f"{name:<{width}}  p50 {one['p50_ms']:>7.1f} ms  p95 {one['p95_ms']:>7.1f} ms  "
        f"{'met' if one['is_met'] else 'MISSED'}"
        for name, one in pages
    ]
    stored = f"{figures['rows']:,} executions of {figures['jobs']:,} jobs."
    machine = f"{figures['cores']} cores, with a load of {figures['load_before']} before it began."
    return "\n".join([budgets.table(figures["lines"]), "", "Pages, the slowest first:", *slowest, "", stored, machine])
