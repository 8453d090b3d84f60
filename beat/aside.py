"""What a tick does aside, while it goes on itself.

In a burst the tick reads and sends batch after batch; what the broker answers is written down, and what is left is
planned, in threads with database connections of their own. Invariant: a tick ends only when all that it put aside is
done, and an error there is the tick's.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

from django.db import connection

P = ParamSpec("P")
T = TypeVar("T")


class Aside(Protocol):
    def submit(self, deed: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]": ...


class AtOnce:
    """Nothing is put aside: on a database with one writer at a time it would only wait."""

    def submit(self, deed: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        done: Future[T] = Future()
        try:
            done.set_result(deed(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


class AsideThreads:
    """Two things at a time: to write down, and to plan."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="aside")

    def submit(self, deed: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        def do() -> T:
            try:
                return deed(*args, **kwargs)
            except Exception:
                connection.close()  # that of this thread: the next deed begins with another
                raise

        return self._threads.submit(do)


def suitable() -> Aside:
    """For the database that is used."""
    return AsideThreads() if connection.vendor == "postgresql" else AtOnce()
