"""Become one Celery worker with our defaults."""

import os
import sys
from argparse import ArgumentParser
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.conf import settings

from executions import queues
from executions.checks import TAG
from executions.commands import ExampledCommand
from executions.models import DEFAULT_QUEUE
from jobs.http_target import HTTP_QUEUE
from workers import pools

# What a worker may be for, in place of both.
_QUEUES = {"tasks": [DEFAULT_QUEUE], "callbacks": [HTTP_QUEUE]}
# Callbacks wait for others most of the time, and have a deadline of their own.
_CALLBACKS_AT_ONCE = 16


class Command(ExampledCommand):
    examples = ("worker", "worker --only tasks", "worker --concurrency 8 --queues onbeat.batch-etl")
    help = (
        "Start one Celery worker for the queues of tasks and of HTTP callbacks, with two processes. With "
        "`--only tasks` or `--only callbacks` it is for these alone, so that slow hosts hold up no tasks; callbacks "
        "get sixteen threads then. All further arguments go to Celery and win over ours: "
        "`./onbeat worker --concurrency 8 --queues onbeat.batch-etl`."
    )

    def run_from_argv(self, argv: list[str]) -> None:
        """Without Django's own parser: it would refuse Celery's options."""
        if argv[2:] in (["--help"], ["-h"]):
            self.print_help(argv[0], argv[1])
            return
        only, arguments = _only(argv[2:])
        if (pool := _pool(arguments)) in pools.UNTESTED:
            raise SystemExit(pools.refusal(pool))
        self.check(tags=[TAG])
        words = [str(Path(sys.executable).parent / "celery"), "--quiet", "-A", "scheduler_project", "worker"]
        os.execv(words[0], [*words, *_defaults(only, arguments), *arguments])

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.run_from_argv(["manage.py", "worker"])


def _only(words: list[str]) -> tuple[str, list[str]]:
    """What it is for (empty: both), and the arguments for Celery."""
    parser = ArgumentParser("./onbeat worker", add_help=False, allow_abbrev=False)
    parser.add_argument("--only", choices=list(_QUEUES), default="")
    ours, others = parser.parse_known_args(words)
    return ours.only, others


def _pool(words: list[str]) -> str:
    """What is said about the pool; empty if nothing is. Celery would look first for the library of a green one."""
    given = [word.partition("=")[2] for word in words if word.startswith("--pool=")]
    given += [word.removeprefix("-P") for word in words if word.startswith("-P")]
    given += [value for option, value in pairwise(words) if option in ("-P", "--pool")]
    return given[-1] if given else ""


def _defaults(only: str, arguments: list[str]) -> list[str]:
    names = _QUEUES[only] if only else [name for each in _QUEUES.values() for name in each]
    words = ["--queues", ",".join(queues.work_queue(name).name for name in names)]
    words += _size(only, _pool(arguments))
    words += ["--loglevel", "INFO", "--hostname", f"onbeat-{os.getpid()}@%h"]
    # Workers gain nothing from talking to each other: what they need to know is in the database.
    words += ["--without-gossip", "--without-mingle"]
    # The folder broker carries no events; on RabbitMQ they are what Flower shows.
    return [*words, "--without-heartbeat"] if settings.IS_FOLDER_BROKER else [*words, "--task-events"]


def _size(only: str, pool: str) -> list[str]:
    if only == "callbacks" and pool in ("", "threads"):
        return ["--pool", "threads", "--concurrency", str(_CALLBACKS_AT_ONCE)]
    # The solo pool runs one at a time; with more it would only take messages ahead of their turn.
    return ["--concurrency", "1" if pool == "solo" else "2"]
