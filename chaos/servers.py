"""The three private servers of a run, and what can be done to them.

Each has data, ports and passwords of its own. PostgreSQL and Redis keep their data on a small disk of their own where
this machine lets us make one, so that it can be filled. Invariant: only processes of these servers are signalled, by
the ids that they wrote down.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu
import psycopg
import redis

from launcher import postgres, rabbitmq, redis_server, service_record, services
from launcher.processes import run, wait_until
from launcher.progress import Say
from launcher.service_record import Addresses, Record

_DISK_MEGABYTES = {"postgres": 1500, "redis": 200}
_CONNECT_SECONDS = 5


class Servers:
    def __init__(self, data: Path, record: Record, addresses: Addresses, disks: list[Path]) -> None:
        self.folder = service_record.services_folder(data)
        self.addresses = addresses
        self.has_small_disks = bool(disks)
        self._disks = disks
        self._record = record

    # ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def database(self, **options: Any) -> Iterator[psycopg.Connection]:
        """A connection that no fault of the network touches."""
        url = self.addresses.database_url
        with psycopg.connect(url, autocommit=True, connect_timeout=_CONNECT_SECONDS, **options) as connection:
            yield connection

    def stop_postgres(self, mode: str) -> None:
        postgres.stop(self.folder, self._record, mode=mode)

    def start_postgres(self) -> None:
        """Also if it ended by itself, on a full disk."""
        postgres.start(self.folder, self._record)

    @contextlib.contextmanager
    def postgres_frozen(self) -> Iterator[None]:
        parent = postgres.pid(self.folder, self._record)
        with _frozen([parent, *_children(parent)]):
            yield

    # ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────────

    def kill_redis(self) -> None:
        os.kill(redis_server.pid(self.folder, self._record), signal.SIGKILL)

    def start_redis(self) -> None:
        wait_until(lambda: not redis_server.pid(self.folder, self._record), 5)
        redis_server.start(self.folder, self._record)

    def flush_redis(self) -> None:
        with contextlib.closing(redis.Redis.from_url(self.addresses.redis_url, socket_timeout=5)) as link:
            link.flushall()

    @contextlib.contextmanager
    def redis_frozen(self) -> Iterator[None]:
        with _frozen([redis_server.pid(self.folder, self._record)]):
            yield

    # ── RabbitMQ ─────────────────────────────────────────────────────────────────────────────────────────────────

    def kill_rabbitmq(self) -> None:
        os.kill(rabbitmq.pid(self.folder), signal.SIGKILL)

    def stop_rabbitmq(self) -> None:
        rabbitmq.stop(self.folder, self._record)

    def start_rabbitmq(self) -> None:
        rabbitmq.wait_until_gone(self.folder)
        rabbitmq.start(self.folder, self._record)

    def control_rabbitmq(self, *words: str) -> None:
        rabbitmq.control(self.folder, self._record, *words)

    def purge(self, queue: str) -> int:
        with kombu.Connection(self.addresses.broker_url, connect_timeout=_CONNECT_SECONDS) as connection:
            channel: Any = connection.channel()
            return int(channel.queue_purge(queue) or 0)

    # ── The disk ─────────────────────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Nothing more can be written to the disks of PostgreSQL and Redis. Whoever ended meanwhile is started then."""
        fillers = [disk / "filler" for disk in self._disks]
        try:
            for filler in fillers:
                _fill(filler)
            yield
        finally:
            for filler in fillers:
                filler.unlink(missing_ok=True)
        self.start_postgres()
        self.start_redis()


@contextlib.contextmanager
def private_servers(data: Path, say: Say) -> Iterator[Servers]:
    """Made for one run, and gone after it with all their data."""
    with contextlib.ExitStack() as stack:
        folder = service_record.services_folder(data)
        folder.mkdir(parents=True, exist_ok=True)
        disks = [disk for name in _DISK_MEGABYTES if (disk := _small_disk(folder / name, name, stack))]
        stack.callback(services.stop, data, say)
        addresses = services.start(data, say)
        record = service_record.load(data)
        assert record is not None
        if record.backend != "processes":
            raise service_record.ServicesUnavailable(
                "Faults are for servers that run as processes here, and there are only Docker's: "
                "install PostgreSQL, Redis and RabbitMQ, then try again."
            )
        if record.postgres_folder:
            stack.callback(shutil.rmtree, record.postgres_folder, ignore_errors=True)
            disks = []  # it could not be put where the small disk is
        yield Servers(data, record, addresses, disks)


def _small_disk(place: Path, name: str, stack: contextlib.ExitStack) -> Path | None:
    """A disk of its own in memory; None where we may not mount one."""
    place.mkdir()
    size = f"size={_DISK_MEGABYTES[name]}m,mode=0711"
    if os.geteuid() != 0 or run(["mount", "-t", "tmpfs", "-o", size, "onbeat-chaos", str(place)]).returncode != 0:
        return None
    stack.callback(run, ["umount", "--lazy", str(place)])
    return place


def _fill(filler: Path) -> None:
    """To the last block: what is free is taken at once, and what somebody frees meanwhile as well."""
    with filler.open("wb") as file:
        free = os.statvfs(filler.parent)
        with contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
        with contextlib.suppress(OSError):
            while True:
                os.write(file.fileno(), bytes(4096))


@contextlib.contextmanager
def _frozen(pids: list[int]) -> Iterator[None]:
    stopped = [pid for pid in pids if pid and _signal(pid, signal.SIGSTOP)]
    try:
        yield
    finally:
        for pid in reversed(stopped):
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _children(pid: int) -> list[int]:
    by_thread = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in by_thread for child in children.read_text().split()]
