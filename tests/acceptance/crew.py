"""A platform with a beat whose workers a test starts and kills, and a Python of its own to ask things through."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from django.conf import settings

from tests.platform import BIN, ROOT, Platform, Process
from tests.waiting import wait_until

_TASKS = "tests.acceptance.crew_tasks"
# Reads a line of JSON with an expression, writes a line of JSON with its value, until its input ends.
_PYTHON = """
import json, sys
import django
django.setup()
from datetime import timedelta
from celery.result import AsyncResult
from beat.upkeep import lost_messages
from django.contrib.auth.models import Group, User
from django.core.management import call_command
import uuid
from access import api_keys
from executions import lifecycle, outbox
from executions.clock import database_now
from executions.dispatch import Publisher
from executions.models import Attempt, DeadMessage, Execution
from executions.retry import RetryPolicy
from jobs import definitions, runs
from jobs.http_target import HttpTarget
from jobs.recurrence import Cron
from workers.models import Worker
from scheduler_project.celery import app
from tests.acceptance import crew_tasks
def send(body, **properties):
    with app.producer_pool.acquire(block=True) as producer:
        producer.publish(body, **properties)
for line in sys.stdin:
    print(json.dumps(eval(json.loads(line)), default=str), flush=True)
"""


class Crew:
    def __init__(self, folder: Path, *, is_full: bool, **environment: str) -> None:
        self.platform = Platform(folder, is_full=is_full)
        self.platform.environment |= {"ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS": "1", **environment}
        self.notes = folder / "notes"
        self._stack = ExitStack()
        self._python: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.platform)
            self.platform.migrate()
            self._python = subprocess.Popen(
                [sys.executable, "-c", _PYTHON],
                cwd=ROOT,
                env={**self.platform.environment, "DJANGO_SETTINGS_MODULE": "scheduler_project.settings"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(self._python.wait)
            assert self._python.stdin is not None
            stack.callback(self._python.stdin.close)
            self.platform.beat()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    # ── What the test does ───────────────────────────────────────────────────────────────────────────────────────

    def ask(self, expression: str) -> Any:
        """The value of a Python expression within the platform."""
        assert self._python is not None
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        print(json.dumps(expression), file=self._python.stdin, flush=True)
        answer = self._python.stdout.readline()
        assert answer, f"{expression} failed: see what was printed"
        return json.loads(answer)

    def run(self, task: str, *args: object, attempts: int = 1, **fields: object) -> str:
        """A job of its own for the task, run once; the id of its execution. Retries come after a second."""
        key = f"{task}-{uuid.uuid4().hex[:8]}"
        fields = {"args": list(args), "task": task, "key": key, **fields}
        retry = f"RetryPolicy(max_attempts={attempts}, initial_seconds=1, cap_seconds=1)"
        return str(self.ask(f"[definitions.create(retry={retry}, **{fields!r}), runs.run({key!r}).execution_id][1]"))

    def send(self, body: object, **properties: object) -> None:
        """A message of any kind into the queue of the workers."""
        properties = {"content_type": "application/json", "content_encoding": "utf-8", **properties}
        to = {"exchange": "", "routing_key": f"{self.platform.name}.default"}
        self.ask(f"send({body!r}, **{properties | to!r})")

    def cancel(self, execution: str) -> None:
        self.ask(f'lifecycle.cancel([__import__("uuid").UUID({execution!r})], reason="by test", now=database_now())')

    def worker(self, name: str, *arguments: str, **environment: str) -> "Worker":
        queue, node = f"{self.platform.name}.default", f"{name}-{self.platform.name}@"  # nodes share the broker
        command = [str(BIN / "celery"), "-A", "scheduler_project", "worker", "-Q", queue, "-n", f"{node}%h"]
        defaults = ["-c", "2", "-l", "INFO", "--without-gossip", "--without-mingle", "--include", _TASKS]
        # Before the worker's own arguments, so that theirs win.
        process = self.platform.start(name, [*command, *defaults, *arguments], **environment)
        wait_until(lambda: node in process.output() and "ready." in process.output(), what=f"{name} is ready")
        return Worker(process)

    @contextmanager
    def working(self, name: str, *arguments: str, **environment: str) -> "Iterator[Worker]":
        """A worker that is gone when the test is."""
        one = self.worker(name, *arguments, **environment)
        try:
            yield one
        except BaseException:
            one.process.show()
            raise
        finally:
            one.process.kill_all()

    # ── What the test looks at ───────────────────────────────────────────────────────────────────────────────────

    def gives_a_sign_of_life(self, execution: str) -> None:
        """Returns right after a heartbeat."""
        before = self.row(execution, "heartbeat_at")
        wait_until(lambda: self.row(execution, "heartbeat_at") != before, what=f"a heartbeat of {execution}")

    def row(self, execution: str, *columns: str) -> tuple[Any, ...]:
        identity = execution if self.platform.is_full else uuid.UUID(execution).hex
        return self.platform.rows(f"SELECT {', '.join(columns)} FROM onbeat_execution WHERE id = '{identity}'")[0]

    def state(self, execution: str) -> str:
        return str(self.row(execution, "state")[0])

    def attempts(self, execution: str, *columns: str) -> list[tuple[Any, ...]]:
        identity = execution if self.platform.is_full else uuid.UUID(execution).hex
        names = ", ".join(columns or ("number", "outcome"))
        of_it = f"FROM onbeat_attempt WHERE execution_id = '{identity}' ORDER BY number"
        return self.platform.rows(f"SELECT {names} {of_it}")

    def lines(self, path: Path) -> list[str]:
        return path.read_text().splitlines() if path.exists() else []

    def reaches(self, execution: str, *states: str, seconds: float = 30) -> str:
        return wait_until(
            lambda: (state := self.state(execution)) in states and state,
            what=f"{execution} is {' or '.join(states)}: {self.row(execution, 'state', 'attempt', 'reason', 'error')}",
            seconds=seconds,
        )

    def begins(self, path: Path, count: int = 1) -> list[str]:
        """The lines of the file, as soon as there are so many."""
        return wait_until(
            lambda: len(lines := self.lines(path)) >= count and lines, what=f"{count} lines in {path.name}"
        )


class Worker:
    def __init__(self, process: Process) -> None:
        self.process = process

    def children(self) -> list[int]:
        """The processes of its pool."""
        by_thread = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return sorted(int(child) for children in by_thread for child in children.read_text().split())

    def freeze(self) -> None:
        os.killpg(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)


@contextmanager
def a_crew(factory: pytest.TempPathFactory, **environment: str) -> Iterator[Crew]:
    is_full = settings.DATABASES["default"]["ENGINE"].endswith("postgresql")
    with Crew(factory.mktemp("crew"), is_full=is_full, **environment) as crew:
        yield crew
