"""What it takes to apply a file of many jobs: made, applied again as it is, changed, and archived.

Each time the real command in a process of its own, from its start to its end, on PostgreSQL. Beside it: the same jobs
made one by one from Python, some of them, as if they were all.
"""

import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from benchmarks import our_beat
from benchmarks.arguments import positive
from benchmarks.budgets import Line, table
from benchmarks.stage import Stage, named_services, on_stage
from launcher.folders import ROOT
from launcher.progress import step
from launcher.refusal import Refusal

BUDGET_SECONDS = 10.0
_CRONS = ("*/5 * * * *", "0 3 * * *", "30 7 * * 1-5", "15 */2 * * *", "0 0 1 * *")
_ZONES = ("UTC", "Europe/Berlin", "America/New_York")
_ONE_BY_ONE = 200


WHAT = "what it takes to apply a file of many jobs, beside its budget and making them one by one"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--jobs", type=positive, default=10_000, help="how many the file holds (default 10000)")


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.jobs)


def measure(jobs: int) -> dict[str, Any]:
    with on_stage(named_services()) as stage:
        our_beat.prepare(stage)
        files = {queue: _written(stage, jobs, queue) for queue in ("default", "mail")}
        lines = []
        for name, what, path, becomes in (
            ("create", f"{jobs:,} jobs are made", files["default"], "created"),
            ("again", "the same file again", files["default"], "unchanged"),
            ("change", "each is changed", files["mail"], "changed"),
            ("archive", "each is archived", _written(stage, 0, "mail"), "archived"),
        ):
            with step(print, what):
                seconds = _applied(stage, path, becomes=f"{jobs} {becomes}")
            lines.append(Line(name, what, round(seconds, 1), "s", BUDGET_SECONDS if name == "create" else None))
        with step(print, "one by one"):
            one_by_one = _one_by_one() * jobs
    created = lines[0].figure
    return {
        "jobs": jobs,
        "lines": [line.as_json() for line in lines],
        "one_by_one_s": round(one_by_one, 3),
        "ratio_one_by_one": round(one_by_one / created, 1),
    }


def in_words(figures: dict[str, Any]) -> str:
    told = table(figures["lines"])
    return f"{told}\none by one: {figures['one_by_one_s']:.1f} s, {figures['ratio_one_by_one']:g} times as long"


def _written(stage: Stage, jobs: int, queue: str) -> Path:
    path = stage.folder / f"{jobs}-{queue}.yaml"
    lines = [
        f"- key: bench.{number}\n"
        "  target: {task: onbeat.echo}\n"
        f"  kwargs: {{message: tenant {number}}}\n"
        f"  schedule: {{cron: '{_CRONS[number % 5]}', timezone: {_ZONES[number % 3]}}}\n"
        f"  queue: {queue}\n"
        f"  tags: [bench, t{number % 10}]"
        for number in range(jobs)
    ]
    path.write_text("\n".join(["manager: bench", "jobs:" if lines else "jobs: []", *lines]), encoding="utf-8")
    return path


def _applied(stage: Stage, path: Path, *, becomes: str) -> float:
    command = [sys.executable, "manage.py", "jobs", "apply", str(path), "--prune"]
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=stage.environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    if done.returncode != 0 or f"{becomes}." not in done.stdout:
        raise Refusal(f"`jobs apply` was to say {becomes!r}, and said:\n{done.stdout[-500:]}{done.stderr[-500:]}")
    return seconds


def _one_by_one() -> float:
    """Seconds for one."""
    from jobs import definitions
    from jobs.recurrence import Cron

    started = time.monotonic()
    for number in range(_ONE_BY_ONE):
        schedule = Cron(_CRONS[number % 5], _ZONES[number % 3])
        definitions.create(key=f"one.{number}", task="onbeat.echo", schedule=schedule, tags=["bench"])
    return (time.monotonic() - started) / _ONE_BY_ONE
