"""The database connections of whoever runs tasks, from one task to the next.

Django gives a connection back to its pool after each task, and takes one out and tries it before the next: a round trip
and more for each execution. A process that runs one task at a time keeps one that is in order, and gives it back only
when it was not used for a while. Threads that run many give theirs back: together they may have more than the pool.
Invariant: no task gets a connection that an earlier one left in a transaction, or broken.
"""

import threading
import time

from django.db import close_old_connections, connections

# After this long a server, or somebody between, may have cut it.
_FRESH_SECONDS = 5.0
_used_at = 0.0  # by the only thread that keeps its connections


def begin_task() -> None:
    """What was not used for a while is given back, and what is taken next is tried."""
    if not _keeps_them() or time.monotonic() - _used_at > _FRESH_SECONDS:
        close_old_connections()


def end_task() -> None:
    """Give back what is not in order, or not kept."""
    global _used_at
    if not _keeps_them():
        close_old_connections()
        return
    _used_at = time.monotonic()
    for connection in connections.all(initialized_only=True):
        is_as_it_was = connection.autocommit == connection.settings_dict["AUTOCOMMIT"]
        if connection.errors_occurred or not is_as_it_was:
            connection.close_if_unusable_or_obsolete()  # does nothing about one that was never opened


def _keeps_them() -> bool:
    """A child of the prefork pool, or the solo pool: there tasks run in the main thread."""
    return threading.current_thread() is threading.main_thread()
