"""Telling a person what takes long, and for how long it has."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Say = Callable[[str], None]


@contextmanager
def step(say: Say, text: str) -> Iterator[None]:
    """Say what is being done and, when it is done, how long it took. A terminal sees the seconds pass on one line."""
    started = time.monotonic()
    done = threading.Event()
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        counter = threading.Thread(target=_count, args=(text, started, done), daemon=True)
        counter.start()
    else:
        say(f"{text} …")
    try:
        yield
    finally:
        done.set()
        if on_terminal:
            counter.join()
            sys.stdout.write("\r\033[K")
            sys.stdout.flush()
    say(f"{text}: done in {time.monotonic() - started:.0f} s")


def _count(text: str, started: float, done: threading.Event) -> None:
    while not done.wait(0.2):
        sys.stdout.write(f"\r{text} … {time.monotonic() - started:.0f} s\033[K")
        sys.stdout.flush()
