"""What the servers pay for a piece of work: CPU of PostgreSQL, RabbitMQ and Redis, bytes of WAL, transaction ids.

CPU is the user and system time that the kernel counts for a server and all its processes (`/proc/PID/stat`), those
that ended meanwhile too. A server is found by the port that it listens on, and only on this machine: of one elsewhere,
or one whose processes we may not look at, there is no figure. WAL is how far the server's write position moved, and
transaction ids are those that were given out: to transactions that wrote something. All are of the whole server:
whatever else it does meanwhile is counted as well, and so are whole pages that PostgreSQL writes to the WAL after a
checkpoint.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.cpu_time import TICKS_PER_S, fields_behind_name
from benchmarks.stage import Stage

_HERE = ("127.0.0.1", "localhost", "::1")
_LISTENING = "0A"
_DEFAULT_PORTS = {"postgres": 5432, "rabbitmq": 5672, "redis": 6379}
# Who listens may also be a proxy, whose CPU tells nothing.
_PROGRAMS = {"postgres": "postgres", "rabbitmq": "beam.smp", "redis": "redis-server"}
# Asking for the next transaction id in this way takes none.
_POSITIONS = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, pg_snapshot_xmax(pg_current_snapshot())::text"


@dataclass(frozen=True)
class Reading:
    """At one moment. A server that cannot be looked at is missing."""

    cpu_s: Mapping[str, float]
    wal_bytes: int
    transaction_ids: int


class Meter:
    """Found once, so that reading it costs next to nothing."""

    def __init__(self, stage: Stage) -> None:
        self._observer = stage.observer
        urls = {"postgres": stage.named.database_url, "rabbitmq": stage.named.broker_url}
        urls |= {"redis": stage.named.redis_url} if stage.named.redis_url else {}
        found = {name: server_pid(name, url) for name, url in urls.items()}
        self._pids = {name: pid for name, pid in found.items() if pid}

    def read(self) -> Reading:
        row = self._observer.execute(_POSITIONS).fetchone()
        assert row is not None
        return Reading({name: cpu_seconds_of_all(pid) for name, pid in self._pids.items()}, int(row[0]), int(row[1]))


def per(count: int, before: Reading, after: Reading) -> dict[str, float | None]:
    """What one of so many cost between two readings."""
    cpu = {
        f"{name}_cpu_us": round((after.cpu_s[name] - before.cpu_s[name]) / count * 1e6, 1)
        if name in before.cpu_s and name in after.cpu_s
        else None
        for name in _PROGRAMS
    }
    return {
        **cpu,
        "wal_bytes": round((after.wal_bytes - before.wal_bytes) / count),
        "transaction_ids": round((after.transaction_ids - before.transaction_ids) / count, 3),
    }


def together(parts: Sequence[tuple[int, Mapping[str, float | None]]]) -> dict[str, float | None]:
    """What one cost in all parts together, each of so many; None if one of them does not know."""
    count = sum(number for number, _ in parts)
    costs: dict[str, float | None] = {}
    for name in parts[0][1]:
        paid = [None if (cost := each[name]) is None else number * cost for number, each in parts]
        known = [cost for cost in paid if cost is not None]
        costs[name] = round(sum(known) / count, 3) if len(known) == len(parts) else None
    return costs


def server_pid(name: str, url: str) -> int:
    """The process that listens there, if it is on this machine and the program that it should be; else 0."""
    parts = urlsplit(url)
    if parts.hostname not in _HERE:
        return 0
    inodes = set(_listening(parts.port or _DEFAULT_PORTS[name]))
    holders = {pid for pid in _processes() if _program(pid) == _PROGRAMS[name] and _has_socket(pid, inodes)}
    # A child may have inherited the socket: the one that opened it is the parent of all.
    return next((pid for pid in sorted(holders) if _parent(pid) not in holders), 0)


def cpu_seconds_of_all(pid: int) -> float:
    """Of a process and all that came from it, also of those that have ended and been waited for."""
    family, children = [pid], _children()
    for member in family:
        family += children.get(member, [])
    return sum(_ticks(member) for member in family) / TICKS_PER_S


def _listening(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _processes() -> list[int]:
    try:
        return sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    except OSError:  # a system without it
        return []


def _has_socket(pid: int, inodes: set[str]) -> bool:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    try:
        return any(os.readlink(each) in wanted for each in os.scandir(f"/proc/{pid}/fd"))
    except OSError:  # it has ended, or is none of our business
        return False


def _stat(pid: int) -> list[str]:
    """Nothing of a process that has ended."""
    try:
        return fields_behind_name(pid)
    except OSError:
        return []


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid in _processes():
        found.setdefault(_parent(pid), []).append(pid)
    return found


def _ticks(pid: int) -> int:
    """User and system time of its own, and of its children that it has waited for."""
    return sum(map(int, _stat(pid)[11:15]))
