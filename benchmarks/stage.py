"""Where a benchmark runs: on the services that are named, with a database, queues and processes of its own.

Invariant: whatever is made here is gone when the benchmark ends, however it ends, but for a database that was asked to
be kept and is complete; and no process is signalled that was not started here.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import amqp
import kombu
import psycopg
import redis
from kombu.exceptions import OperationalError as BrokerError
from psycopg import sql

from launcher import env_file
from launcher.folders import ROOT
from launcher.refusal import Refusal
from launcher.service_record import Addresses
from launcher.service_record import env_file as private_services
from launcher.supervisor import Program
from scheduler_project.env import Environment

T = TypeVar("T")

_NAMES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")
_CONNECT_SECONDS = 5
PATIENCE_SECONDS = 60
LOOK_SECONDS = 0.02
_LOG_CHARACTERS = 2000
_KEPT = "Kept by a benchmark of Onbeat: may be dropped."


def is_any_service_named() -> bool:
    variables = Environment.of_process(ROOT)
    return any(variables.text(name) for name in _NAMES)


def named_services() -> Addresses:
    """What the environment names; the private services if it names none of the three."""
    variables = Environment.of_process(ROOT)
    named = {name: variables.text(name) for name in _NAMES}
    private = private_services(Path(variables.text("DATA_DIR", str(ROOT / "var"))).expanduser())
    if not any(named.values()) and private.is_file():
        named = {name: env_file.read(private).get(name, "") for name in _NAMES}
    if not named["DATABASE_URL"].startswith("postgres") or not named["CELERY_BROKER_URL"].startswith("amqp"):
        raise Refusal(
            "This needs PostgreSQL and RabbitMQ: start private ones with `./onbeat services`, or name yours in "
            "DATABASE_URL, REDIS_URL and CELERY_BROKER_URL."
        )
    return Addresses(named["DATABASE_URL"], named["REDIS_URL"], named["CELERY_BROKER_URL"])


@dataclass
class Process:
    name: str
    popen: "subprocess.Popen[bytes]"
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    def see_that_it_runs(self) -> None:
        if self.popen.poll() is not None:
            raise Refusal(f"{self.name} has ended with {self.popen.returncode}. It said:\n{self._said()}")

    def _said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-_LOG_CHARACTERS:]

    def see_that_it_ends_well(self) -> None:
        if self.popen.wait() != 0:
            self.see_that_it_runs()

    def wait_until(
        self, condition: Callable[[], T], *, what: str, seconds: float = PATIENCE_SECONDS, every: float = LOOK_SECONDS
    ) -> T:
        """The first true answer of a condition that this process brings about."""
        deadline = time.monotonic() + seconds
        while not (answer := condition()):
            self.see_that_it_runs()
            if time.monotonic() > deadline:
                raise Refusal(f"Waited {seconds:.0f} s in vain until {what}; {self.name} said:\n{self._said()}")
            time.sleep(every)
        return answer

    def kill(self) -> None:
        """Without a goodbye, with whatever it started: what they would still write is thrown away with its database."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)  # they share its session
            self.popen.wait()


