"""Waiting for a database that is away.

Invariant: a step that cannot reach the database is tried again in place; only when patience is at its end does the
caller hear of it, and then nothing was decided.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import InterfaceError, InternalError, OperationalError, connection

from executions import database_line, events

T = TypeVar("T")

# An InternalError is no word on the step either: the server takes no writes, or ended a session for its silence.
AWAY = (OperationalError, InterfaceError, InternalError)

# Before the work: the message can go back to its queue, where another worker may have more luck.
SHORT_SECONDS: Sequence[float] = (0.2, 0.5, 1, 2, 5, 10)
# After the work: giving up means doing it again. About five minutes.
LONG_SECONDS: Sequence[float] = (0.2, 0.5, 1, 2, 5, *[10] * 30)


class Unreachable(Exception):
    """The database stayed away."""


def reaching_database(step: Callable[[], T], pauses: Sequence[float]) -> T:
    for pause in (*pauses, None):
        try:
            with database_line.hurried():
                return step()
        except AWAY as error:
            connection.close()
            if pause is None:
                raise Unreachable("the database stayed away") from error
            events.warn("the database is away: the worker waits", seconds=pause, error=type(error).__name__)
            time.sleep(pause)
    raise AssertionError("the last pause is none")
