"""The database of a stage as the settings of a peer's Django project have it. It loads nothing of the platform."""

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


def from_url(url: str, *, keeps_connection: bool = False) -> dict[str, Any]:
    """As Django has it by default, with a new connection whenever it was let go; or with one that is kept."""
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname,
        "PORT": str(parts.port or 5432),
        "CONN_MAX_AGE": None if keeps_connection else 0,
        "OPTIONS": dict(parse_qsl(parts.query)),
    }
