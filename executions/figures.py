"""Figures from the database, as the web process shows them to who scrapes.

Apps register what they look at, so that this module need not know them. Invariants: a scrape waits a second for the
database at most, and for the broker never; while the database does not answer that is said, and no old figure stands
for a new one; however many scrape at once, one looks.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow
from datetime import datetime
from typing import Any

from django.db import Error, connection

from executions.clock import database_now
from executions.metrics import Gauge

Look = Callable[[datetime], Iterable[Any]]

UP = Gauge("onbeat_database_up", "Whether the database answered within a second.")
_PATIENCE_SECONDS = 1.0
_FRESH_SECONDS = 1.0
_looks: list[Look] = []


def register(look: Look) -> None:
    _looks.append(look)


class _Here:
    """The one of this process who looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._looking: Future[list[Any]] | None = None
        self._looked_at = 0.0

    def figures(self) -> list[Any]:
        with self._lock:
            is_fresh = time.monotonic() - self._looked_at < _FRESH_SECONDS
            if self._looking is None or (self._looking.done() and not is_fresh):
                self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="figures")
                self._looking, self._looked_at = self._thread.submit(_look), time.monotonic()
            looking = self._looking
        try:
            return looking.result(timeout=_PATIENCE_SECONDS)
        except (TooSlow, Error):
            return [UP.of(0)]


_here = _Here()


def families() -> Iterator[Any]:
    yield from _here.figures()


def _look() -> list[Any]:
    try:
        now = database_now()
        return [UP.of(1), *(family for look in _looks for family in look(now))]
    finally:
        connection.close()
