"""How a beat or worker is, as it says itself in a file: for probes that must not ask a database.

Owns the files in `alive` of the data folder; `./onbeat probe` reads them. Invariant: a file is written by the very loop
that does the work, so one that hangs falls silent. A folder that cannot be written to is told, ends nothing, and is
tried again: a disk that was full for a while is no reason to be taken for dead.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from executions import events
from executions.metrics_folder import is_alive
from executions.storable import in_a_line

FOLDER = "alive"
_EVERY_SECONDS = 1.0
_LEFT_AFTER_SECONDS = 3600.0


class Alive:
    def __init__(self, kind: str, name: str, *, silent_after_seconds: float) -> None:
        self._file = Path(settings.DATA_DIR) / FOLDER / f"{kind}-{os.getpid()}.json"
        self._facts: dict[str, Any] = {"kind": kind, "name": name, "pid": os.getpid(), "began": _began()}
        self._facts["silent_after_seconds"] = silent_after_seconds
        self._said: tuple[bool, str] | None = None
        self._said_at = float("-inf")
        self._is_in_vain = self._is_tidy = False

    def say(self, says: str, *, is_ready: bool) -> None:
        """At once if it is news, else once a second."""
        moment = time.monotonic()
        if self._said == (is_ready, says) and moment - self._said_at < _EVERY_SECONDS:
            return
        self._said, self._said_at = (is_ready, says), moment
        # The monotonic clock is the machine's, the same for all its processes: nobody sets it.
        said = {**self._facts, "is_ready": is_ready, "says": says, "at": moment}
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            if not self._is_tidy:
                self._is_tidy = True
                _tidy(self._file.parent)
            fresh = self._file.with_suffix(".new")
            fresh.write_text(json.dumps(said), encoding="utf-8")
            fresh.replace(self._file)
            self._is_in_vain = False
        except OSError as error:
            if not self._is_in_vain:
                events.warn("how this process is cannot be written: probes will call it silent", error=in_a_line(error))
            self._is_in_vain = True

    def leave(self) -> None:
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


def _began() -> str:
    """Tells this process from a later one that is given its number; empty where the system does not say."""
    try:
        return Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _tidy(folder: Path) -> None:
    """What killed processes left. Not at once: another machine may have the folder too, and other numbers."""
    for file in folder.glob("*-*.*"):
        pid = file.stem.rpartition("-")[2]
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _LEFT_AFTER_SECONDS and pid.isdigit() and not is_alive(int(pid)):
                file.unlink()
