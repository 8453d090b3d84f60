"""Statements that are said for each execution or each batch, always in the same words.

PostgreSQL keeps such a statement, and how to do it, with the connection: to find that out takes it twice as long as to
do it. Django's own statements bear their values within them, and are different each time. Behind a pooler that gives
each transaction another connection this cannot be; `DATABASE_PREPARES=0` says so. Not for statements that join long
lists with one another: the server has to know how long they are, or it does them badly.
"""

from typing import Any

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections


def cursor() -> Any:
    """As `connection.cursor()`, for plain SQL whose words do not depend on its values."""
    connection: Any = connections[DEFAULT_DB_ALIAS]  # looked up once: `django.db.connection` does it for each word
    is_shown = connection.queries_logged  # to whoever looks for mistakes, as a whole
    if connection.vendor != "postgresql" or not settings.DATABASE_PREPARES or is_shown:
        return connection.cursor()
    connection.ensure_connection()
    line = connection.connection
    line.prepare_threshold = 0  # at the first time; Django's own cursors are of another kind, and prepare nothing
    return connection._prepare_cursor(psycopg.Cursor(line))
