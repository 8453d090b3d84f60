"""Several programs under one roof, with readable interleaved logs.

Owns their life: starts them, starts again what ends by itself, stops all cleanly. Invariant: only processes that it
started are ever signalled, and none of them outlives it.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType

_STOP_SECONDS = 15
_RESTART_SECONDS = (1, 2, 5, 10, 30)
_CALM_SECONDS = 60
_COLOURS = (36, 35, 33, 32, 34, 31)


@dataclass(frozen=True)
class Program:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    sockets: Sequence[socket.socket] = ()  # open ones that it inherits


class _Running:
    """One program and how often it had to be started."""

    def __init__(self, program: Program, write: Callable[[str, str], None]) -> None:
        self.program = program
        self._write = write
        self.restarts = 0
        self.start_at = 0.0
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "launcher.child", str(os.getpid()), *self.program.command],
            env={**os.environ, **self.program.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # A session of its own: Ctrl-C reaches only the supervisor, which then stops each program in its own way.
            start_new_session=True,
            pass_fds=[one.fileno() for one in self.program.sockets],
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._write(self.program.name, line.rstrip("\n"))

    def has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def plan_restart(self) -> float:
        """After how many seconds to start it again: longer each time, unless it ran well for a while."""
        if time.monotonic() - self.started_at > _CALM_SECONDS:
            self.restarts = 0
        pause = _RESTART_SECONDS[min(self.restarts, len(_RESTART_SECONDS) - 1)]
        self.restarts += 1
        self.process = None
        self.start_at = time.monotonic() + pause
        return pause

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill_all(self) -> None:
        """The program and whatever it started that is still there: they share its session."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.process.wait()


class Supervisor:
    def __init__(self, programs: Sequence[Program]) -> None:
        self._width = max(len(program.name) for program in programs)
        self._colours = {program.name: _COLOURS[i % len(_COLOURS)] for i, program in enumerate(programs)}
        self._is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._hurry = False
        self._running = [_Running(program, self.write) for program in programs]

    def write(self, name: str, line: str) -> None:
        label = f"{name:<{self._width}} │"
        if self._is_coloured:
            label = f"\x1b[{self._colours.get(name, 0)}m{label}\x1b[0m"
        self.say(f"{label} {line}")

    def say(self, text: str) -> None:
        with self._writing, contextlib.suppress(OSError):
            # The reader has gone, or a disk is full: the programs' lines must be taken all the same, or they hang.
            print(text, flush=True)

    def run(self) -> None:
        """Until a signal says stop."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        for running in self._running:
            running.start()
        while not self._stop.wait(0.2):
            for running in self._running:
                self._look_after(running)
        self._stop_all()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._hurry = self._stop.is_set()
        self._stop.set()

    def _look_after(self, running: _Running) -> None:
        if running.has_ended():
            assert running.process is not None
            how = _how_it_ended(running.process.returncode)
            running.kill_all()
            pause = running.plan_restart()
            self.write(running.program.name, f"ended by itself ({how}); starting again in {pause} s")
        elif running.process is None and time.monotonic() >= running.start_at:
            running.start()

    def _stop_all(self) -> None:
        self.say("\nStopping … (Ctrl-C again to end at once)")
        for running in self._running:
            running.signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while not self._hurry and time.monotonic() < deadline and any(map(_is_alive, self._running)):
            time.sleep(0.05)
        for running in self._running:
            if _is_alive(running):
                self.write(running.program.name, "did not stop in time and was killed")
            running.kill_all()


def _is_alive(running: _Running) -> bool:
    return running.process is not None and running.process.poll() is None


def _how_it_ended(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
