"""The database connections of whoever runs tasks, from one task to the next.

Django gives a connection back to its pool after each task, and takes one out and tries it before the next: a round trip
and more for each execution. Here one that is in order is kept, and given back only when it was not used for a while.
Invariant: no task gets a connection that an earlier one left in a transaction, or broken.
"""

import threading
import time

from django.db import close_old_connections, connections

# After this long a server, or somebody between, may have cut it.
_FRESH_SECONDS = 5.0


class _Used(threading.local):
    at = 0.0


_last = _Used()


def begin_task() -> None:
    """What was not used for a while is given back, and what is taken next is tried."""
    if time.monotonic() - _last.at > _FRESH_SECONDS:
        close_old_connections()


def end_task() -> None:
    """Give back what is not in order."""
    _last.at = time.monotonic()
    for connection in connections.all(initialized_only=True):
        is_as_it_was = connection.autocommit == connection.settings_dict["AUTOCOMMIT"]
        if connection.errors_occurred or not is_as_it_was:
            connection.close_if_unusable_or_obsolete()  # does nothing about one that was never opened
