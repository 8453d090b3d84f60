"""What a tick does aside, while it goes on itself.

In a burst the tick reads and sends batch after batch; what the broker answers is written down, and what is left is
planned, in threads with database connections of their own. Invariant: a tick ends only when all that it put aside is
done, and an error there is the tick's.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

from django.db import connection

NAME = "aside"  # with which the names of its threads begin
P = ParamSpec("P")
T = TypeVar("T")


class Aside(Protocol):
    def submit(self, deed: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]": ...

    def begin_anew(self) -> None:
        """Whatever is done aside from now on is done on connections that are new."""


class AtOnce:
    """Nothing is put aside: on a database with one writer at a time it would only wait."""

    def submit(self, deed: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        done: Future[T] = Future()
        try:
            done.set_result(deed(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done

    def begin_anew(self) -> None:
        """Its connection is that of the tick."""


class _Here(threading.local):
    beginnings = 0  # that this thread has heard of


class AsideThreads:
    """Two things at a time: to write down, and to plan."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix=NAME)
        self._beginnings = 0
        self._here = _Here()

    def begin_anew(self) -> None:
        self._beginnings += 1  # each thread closes its own connection: nobody else may

    def submit(self, deed: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        def do() -> T:
            if self._here.beginnings != self._beginnings:
                self._here.beginnings = self._beginnings
                connection.close()
            return deed(*args, **kwargs)

        return self._threads.submit(do)


def suitable() -> Aside:
    """For the database that is used."""
    return AsideThreads() if connection.vendor == "postgresql" else AtOnce()
