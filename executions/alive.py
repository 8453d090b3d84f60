"""How a beat or worker is, as it says itself in a file: for probes that must not ask a database.

Owns the files in `alive` of the data folder; `./onbeat probe` reads them. Invariant: a file is written by the very loop
that does the work, so one that hangs falls silent. A folder that cannot be written to is told once, and ends nothing.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from executions import events
from executions.storable import in_a_line

FOLDER = "alive"
_EVERY_SECONDS = 1.0


class Alive:
    def __init__(self, kind: str, name: str, *, silent_after_seconds: float) -> None:
        self._file = Path(settings.DATA_DIR) / FOLDER / f"{kind}-{os.getpid()}.json"
        self._facts: dict[str, Any] = {"kind": kind, "name": name, "pid": os.getpid()}
        self._facts["silent_after_seconds"] = silent_after_seconds
        self._said: tuple[bool, str] | None = None
        self._said_at = float("-inf")
        self._is_in_vain = False

    def say(self, says: str, *, is_ready: bool) -> None:
        """At once if it is news, else once a second."""
        moment = time.monotonic()
        if (self._said == (is_ready, says) and moment - self._said_at < _EVERY_SECONDS) or self._is_in_vain:
            return
        self._said, self._said_at = (is_ready, says), moment
        # The monotonic clock is the machine's, the same for all its processes: nobody sets it.
        said = {**self._facts, "is_ready": is_ready, "says": says, "at": moment}
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._file.with_suffix(".new")
            fresh.write_text(json.dumps(said), encoding="utf-8")
            fresh.replace(self._file)
        except OSError as error:
            self._is_in_vain = True
            events.warn("how this process is cannot be written: probes will call it silent", error=in_a_line(error))

    def leave(self) -> None:
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
