"""Waiting for a condition: the only way a test lets time pass."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, what: str, seconds: float = 30) -> T:
    """The first true answer of the condition. The limit only ends a test that hangs; it is no measure of speed."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain: {what} (last answer: {answer!r})")
        time.sleep(0.05)
