"""Whether the database is away, and what it says about that."""

import re
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from executions.storable import in_a_line

_CONNECT_SECONDS = 2
_ENDED_FOR_ITS_SILENCE = "25P03"  # idle for too long in a transaction: an InternalError to psycopg


def is_outage(error: Exception) -> bool:
    """Whether the connection is gone. A statement that was too slow, or gave way to another, has a code of its own."""
    # SQLite's errors have no codes: its file does not go away, it is locked, full or broken.
    code: str | None = getattr(error.__cause__, "sqlstate", "")
    if code == _ENDED_FOR_ITS_SILENCE:
        return True
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    return error.__cause__ is None or code is None or code.startswith(("08", "57P"))


def why_away(error: Exception) -> str:
    """What the server or the network says, without addresses; the kind of the error if they say nothing.

    A pool of connections only says that it got none, so the server is asked once, beside the pool.
    """
    return _said(error) or _said(_try_to_connect()) or type(error.__cause__ or error).__name__


def why_unreachable() -> str:
    """Why nobody can connect at this moment, in the same words; empty if one can. Soon told: nothing is waited for."""
    error = _try_to_connect() if connection.vendor == "postgresql" else _try_to_open()
    return "" if error is None else _said(error) or in_a_line(error)


def _said(error: Exception | None) -> str:
    found = re.search(r".*failed: (?:FATAL: +)?(.+)", str(error))
    return found[1] if found else ""


def _try_to_connect() -> Exception | None:
    if connection.vendor != "postgresql":
        return None
    database: Any = connection
    try:
        database.Database.connect(**{**database.get_connection_params(), "connect_timeout": _CONNECT_SECONDS}).close()
    except Exception as error:
        return error
    return None


def _try_to_open() -> Exception | None:
    """SQLite finds out what its file is when it reads."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM sqlite_master")
    except DatabaseError as error:
        return error
    return None
