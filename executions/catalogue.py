"""What the database says of itself: its version, our tables in it, and who else is at work.

Owns the questions to the catalogues of PostgreSQL and SQLite. Invariant: each is one statement, and reads
no row of ours.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.models import Model

LABELS = "onbeat_"  # what the labels of our apps begin with
OLDEST_POSTGRESQL = 15


@dataclass(frozen=True)
class Session:
    """Somebody with an open transaction."""

    pid: int
    application: str
    state: str
    age: timedelta


@dataclass(frozen=True)
class Structure:
    """What our models want and the database does not have, or has and does not use."""

    constraints: list[str]  # on which promises rest
    indexes: list[str]  # without which it is slow


def is_postgresql() -> bool:
    return connection.vendor == "postgresql"


def version() -> tuple[int, str]:
    """Its first part, and in words."""
    if not is_postgresql():
        return sqlite3.sqlite_version_info[0], f"SQLite {sqlite3.sqlite_version}"
    ((said,),) = _rows("SHOW server_version")
    return int(said.split(".")[0]), f"PostgreSQL {said.split()[0]}"


# ── Indexes and constraints ──────────────────────────────────────────────────────────────────────────────────────


def missing_structure() -> Structure:
    there = _valid_on_postgresql() if is_postgresql() else _there_on_sqlite()
    wanted = [(model, constraint) for model in _models() for constraint in model._meta.constraints]
    constraints = [name for model, each in wanted if (name := _named(model, each.name)) not in there]
    indexes = [
        name for model in _models() for each in model._meta.indexes if (name := _named(model, each.name)) not in there
    ]
    return Structure(sorted(constraints), sorted(indexes))


def _models() -> list[type[Model]]:
    return [model for model in apps.get_models() if model._meta.app_label.startswith(LABELS)]


def _named(model: type[Model], name: str) -> str:
    return f"{model._meta.db_table}.{name}"


def _valid_on_postgresql() -> set[str]:
    """An index of a partitioned table is valid only if it is there, and valid, on each of the partitions."""
    found = _rows(
        """
        SELECT t.relname || '.' || i.relname FROM pg_index x
        JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
        WHERE pg_table_is_visible(t.oid) AND x.indisvalid
        UNION ALL
        SELECT t.relname || '.' || c.conname FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
        WHERE pg_table_is_visible(t.oid) AND c.contype = 'c' AND c.convalidated
        """
    )
    return {name for (name,) in found}


def _there_on_sqlite() -> set[str]:
    """A constraint without a condition has no index of its name: it stands in the text of its table."""
    stored = _rows("SELECT tbl_name, name, type, coalesce(sql, '') FROM sqlite_master")
    texts = {table: text for table, _, kind, text in stored if kind == "table"}
    there = {f"{table}.{name}" for table, name, kind, _ in stored if kind == "index"}
    for model in _models():
        text = texts.get(model._meta.db_table, "")
        there |= {_named(model, each.name) for each in model._meta.constraints if f'"{each.name}"' in text}
    return there


# ── Who is at work ───────────────────────────────────────────────────────────────────────────────────────────────


def long_transactions(longer_than: timedelta) -> list[Session]:
    """Open for longer than that, the oldest first. What others do may not be shown to this user, and is left out."""
    found = _rows(
        """
        SELECT pid, application_name, state, clock_timestamp() - xact_start FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
        AND clock_timestamp() - xact_start > %s ORDER BY xact_start LIMIT 100
        """,
        [longer_than],
    )
    return [Session(*row) for row in found]


def connections() -> tuple[int, int]:
    """How many there are on the whole server, and how many there may be."""
    ((used, most),) = _rows(
        """
        SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        """
    )
    return used, most


# ── Vacuum ───────────────────────────────────────────────────────────────────────────────────────────────────────


def not_vacuumed() -> list[str]:
    """Where nobody cleans up by himself: tables of ours, or `every table`."""
    ((is_on,),) = _rows("SELECT current_setting('autovacuum')::bool")
    off = _rows(
        """
        SELECT relname FROM pg_class WHERE relname = ANY(%s) OR relname LIKE ANY(%s)
        GROUP BY relname, reloptions HAVING 'autovacuum_enabled=false' = ANY(reloptions) ORDER BY relname
        """,
        _our_tables(),
    )
    return [name for (name,) in off] if is_on else ["every table"]


def dead_rows(more_than: int) -> list[tuple[str, int, int]]:
    """Tables of ours with more dead rows than this, and more than live ones: name, dead, live."""
    return _rows(
        """
        SELECT relname, n_dead_tup, n_live_tup FROM pg_stat_user_tables
        WHERE (relname = ANY(%s) OR relname LIKE ANY(%s)) AND n_dead_tup > greatest(%s, n_live_tup)
        ORDER BY n_dead_tup DESC LIMIT 20
        """,
        [*_our_tables(), more_than],
    )


def _our_tables() -> list[list[str]]:
    """Their names, and what the names of partitions look like."""
    names = [model._meta.db_table for model in _models()]
    return [names, [f"{name}\\_20__\\___" for name in names]]


def _rows(query: str, parameters: Iterable[Any] = ()) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query, list(parameters) or None)
        return list(cursor.fetchall())
