"""Whose figures these are: the machine, the versions of all that took part, and the commit that was measured."""

import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import kombu
import psycopg
import redis

from executions.version import VERSION
from launcher.folders import ROOT
from launcher.service_record import Addresses

_PACKAGES = ("celery", "kombu", "amqp", "Django", "psycopg", "django-celery-results")
_PEERS = ("django-celery-beat", "celery-redbeat")
_CONNECT_SECONDS = 5


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        # Rounded: the same machine has some pages more or less after each start.
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": _system(),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def versions(named: Addresses) -> dict[str, str | None]:
    """Of what is not there: none."""
    return {
        "onbeat": VERSION,
        "python": platform.python_version(),
        **_of_servers(named),
        **{name: _of_package(name) for name in (*_PACKAGES, *_PEERS)},
    }


def commit(outputs: Sequence[str]) -> dict[str, Any]:
    """What is checked out, and whether the files are those of it. What a run writes itself is left aside."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "is_clean": _git("status", "--porcelain", "--", ".", *(f":(exclude){path}" for path in outputs)) == "",
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)


def _of_servers(named: Addresses) -> dict[str, str | None]:
    with psycopg.connect(named.database_url, connect_timeout=_CONNECT_SECONDS) as database:
        postgres = database.info.parameter_status("server_version")
    with kombu.Connection(named.broker_url, connect_timeout=_CONNECT_SECONDS) as broker:
        broker.ensure_connection(max_retries=1)
        properties: dict[str, Any] = broker.connection.server_properties
    found: dict[str, str | None] = {
        "postgresql": postgres,
        "rabbitmq": properties.get("version"),
        "erlang": str(properties.get("platform", "")).removeprefix("Erlang/OTP ") or None,
        "redis": None,
    }
    if named.redis_url:
        with closing(redis.Redis.from_url(named.redis_url, socket_timeout=_CONNECT_SECONDS)) as leases:
            found["redis"] = str(leases.info("server")["redis_version"])
    return found


def _of_package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(*words: str) -> str | None:
    """What git answers; none without git, or where no repository is."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
