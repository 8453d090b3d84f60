"""Stopping a call that runs, from outside of it.

Owns the call step: the stretch in which a task's own code runs. Invariant: an error from outside is raised only there,
only in the call that was named, and once for each reason; a word that comes too late hits nobody.

How a call is reached depends on where it runs. In a main thread (a prefork child, the solo pool) a signal interrupts
even a sleep. In another thread Python raises the error when that thread next runs Python code, not within a long wait.
"""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

from celery.exceptions import SoftTimeLimitExceeded

from workers import orders
from workers.orders import Why

T = TypeVar("T")

# The signal that Celery's own soft time limits come by. Its handler would raise anywhere, also in an idle child.
SIGNAL = signal.SIGUSR1


class Cancelled(BaseException):
    """Somebody asked to stop this execution. Not an Exception: `except Exception` is for errors of the work."""


_ERRORS: dict[Why, type[BaseException]] = {Why.CANCELLED: Cancelled, Why.TIMED_OUT: SoftTimeLimitExceeded}


@dataclass(eq=False)
class Call:
    """One call of a task's own code."""

    name: bytes
    thread: int
    limit_seconds: float | None
    deadline: float | None  # by the monotonic clock; watched where the pool does not
    reasons: set[Why] = field(default_factory=set)  # that were raised in it, or are about to be
    is_inside: bool = False


_calls: dict[int, Call] = {}  # by thread
_lock = threading.Lock()  # a word from another thread either comes before the end of the call or not at all
_previous_handler: Any = None
_handled_in = 0  # the process in which the handler is installed


def call_step(call: Call, work: Callable[[], T]) -> T:
    """Do the work; from here on until it returns it may be stopped."""
    outer = _calls.get(call.thread)  # a task may call another one within
    _calls[call.thread] = call
    try:
        try:
            call.is_inside = True
            orders.enter(call.name)
            return work()
        finally:
            call.is_inside = False
    finally:
        call.is_inside = False  # again, since an error from outside may have come in the line above
        orders.leave()
        _forget(call, outer)


def begin(task_id: str, attempt: int, *, limit_seconds: float | None) -> Call:
    deadline = None if limit_seconds is None else time.monotonic() + limit_seconds
    return Call(orders.name_of(task_id, attempt), threading.get_ident(), limit_seconds, deadline)


def _forget(call: Call, outer: Call | None) -> None:
    try:
        with _lock:
            _raise_in_thread(call.thread, None)
    finally:
        if outer is None:
            _calls.pop(call.thread, None)
        else:
            _calls[call.thread] = outer
            orders.enter(outer.name)


def stop(name: bytes, why: Why) -> bool:
    """Stop a call of this very process, if it runs. For pools without children."""
    with _lock:
        call = next((call for call in list(_calls.values()) if call.name == name), None)
        if call is None or why in call.reasons or not call.is_inside:
            return False
        if call.thread == threading.main_thread().ident:
            orders.give(os.getpid(), name, why)
            signal.pthread_kill(call.thread, SIGNAL)
        else:
            call.reasons.add(why)
            _raise_in_thread(call.thread, _ERRORS[why])
    return True


def stop_overdue() -> None:
    """Stop the calls of this very process that take longer than they may."""
    now = time.monotonic()
    for call in list(_calls.values()):
        if call.deadline is not None and now > call.deadline:
            stop(call.name, Why.TIMED_OUT)


def _error(call: Call, why: Why) -> BaseException:
    said = f"took longer than {call.limit_seconds:g} s" if why is Why.TIMED_OUT and call.limit_seconds else ""
    return _ERRORS[why](*filter(None, [said]))


def _raise_in_thread(thread: int, error: type[BaseException] | None) -> None:
    """None takes back what has not been raised yet."""
    if thread != threading.main_thread().ident:
        argument = ctypes.py_object() if error is None else ctypes.py_object(error)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), argument)


def listen() -> None:
    """In each process anew, when it first works: Celery's pool puts its own handler there when a child begins."""
    global _previous_handler, _handled_in
    if _handled_in != os.getpid() and threading.current_thread() is threading.main_thread():
        previous = signal.signal(SIGNAL, _on_signal)
        _handled_in = os.getpid()
        if previous is not _on_signal:
            _previous_handler = previous


def _on_signal(number: int, frame: FrameType | None) -> None:
    call = _calls.get(threading.main_thread().ident or 0)
    if call is not None:
        for why in orders.given(os.getpid(), call.name):
            if call.is_inside and why not in call.reasons:
                call.reasons.add(why)
                raise _error(call, why)
    elif callable(_previous_handler) and _previous_handler.__module__ != "billiard.pool":
        _previous_handler(number, frame)  # in a worker without children, Celery shows its stacks on this signal
