"""Processes: running a command to its end, leaving a server behind, and telling ours from a stranger's.

A process is ours only if the number in our pid file still belongs to a command line that names our folder or
port: numbers are given out again, after a reboot above all.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# Leaves the server as a child of init with nothing of ours open: no pipe, no terminal, no zombie. A shell
# gives background commands an ignored SIGINT, and the new session keeps the terminal's signals away.
_LEAVE_BEHIND = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'

_HAS_PROC = Path("/proc/self/stat").exists()


def run(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 60, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end with its output in one string. Exit status 124 means that it took too long,
    127 that it could not be run."""
    try:
        return subprocess.run(
            argv,
            env=env,
            input=text,
            timeout=timeout,
            cwd="/",  # wherever we are, another user may not be allowed to be
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, f"{argv[0]} did not finish in {timeout:.0f} s")
    except OSError as problem:
        return subprocess.CompletedProcess(argv, 127, str(problem))


def leave_behind(argv: Sequence[str], *, env: Mapping[str, str] | None = None, log: Path) -> int:
    """Start a server that outlives us, and return its process id."""
    started = run(["/bin/sh", "-c", _LEAVE_BEHIND, "sh", str(log), *argv], env=env)
    return int(started.stdout.split()[-1])


def environment(without: Sequence[str], **extra: str) -> dict[str, str]:
    """Our environment minus the variables with these prefixes, which belong to the person's own servers."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(tuple(without))}
    return kept | extra


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def pid_in(file: Path) -> int:
    """The process id on the file's first line, or 0."""
    try:
        return int(file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def is_alive(pid: int) -> bool:
    """Whether a process that we know to be ours still runs; a zombie does not."""
    if _HAS_PROC:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
    else:
        state = run(["ps", "-o", "stat=", "-p", str(pid)]).stdout.strip()
    return bool(state) and not state.startswith("Z")


def began(pid: int) -> str:
    """Tells a process from a later one that is given its number; empty where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def command_line(pid: int) -> str:
    """The command line of a living process; empty for none, for a zombie, and while it becomes another program."""
    if pid <= 0:
        return ""
    if _HAS_PROC:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return ""
    return run(["ps", "-ww", "-o", "args=", "-p", str(pid)]).stdout.strip() if is_alive(pid) else ""


def is_ours(pid: int, *marks: str) -> bool:
    shown = command_line(pid)
    return any(mark in shown for mark in marks)


def terminate(pid: int, *marks: str, seconds: float) -> bool:
    """Ask our process to end, then make it; True once it is gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not is_ours(pid, *marks):
            return True
        os.kill(pid, number)
        if wait_until(lambda: not is_alive(pid), seconds):
            return True
    return False


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def tail(log: Path, lines: int) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
