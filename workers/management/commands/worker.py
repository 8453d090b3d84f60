"""Become one Celery worker with our defaults."""

import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from executions import queues
from executions.models import DEFAULT_QUEUE
from jobs.http_target import HTTP_QUEUE
from workers import pools


class Command(BaseCommand):
    help = (
        "Start one Celery worker for the queues of tasks and of HTTP callbacks, with two processes. All further "
        "arguments go to Celery and win over ours: `./onbeat worker --concurrency 8 --queues onbeat.batch-etl`."
    )

    def run_from_argv(self, argv: list[str]) -> None:
        """Without Django's own parser: it would refuse Celery's options."""
        if argv[2:] in (["--help"], ["-h"]):
            self.print_help(argv[0], argv[1])
            return
        if (pool := _pool(argv[2:])) in pools.UNTESTED:
            raise SystemExit(pools.refusal(pool))
        self.check()
        words = [str(Path(sys.executable).parent / "celery"), "--quiet", "-A", "scheduler_project", "worker"]
        os.execv(words[0], [*words, *_defaults(argv[2:]), *argv[2:]])

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.run_from_argv(["manage.py", "worker"])


def _pool(words: list[str]) -> str:
    """What is said about the pool; empty if nothing is. Celery would look first for the library of a green one."""
    given = [word.partition("=")[2] for word in words if word.startswith("--pool=")]
    given += [word.removeprefix("-P") for word in words if word.startswith("-P")]
    given += [value for option, value in pairwise(words) if option in ("-P", "--pool")]
    return given[-1] if given else ""


def _defaults(arguments: list[str]) -> list[str]:
    # The solo pool runs one at a time; with more it would only take messages ahead of their turn.
    concurrency = "1" if _pool(arguments) == "solo" else "2"
    names = ",".join(queues.work_queue(name).name for name in (DEFAULT_QUEUE, HTTP_QUEUE))
    words = ["--queues", names, "--concurrency", concurrency, "--loglevel", "INFO"]
    words += ["--hostname", f"onbeat-{os.getpid()}@%h"]
    # Workers gain nothing from talking to each other: what they need to know is in the database.
    words += ["--without-gossip", "--without-mingle"]
    # The folder broker carries no events; on RabbitMQ they are what Flower shows.
    return [*words, "--without-heartbeat"] if settings.IS_FOLDER_BROKER else [*words, "--task-events"]
