"""The CPU time of a process, as the kernel counts it."""

import os
from collections.abc import Iterable
from pathlib import Path

from benchmarks.stage import Process
from launcher.refusal import Refusal

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def see_that_it_is_told() -> None:
    if not Path("/proc/self/stat").exists():
        raise Refusal("This reads CPU times from /proc, which this system has not: run it on Linux.")


def cpu_seconds_of(processes: Iterable[Process]) -> float:
    """Of all of them together."""
    return sum(cpu_seconds(process.pid) for process in processes)


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads since its start; the kernel counts in hundredths."""
    user, system = map(int, fields_behind_name(pid)[11:13])
    return (user + system) / TICKS_PER_S


def fields_behind_name(pid: int) -> list[str]:
    """Of `/proc/PID/stat` from the third on. The name of the program, in brackets, may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
