"""The processes of the platform, each in a place of its own: whoever ends is started again.

Invariant: only processes started here are signalled. Who ends without having been struck is told: that is a finding.
So is who was told to stop and says that something went wrong.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launcher.folders import ROOT

_LOOK_SECONDS = 0.1
_START_AGAIN_SECONDS = 0.5
_STOPS_WITHIN_SECONDS = 60.0
# Beats, workers and the web process all end with 0 then. Who has only begun to start is ended by the signal itself.
_STOPPED = (0, -signal.SIGTERM)


@dataclass
class Place:
    """A process, and what became of those before it."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    popen: "subprocess.Popen[bytes] | None" = None
    starts: int = 0
    start_at: float = 0.0
    struck: dict[int, set[signal.Signals]] = field(default_factory=dict)  # pids that a fault has hit, and with what
    told_at: dict[int, float] = field(default_factory=dict)  # pids that were told to stop, and when
    sessions: list[int] = field(default_factory=list)
    is_under_order: bool = False  # somebody here is about to be hit from inside, and it is not known yet who
    ended: list[tuple[int, int]] = field(default_factory=list)  # pids and exit codes of that time

    @property
    def pid(self) -> int:
        """Of the process that runs; 0 if it is being started."""
        return self.popen.pid if self.popen is not None and self.popen.poll() is None else 0

    def children(self) -> list[int]:
        found: list[int] = []
        for listing in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it ended at this moment
                found += [int(child) for child in listing.read_text().split()]
        return found


class Platform:
    """Keeps all places filled, in a thread of its own: on Linux its processes end with the thread that started them."""

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self.findings: list[str] = []
        self._lock = threading.RLock()
        self._may_start = True
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="platform", daemon=True)

    def add(self, place: Place) -> None:
        self.places[place.name] = place

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Nobody is started any more, and everybody is gone."""
        self._may_start = False
        self._is_over.set()
        self._thread.join()
        for place in self.places.values():
            for session in place.sessions:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(session, signal.SIGKILL)
            if place.popen is not None:
                place.popen.wait()

    def stop_all(self, names: Sequence[str]) -> None:
        """As an operator would, and to the end. Nobody is started any more; their thread lives on, and they with it."""
        with self._lock:
            self._may_start = False
            pids = [(self.places[name], self.places[name].pid) for name in names]
            told = [place for place, pid in pids if pid]
            for _, pid in pids:
                if pid:  # 0 would be the harness itself
                    os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOPS_WITHIN_SECONDS
        for place in told:
            assert place.popen is not None
            try:
                code = place.popen.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.findings.append(f"{place.name} did not stop within {_STOPS_WITHIN_SECONDS:.0f} s at the end")
                continue
            if code not in _STOPPED:
                self.findings.append(f"{place.name} ended with {code} when it was told to stop")

    def signal(self, name: str, number: signal.Signals, *, everybody: bool = False) -> int:
        """To the process in that place, or to all that it started as well; its pid, or 0 if there is none."""
        with self._lock:
            place = self.places[name]
            pid = place.pid
            if not pid:
                return 0
            if number in (signal.SIGKILL, signal.SIGTERM):
                place.struck.setdefault(pid, set()).add(number)
            if number == signal.SIGTERM:
                place.told_at[pid] = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if everybody else os.kill)(pid, number)
            return pid

    def go_on(self, name: str, group: int) -> bool:
        """Wake all of a process group of that place. No other: 0 would be the harness itself."""
        if group not in self.places[name].sessions:
            return False
        try:
            os.killpg(group, signal.SIGCONT)
        except ProcessLookupError:
            return False
        return True

    def expect_end(self, name: str) -> None:
        """Whoever is in that place may end: it is about to be hit from inside. To be followed by `tell_whose_end`."""
        with self._lock:
            self.places[name].is_under_order = True

    def tell_whose_end(self, name: str, group: int) -> None:
        """Who was hit from inside; 0 if nobody was. Everybody else who ended meanwhile did so for another reason."""
        with self._lock:
            place = self.places[name]
            place.is_under_order = False
            if group in place.sessions:
                place.struck.setdefault(group, set()).add(signal.SIGKILL)
            for pid, code in place.ended:
                self._judge_end(place, pid, code)
            place.ended.clear()

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            with self._lock:
                for place in self.places.values():
                    self._look_at(place)

    def _look_at(self, place: Place) -> None:
        now = time.monotonic()
        if place.popen is None:
            if now >= place.start_at and self._may_start:
                self._start(place)
            return
        pid, code = place.popen.pid, place.popen.poll()
        if code is None:
            if now - place.told_at.get(pid, now) > _STOPS_WITHIN_SECONDS:
                self.findings.append(f"{place.name} was told to stop and runs on after {_STOPS_WITHIN_SECONDS:.0f} s")
                del place.told_at[pid]
                self.signal(place.name, signal.SIGKILL, everybody=True)
            return
        if not self._may_start:
            return  # whoever told it to stop looks at how it ended
        if place.is_under_order:
            place.ended.append((pid, code))
        else:
            self._judge_end(place, pid, code)
        place.popen, place.start_at = None, now + _START_AGAIN_SECONDS

    def _judge_end(self, place: Place, pid: int, code: int) -> None:
        place.told_at.pop(pid, None)
        hit_with = place.struck.pop(pid, set())  # the system gives a pid again, and not to the same process
        if not hit_with:
            self.findings.append(f"{place.name} ended by itself with {code}; see {place.log.name}")
        elif signal.SIGKILL not in hit_with and code not in _STOPPED:
            self.findings.append(f"{place.name} ended with {code} when it was told to stop; see {place.log.name}")

    def _start(self, place: Place) -> None:
        with place.log.open("ab") as output:
            place.popen = subprocess.Popen(
                [sys.executable, "-m", "launcher.child", str(os.getpid()), *place.command],
                cwd=ROOT,
                env=dict(place.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        place.sessions.append(place.popen.pid)
        place.starts += 1
