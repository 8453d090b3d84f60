"""The CPU time of a process, as the kernel counts it."""

import os
from collections.abc import Iterable
from pathlib import Path

from benchmarks.stage import Process
from launcher.refusal import Refusal


def see_that_it_is_told() -> None:
    if not Path("/proc/self/stat").exists():
        raise Refusal("This reads CPU times from /proc, which this system has not: run it on Linux.")


def cpu_seconds_of(processes: Iterable[Process]) -> float:
    """Of all of them together."""
    return sum(cpu_seconds(process.pid) for process in processes)


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads since its start; the kernel counts in hundredths."""
    # The name of the program, in brackets, may hold anything; what follows begins with the third field.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")
