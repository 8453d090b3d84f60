"""Publish what somebody asked for right away, from the process in which it was asked.

Owns the line to the broker of a process that is no beat. Invariant: nothing depends on it. What is asked for is in the
database before, due a little later than now; if it cannot be published here a beat does that, and if both do, the
claim drops the double. So nobody waits here for long, and after a failure nobody waits at all for a while.
"""

import os
import threading
import time
import uuid
from collections.abc import Collection
from datetime import timedelta

from django.db import Error, transaction

from executions import events, lifecycle, outbox
from executions.clock import database_now
from executions.dispatch import Publisher
from executions.storable import in_a_line

HEAD_START = timedelta(seconds=1)  # over the beats
MOST_AT_ONCE = 100  # more are left to the beats, which are made for it
_PATIENCE_SECONDS = 1.0
_AT_ONCE_SECONDS = 0.2  # a line that was cut says so within this; one that hangs does not
_REST_SECONDS = 15.0


class _Line:
    """One for all threads of a process, opened by the first who needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._publisher: Publisher | None = None
        self._rests_until = 0.0

    def publish(self, ids: Collection[uuid.UUID]) -> int:
        """How many are in their queues now."""
        if time.monotonic() < self._rests_until or not self._lock.acquire(timeout=_PATIENCE_SECONDS):
            return 0
        try:
            return self._publish(ids)
        except Error as error:
            events.warn("the database is away: what was asked for is left to the beats", error=in_a_line(error))
            return 0
        finally:
            self._lock.release()

    def _publish(self, ids: Collection[uuid.UUID]) -> int:
        was_open = self._publisher is not None
        publisher = self._publisher = self._publisher or Publisher(patience_seconds=_PATIENCE_SECONDS)
        now = database_now()
        due_by = now + HEAD_START
        rows = outbox.outgoing(ids, due_by=due_by)
        if not rows:
            return 0
        began = time.monotonic()
        report = publisher.publish(rows)
        if report.error and was_open and time.monotonic() - began < _AT_ONCE_SECONDS:
            report = publisher.publish(rows)  # a line that was not used for long had been cut
        if report.error:
            self._rests_until = time.monotonic() + _REST_SECONDS
            events.warn("the broker is away: what was asked for is left to the beats", error=report.error)
        return lifecycle.mark_queued(report.confirmed, now=now, due_by=due_by)

    def close(self) -> None:
        with self._lock:
            if self._publisher is not None:
                self._publisher.close()
            self._publisher, self._rests_until = None, 0.0


_line = _Line()


def publish_after_commit(ids: Collection[uuid.UUID]) -> None:
    """Publish these when the transaction has committed, if they are few; in no case raise."""
    if ids and len(ids) <= MOST_AT_ONCE:
        transaction.on_commit(lambda: _line.publish(ids), robust=True)


def close() -> None:
    """Leave the line; the next one who needs it opens another."""
    _line.close()


def _begin_anew() -> None:
    """In a child of the process that had a line: the socket is its parent's."""
    global _line
    _line = _Line()


os.register_at_fork(after_in_child=_begin_anew)
