"""What is read from the broker, which may hang: in the background, so that no page waits for it.

Owns the waiting. Invariant: whoever asks has an answer within a moment, an old one or none; at most one look is under
way at a time, however many ask.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db import connections

T = TypeVar("T")


@dataclass(frozen=True)
class Answer(Generic[T]):
    value: T
    age_seconds: float


class Reading(Generic[T]):
    """Something that takes long to look at, and how it was when it was last seen."""

    def __init__(self, look: Callable[[], T], *, fresh_seconds: float, patience_seconds: float) -> None:
        self._look = look
        self._fresh_seconds = fresh_seconds
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._seen: tuple[T, float] | None = None
        self._done: threading.Event | None = None  # of the look that is under way

    def latest(self) -> Answer[T] | None:
        """Fresh if that can be had within a moment; else the last one; None: nothing was ever seen."""
        with self._lock:
            seen = self._seen
            if seen is not None and time.monotonic() - seen[1] < self._fresh_seconds:
                return self._answer(seen)
            if self._done is None:
                self._done = threading.Event()
                threading.Thread(target=self._run, args=(self._done,), name="reading", daemon=True).start()
            done = self._done
        done.wait(self._patience_seconds)
        with self._lock:
            return None if self._seen is None else self._answer(self._seen)

    def _answer(self, seen: tuple[T, float]) -> Answer[T]:
        return Answer(seen[0], time.monotonic() - seen[1])

    def _run(self, done: threading.Event) -> None:
        try:
            value = self._look()
            with self._lock:
                self._seen = value, time.monotonic()
        finally:
            connections.close_all()
            with self._lock:
                self._done = None
            done.set()
