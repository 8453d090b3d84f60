"""Connections to a database that is not ours, by its address.

Invariants: nothing is written there; the address, which may hold a password, is in no message; whatever is wrong is one
sentence.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from terminal.frame import refuse

_ALIAS = "default"
_FORMS = "postgresql://user:password@host:5432/name or sqlite:///path/to/file"


@contextmanager
def opened(address: str | None) -> Iterator[BaseDatabaseWrapper]:
    """The database at an address; without one, our own."""
    if address is None:
        yield connections["default"]
        return
    connection = ConnectionHandler({_ALIAS: _settings(address)})[_ALIAS]
    try:
        connection.ensure_connection()
        yield connection
    except (DatabaseError, ImproperlyConfigured) as error:
        refuse(f"The database at --database cannot be read ({_reason(error)}); check its address.")
    finally:
        connection.close()


def address_in(variable: str) -> str:
    address = os.environ.get(variable, "")
    if not address:
        refuse(f"The environment variable {variable!r} is not set; let it hold {_FORMS}.")
    return address


def _settings(address: str) -> dict[str, Any]:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        refuse(f"--database is no address; write {_FORMS}, with special characters as %XX.")
    path = unquote(parts.path)
    if parts.scheme == "sqlite":
        path = path.replace("//", "/", 1) if path.startswith("//") else path  # some write four slashes
        if parts.netloc or not Path(path).is_file():
            refuse(f"There is no file {path!r}; write the address as sqlite:///absolute/path/to/file.")
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": f"file:{quote(path)}?mode=ro",
            "OPTIONS": {"uri": True, "timeout": 20},
        }
    if parts.scheme not in ("postgresql", "postgres") or not parts.hostname or len(path) < 2:
        refuse(f"--database must be {_FORMS}.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": path[1:],
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname,
        "PORT": str(port or 5432),
        "OPTIONS": {
            "connect_timeout": 10,
            "options": "-c default_transaction_read_only=on",
            **dict(parse_qsl(parts.query)),
        },
    }


def _reason(error: Exception) -> str:
    """What the driver says, in a line. No driver tells a password; an address may be quoted by Django alone."""
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
