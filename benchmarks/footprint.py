"""What processes take of this machine: CPU, thread by thread, and memory, as the kernel tells it.

CPU is the time on a core in nanoseconds (`/proc/PID/task/TID/schedstat`), user and system. A thread that has ended is
counted no more. Memory is what `/proc/PID/status` calls VmRSS and, for the most it ever was, VmHWM. A MB is a million
bytes.
"""

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from benchmarks.stage import Stage
from launcher.refusal import Refusal

_HERE = ("127.0.0.1", "::1", "localhost")
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> ALL(%s)"


def see_that_it_is_told() -> None:
    if not Path("/proc/self/schedstat").exists():
        raise Refusal("This reads CPU times and memory from /proc, which this system has not: run it on Linux.")


@dataclass(frozen=True)
class Cpu:
    """Of one process, in seconds: all of it, and of that its first thread, which in a beat fires."""

    whole: float
    loop: float

    @classmethod
    def of(cls, pid: int) -> Self:
        threads = {int(task.name): _on_core(task) for task in Path(f"/proc/{pid}/task").iterdir()}
        return cls(sum(threads.values()), threads[pid])

    def since(self, before: "Cpu") -> "Cpu":
        return Cpu(self.whole - before.whole, self.loop - before.loop)


def _on_core(task: Path) -> float:
    with suppress(OSError):  # one that ends at this moment
        return int((task / "schedstat").read_text().split()[0]) / 1e9
    return 0.0


def share_of_a_core(pid: int, *, seconds: float) -> float:
    """What a process uses for so long, which is how long this takes."""
    before, started = Cpu.of(pid), time.monotonic()
    time.sleep(seconds)
    return Cpu.of(pid).since(before).whole / (time.monotonic() - started)


@dataclass(frozen=True)
class Memory:
    now_mb: float
    peak_mb: float

    @classmethod
    def of(cls, pid: int) -> Self:
        told = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        return cls(_megabytes(told, "VmRSS"), _megabytes(told, "VmHWM"))


def _megabytes(told: str, name: str) -> float:
    found = re.search(rf"^{name}:\s*(\d+) kB$", told, re.MULTILINE)
    assert found is not None
    return round(int(found[1]) * 1024 / 1e6, 1)


class ServerCpu:
    """What PostgreSQL's processes for the database of a stage use, from the first look to the last.

    Those that end between two looks lose what they used after the first of them. Only of a server on this machine.
    """

    def __init__(self, stage: Stage, *, besides: list[int]) -> None:
        self._stage, self._besides = stage, besides
        self._before: dict[int, float] | None = None
        self._last: dict[int, float] = {}
        self.is_here = urlsplit(stage.named.database_url).hostname in _HERE and _is_of_postgres(
            stage.observer.info.backend_pid
        )

    def look(self) -> None:
        if not self.is_here:
            return
        backends = self._stage.observer.execute(_BACKENDS, [self._stage.database, self._besides]).fetchall()
        now: dict[int, float] = {}
        for (pid,) in backends:
            with suppress(OSError):  # it has just ended
                now[pid] = Cpu.of(pid).whole
        self._last |= now
        self._before = now if self._before is None else self._before

    @property
    def seconds(self) -> float | None:
        if self._before is None:
            return None
        before = self._before
        return sum(used - before.get(pid, 0.0) for pid, used in self._last.items())


def _is_of_postgres(pid: int) -> bool:
    """Not if it listens in a container or behind a proxy: its ids of processes are others there."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("postgres")
    except OSError:
        return False
