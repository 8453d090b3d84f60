"""What this process is connected to, in words and without secrets."""

import re
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection


def in_words() -> dict[str, str]:
    return {
        "database": _database(),
        "broker": without_secrets(settings.CELERY_BROKER_URL),
        "redis": without_secrets(settings.REDIS_URL) or "none",
    }


def without_secrets(url: str) -> str:
    """Scheme, host, port and path of a URL: neither user, password nor query. Nor of those after it: brokers are
    named as a list."""
    if not url:
        return ""
    parts = urlsplit(url)
    return without_logins(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


def without_logins(text: str) -> str:
    """A text that others wrote, without what an address in it holds before its host."""
    return re.sub(r"(?<=://)[^/@\s]+@", "…@", text)


def _database() -> str:
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:{database['NAME']}"
    hosts, ports = str(database["HOST"]).split(","), str(database["PORT"]).split(",")
    if len(ports) < len(hosts):
        ports = ports[:1] * len(hosts)  # one port may stand for all
    places = ",".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=True))
    return f"{connection.vendor}://{places}/{database['NAME']}"
