"""A line to PostgreSQL that is not waited on for ever.

Keepalives notice a host that vanished. They do not notice a server, or a pooler before it, that takes a question and
never answers: whoever asked would hang until somebody came. Owns who waits for how long for one answer: beats and web
within bounds, workers for what is theirs (claim, heartbeat, finish). Invariant: handlers and commands are never
hurried, since what these ask may well take long. The other way round, the server is told to notice when we are gone.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Self, TypeVar

import psycopg
from django.conf import settings
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout  # which every version of `Connection.wait` with a timeout raises

T = TypeVar("T")

_CANCEL_SECONDS = 2.0
_LOOK_EVERY_SECONDS = 0.1  # so that a signal is heard meanwhile
# By default a server keeps what a host had locked for two hours after it vanished. For each connection, and not as
# options of the address, which poolers refuse.
_NOTICE_WHEN_WE_VANISH = """
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = '30s';
"""

_is_process_hurried = False
_is_hurried: ContextVar[bool] = ContextVar("_is_hurried", default=False)


def hurry_always() -> None:
    """From now on, in all threads of this process."""
    global _is_process_hurried
    _is_process_hurried = True


@contextmanager
def hurried() -> Iterator[None]:
    """Within this, in this thread."""
    token = _is_hurried.set(True)
    try:
        yield
    finally:
        _is_hurried.reset(token)


def patience_seconds() -> float | None:
    """For how long an answer is waited for here and now; None: for as long as it takes."""
    is_hurried = _is_process_hurried or _is_hurried.get()
    return float(settings.DATABASE_ANSWER_SECONDS) if is_hurried else None


class Line(psycopg.Connection):
    """A connection that gives up on an answer which does not come, if whoever asks is hurried."""

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> Self:
        line = super().connect(*args, **options)
        is_autocommit = line.autocommit
        try:
            with hurried():
                line.autocommit = True
                line.execute(_NOTICE_WHEN_WE_VANISH)
                line.autocommit = is_autocommit
        except BaseException:
            line.close()
            raise
        return line

    def wait(self, gen: PQGen[T], interval: float = _LOOK_EVERY_SECONDS, timeout: float | None = None) -> T:
        if timeout is None:
            timeout = patience_seconds()
        try:
            return super().wait(gen, interval, timeout)
        except _WaitTimeout:
            return self._give_up(gen, interval, f"the database did not answer within {timeout:g} s")

    def _give_up(self, gen: PQGen[T], interval: float, why: str) -> T:
        """A server that lives is told that nobody waits any more, or it would do later what is tried again by then."""
        with suppress(psycopg.Error):  # perhaps it cannot be reached at all
            self.cancel_safe(timeout=_CANCEL_SECONDS)
        try:
            return super().wait(gen, interval, _CANCEL_SECONDS)  # most often the answer is that it was cancelled
        except _WaitTimeout:
            self.pgconn.finish()
            raise psycopg.OperationalError(why) from None
