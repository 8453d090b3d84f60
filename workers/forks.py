"""The parent of a prefork worker forks children while its own threads use the database.

SQLite keeps its locks in the memory of the process. A child that is forked while another thread of its parent has a
connection inherits these locks without their holder: it is locked out for ever, or writes where it should wait.
Invariant, with SQLite: when a child is forked, no thread of the parent has a connection. PostgreSQL needs none of this.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

_lock = threading.RLock()
_is_kept_apart = False


def keep_apart() -> None:
    """From now on no child of this process is forked in the middle of `database_work`."""
    global _is_kept_apart
    if connection.vendor == "sqlite" and not _is_kept_apart:
        _is_kept_apart = True
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


@contextmanager
def database_work() -> Iterator[None]:
    """Around whatever a thread of the parent does with the database."""
    if not _is_kept_apart:
        yield
        return
    with _lock:
        try:
            yield
        finally:
            _close()


def _before_fork() -> None:
    if _is_kept_apart:
        _lock.acquire()
        _close()


def _after_fork() -> None:
    if _is_kept_apart:
        _lock.release()


def _in_child() -> None:
    """What is registered stays so in a child. There forks and connections are its handlers' own affair."""
    global _is_kept_apart
    _after_fork()
    _is_kept_apart = False


def _close() -> None:
    if not connection.in_atomic_block:
        connection.close()
