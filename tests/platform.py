"""Real processes of the platform for tests, each with a database, queues and leases of its own.

Only processes started here are ever signalled, by their process id.
"""

import atexit
import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import urlopen

import kombu
import psycopg
from django.conf import settings

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
_LISTENING = re.compile(r"Listening at: http://(127\.0\.0\.1:[0-9]+)")


def _is_answering(address: str) -> bool:
    try:
        with urlopen(address, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _heed_ctrl_c() -> None:
    """As at a terminal: who is started in the background passes on that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Process:
    """One started process, in a session of its own, so that it and its children can be killed together."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_heed_ctrl_c,
            )
        self.pid = self._popen.pid

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def kill_all(self) -> None:
        """kill -9 of the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()

    def terminate(self) -> int:
        """SIGTERM to the process alone; its exit code."""
        self.signal(signal.SIGTERM)
        wait_until(lambda: not self.is_running(), what=f"{self.name} stops after SIGTERM")
        return self._popen.returncode

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def show(self) -> None:
        """What it said last, for whoever reads of a failure."""
        print(f"--- {self.name} ---\n{self.output()[-4000:]}")  # noqa: T201 - pytest shows it on failure


@cache
def _migrated(is_full: bool) -> "Platform":
    """One whose database is migrated, and used by nobody. Gone when all tests have ended."""
    folder = Path(tempfile.mkdtemp(prefix="onbeat-migrated-"))
    made = Platform(folder, is_full=is_full).__enter__()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(made.__exit__, None, None, None)
    made.manage("migrate", "-v0")
    return made


class Platform:
    def __init__(self, folder: Path, *, is_full: bool) -> None:
        self.folder = folder
        self.is_full = is_full
        self.name = f"t{uuid.uuid4().hex[:10]}"
        self.processes: list[Process] = []
        kept = {name: value for name, value in os.environ.items() if name != "ONBEAT_ENV_FILE"}
        self.environment = {
            **kept,
            "DATA_DIR": str(folder),
            "ONBEAT_EXECUTIONS_LOG_FORMAT": "text",
            "SECRET_KEY": "only-for-tests-and-known-to-everybody",
            "ONBEAT_EXECUTIONS_PREFIX": f"{self.name}.",
            # Lost workers are noticed and leases of dead beats run out soon, so that no test has to wait for long.
            "ONBEAT_WORKERS_HEARTBEAT_SECONDS": "0.5",
            "ONBEAT_WORKERS_LOST_AFTER_SECONDS": "3",
            "ONBEAT_BEAT_LEASE_SECONDS": "6",
            **self._addresses(),
        }

    def _addresses(self) -> dict[str, str]:
        if not self.is_full:
            return {}
        parts = urlsplit(settings.DATABASE_URL)
        return {
            "DATABASE_URL": urlunsplit(parts._replace(path=f"/{self.name}")),
            "REDIS_URL": settings.REDIS_URL,
            "CELERY_BROKER_URL": settings.CELERY_BROKER_URL,
        }

    def __enter__(self) -> "Platform":
        if self.is_full:
            self._administer(f'CREATE DATABASE "{self.name}"')
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.kill_all()
        if kind is not None:
            for process in self.processes:
                process.show()
        if self.is_full:
            self._administer(f'DROP DATABASE "{self.name}" WITH (FORCE)')
            self._delete_queues("default", "http", "dead-letters")

    def _administer(self, statement: str) -> None:
        with psycopg.connect(settings.DATABASE_URL, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _delete_queues(self, *names: str) -> None:
        with kombu.Connection(settings.CELERY_BROKER_URL) as connection:
            channel = connection.channel()
            for name in names:
                channel.queue_delete(f"{self.name}.{name}")
            for name in ("work", "dead-letters"):
                channel.exchange_delete(f"{self.name}.{name}")

    def migrate(self) -> None:
        """What `manage.py migrate` makes of an empty database, as a copy: to migrate anew for each test takes long."""
        if self.environment.get("DATABASE_URL") != self._addresses().get(
            "DATABASE_URL", os.environ.get("DATABASE_URL")
        ):
            self.manage("migrate", "-v0")  # on a server of the test's own
            return
        made = _migrated(self.is_full)
        if self.is_full:
            self._administer(f'DROP DATABASE "{self.name}"')
            self._administer(f'CREATE DATABASE "{self.name}" TEMPLATE "{made.name}"')
        else:
            shutil.copy(made.folder / "onbeat.sqlite3", self.folder)

    def manage(self, *words: str) -> str:
        """Run a Django command to its end; its output."""
        command = [sys.executable, "manage.py", *words]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str, command: Sequence[str], **environment: str) -> Process:
        """Start one, which may see its services at other addresses than the rest."""
        process = Process(name, command, {**self.environment, **environment}, self.folder / f"{name}.log")
        self.processes.append(process)
        return process

    def beat(self, name: str = "beat", **environment: str) -> Process:
        return self.start(name, [sys.executable, "manage.py", "run_beat"], **environment)

    def worker(self, name: str = "worker", *arguments: str) -> Process:
        queues = f"{self.name}.default,{self.name}.http"
        command = [str(BIN / "celery"), "-A", "scheduler_project", "worker", "-Q", queues, "-c", "2"]
        return self.start(name, [*command, "-n", f"{name}@%h", "-l", "INFO", *arguments])

    def web(self, name: str = "web", *, port: int = 0, **environment: str) -> str:
        """Start the web process on a port of this machine, a free one if none is named; its address when it answers."""
        command = [
            str(BIN / "gunicorn"),
            "scheduler_project.wsgi",
            "--bind",
            f"127.0.0.1:{port}",
            "--no-control-socket",
        ]
        process = self.start(name, [*command, "--threads", "2"], **environment)
        listening = wait_until(lambda: _LISTENING.search(process.output()), what=f"{name} listens")
        address = f"http://{listening[1]}"
        wait_until(lambda: _is_answering(f"{address}/health/live"), what=f"{name} answers")
        return address

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the platform's database answers."""
        if self.is_full:
            with psycopg.connect(self.environment["DATABASE_URL"]) as connection:
                return connection.execute(query.encode()).fetchall()
        with contextlib.closing(sqlite3.connect(self.folder / "onbeat.sqlite3", timeout=20)) as database:
            return database.execute(query).fetchall()

    def count(self, query: str) -> int:
        return int(self.rows(query)[0][0])
