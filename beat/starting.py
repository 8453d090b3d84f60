"""What a beat does once when it starts, beside its first ticks.

Apps register it when they are loaded, so that this module need not know them. Invariant: whatever becomes of it, the
beat fires; while the database is away it is tried again, and any other trouble is told once.
"""

import threading
from collections.abc import Callable

from django.db import InterfaceError, OperationalError, connections

from executions import events
from executions.storable import in_a_line

_AGAIN_SECONDS = 5.0
_registered: dict[str, Callable[[], dict[str, object]]] = {}


def register(name: str, do: Callable[[], dict[str, object]]) -> None:
    """`do` answers what it did, for the log."""
    _registered[name] = do


def begin(stop: threading.Event) -> threading.Thread | None:
    """Do all of it in a thread of its own, until it is done or the beat stops. None: there is nothing to do."""
    if not _registered:
        return None
    thread = threading.Thread(target=_do_all, args=(stop,), name="starting", daemon=True)
    thread.start()
    return thread


def _do_all(stop: threading.Event) -> None:
    try:
        for name, do in _registered.items():
            _do(name, do, stop)
    finally:
        connections.close_all()


def _do(name: str, do: Callable[[], dict[str, object]], stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            events.emit(f"{name} at start", **do())
            return
        except (OperationalError, InterfaceError):
            connections.close_all()
            stop.wait(_AGAIN_SECONDS)
        except Exception as error:
            events.warn(f"{name} at start failed", error=in_a_line(error))
            return
