"""The thread that says "this beat lives", and hears who else does.

Apart from the tick, so that a slow tick keeps its shards. Invariant: it speaks only while the beat gets its work done.
A beat whose tick hangs, or who cannot reach the broker, is no member: the others take its shards and its leases.
"""

import threading
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connection

from beat.members import EVERY, Members
from beat.shards import COUNT, Shards
from executions import events
from executions.storable import in_a_line


class Progress:
    """When the tick last got a step further. One that rests is not stuck."""

    def __init__(self, *, stuck_after_seconds: float) -> None:
        self._stuck_after_seconds = stuck_after_seconds
        self._since: float | None = None

    def made(self) -> None:
        self._since = time.monotonic()

    def rest(self) -> None:
        self._since = None

    def is_stuck(self) -> bool:
        since = self._since
        return since is not None and time.monotonic() - since > self._stuck_after_seconds


class Heartbeat:
    def __init__(
        self, members: Members, shards: Shards, progress: Progress, *, on_new_shards: Callable[[], None]
    ) -> None:
        self._members = members
        self._shards = shards
        self._progress = progress
        self._on_new_shards = on_new_shards
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.is_fit = True  # said by the tick: it can do the whole of its work
        self._was_member = True
        self._error = ""

    def start(self) -> None:
        """Be a member before the first lease is taken."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Hand over the shards at once."""
        self._stop.set()
        self._thread.join(timeout=EVERY.total_seconds() * 2)
        try:
            self._members.leave()
        except (DatabaseError, InterfaceError):
            connection.close()  # the others find out by the silence

    def _run(self) -> None:
        while not self._stop.wait(EVERY.total_seconds()):
            try:
                self._beat()
                self._error = ""
            except (DatabaseError, InterfaceError):
                connection.close()  # nobody can be heard, and without a database there is nothing to share
            except Exception as error:
                # A thread that ended here would make a beat that works look dead.
                if self._error != in_a_line(error):
                    self._error = in_a_line(error)
                    events.warn("the heartbeat of this beat failed; it goes on", error=self._error)
        connection.close()

    def _beat(self) -> None:
        if self.is_fit and not self._progress.is_stuck():
            members = self._members.renew()
            self._was_member = True
        else:
            self._step_back()
            members = self._members.look()
        if self._shards.share(members):
            count = len(self._shards.planning)
            events.emit("shards are shared anew", beats=len(members), ours=f"{count} of {COUNT}")
            self._on_new_shards()

    def _step_back(self) -> None:
        if self._was_member:
            self._was_member = False
            # Told first: what the tick hangs in may hold up the leaving as well.
            if self._progress.is_stuck():
                events.warn("this beat's tick hangs: its shards go to the others")
            self._members.leave()