class Stage:
    """Made by `on_stage`. Its name begins the names of all that it has."""

    def __init__(self, named: Addresses, folder: Path, keep: str = "") -> None:
        self.named = named
        self.folder = folder
        self.name = f"bench_{uuid.uuid4().hex[:8]}"
        self.prefix = f"{self.name}."
        self.database = keep or self.name
        self.database_url = _of_database(named.database_url, self.database)
        self.at_end = contextlib.ExitStack()
        kept = {name: value for name, value in os.environ.items() if name != "ONBEAT_ENV_FILE"}
        self.environment = {
            **kept,
            "DATA_DIR": str(folder),
            "SECRET_KEY": "only for a benchmark and known to everybody",
            "ONBEAT_EXECUTIONS_PREFIX": self.prefix,
            "DATABASE_URL": self.database_url,
            "REDIS_URL": named.redis_url,
            "CELERY_BROKER_URL": named.broker_url,
        }
        # Beside the database that is measured: what is asked here is not counted there.
        self.observer = _connect_beside(named.database_url)
        self.at_end.callback(self.observer.close)

    def make_database(self) -> None:
        """Or take the one that was kept, and no other."""
        name = sql.Identifier(self.database)
        question = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"
        found = self.observer.execute(question, [self.database]).fetchone()
        self.is_database_kept = found == (_KEPT,)
        if self.is_database_kept:
            return
        if found:
            raise Refusal(
                f"The database {self.database!r} is there and was not made by a benchmark, or not to its end: "
                "choose another name, or drop it."
            )
        self.at_end.callback(self._drop_database, name)
        self.observer.execute(sql.SQL("CREATE DATABASE {}").format(name))

    def keep_database(self) -> None:
        """It is complete: it stays, and the next benchmark that names it takes it as it is."""
        comment = sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(self.database), sql.Literal(_KEPT))
        self.observer.execute(comment)
        self.is_database_kept = True

    def _drop_database(self, name: sql.Identifier) -> None:
        if not self.is_database_kept:
            self.observer.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def connect_broker(self) -> None:
        self._broker = kombu.Connection(self.named.broker_url, connect_timeout=_CONNECT_SECONDS)
        self.at_end.callback(self._broker.release)
        try:
            self._broker.ensure_connection(max_retries=1, timeout=_CONNECT_SECONDS)
        except (BrokerError, amqp.AMQPError, OSError) as error:
            raise _away("RabbitMQ", self.named.broker_url) from error
        self.channel: Any = self._broker.channel()

    def connect_redis(self) -> None:
        if not self.named.redis_url:
            return
        leases = redis.Redis.from_url(self.named.redis_url, socket_timeout=_CONNECT_SECONDS)
        self.at_end.callback(leases.close)
        try:
            leases.ping()
        except redis.RedisError as error:
            raise _away("Redis", self.named.redis_url) from error
        self.at_end.callback(_delete_keys, leases, self.prefix)

    def delete_at_end(self, *, queues: Sequence[str], exchanges: Sequence[str]) -> None:
        """What this side has on the broker."""
        self.at_end.callback(self._delete, queues, exchanges)

    def _delete(self, queues: Sequence[str], exchanges: Sequence[str]) -> None:
        channel: Any = self._broker.channel()  # a refused question may have cost us the other one
        for name in queues:
            channel.queue_delete(self.prefix + name)
        for name in exchanges:
            channel.exchange_delete(self.prefix + name)

    def depth(self, queue: str) -> int:
        """How many messages are in a queue of ours."""
        return int(self.channel.queue_declare(self.prefix + queue, passive=True).message_count)

    def start(self, name: str, command: Sequence[str], **variables: str) -> Process:
        """Start a process that ends with this one, even if this one is killed."""
        return self.start_program(Program(name, command, variables))

    def start_program(self, program: Program) -> Process:
        log = self.folder / f"{program.name}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [sys.executable, "-m", "launcher.child", str(os.getpid()), *program.command],
                cwd=ROOT,
                env={**self.environment, **program.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us: we end it
                pass_fds=[one.fileno() for one in program.sockets],
            )
        process = Process(program.name, popen, log)
        self.at_end.callback(process.kill)
        return process


@contextlib.contextmanager
def on_stage(named: Addresses, keep: str = "") -> Iterator[Stage]:
    """With a database of its own, or with the one of this name that stays."""
    with tempfile.TemporaryDirectory(prefix="onbeat-bench-") as folder:
        stage = Stage(named, Path(folder), keep)
        try:
            stage.connect_broker()
            stage.connect_redis()
            stage.make_database()
            yield stage
        finally:
            with _uninterrupted():
                stage.at_end.close()


def _of_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def _connect_beside(url: str) -> psycopg.Connection:
    try:
        return psycopg.connect(_of_database(url, "postgres"), autocommit=True, connect_timeout=_CONNECT_SECONDS)
    except psycopg.OperationalError as error:
        raise _away("PostgreSQL", url) from error


def _away(what: str, url: str) -> Refusal:
    parts = urlsplit(url)
    return Refusal(
        f"{what} does not answer at {parts.hostname}:{parts.port}: start it with `./onbeat services`, "
        "or name another in the environment."
    )


def _delete_keys(leases: redis.Redis, prefix: str) -> None:
    keys = list(leases.scan_iter(match=f"{prefix}*", count=1000))
    for first in range(0, len(keys), 1000):
        leases.unlink(*keys[first : first + 1000])


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """An impatient second Ctrl-C must not leave a database behind."""
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
