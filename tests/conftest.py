"""What every tier shares."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings as project_settings
from django.db import connection
from django.test import override_settings

from tests.platform import Platform

# The same examples in every run: a failure is found by whoever caused it, and not by whoever comes next.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def kept_secret_key() -> Iterator[None]:
    """Secrets are sealed only with a key that outlives the process, as every installation has one."""
    with override_settings(SECRET_KEY_IS_KEPT=True):
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Users of tests have passwords that nobody guesses at: to hash each at length takes longer than many a test."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture
def noon() -> datetime:
    """A moment to pass as `now`: far from any clock change."""
    return datetime(2026, 6, 15, 12, 0, tzinfo=UTC)


@pytest.fixture
def is_full() -> bool:
    """Whether this run is on PostgreSQL, Redis and RabbitMQ."""
    return connection.vendor == "postgresql"


@pytest.fixture
def loopback_may_be_called(settings: Any) -> None:
    """By HTTP callbacks."""
    settings.ONBEAT_CALLBACKS_NETWORKS = ["127.0.0.0/8"]
    settings.ONBEAT_CALLBACKS_PORTS = ["1024-65535"]


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    """A platform of real processes with a database, queues and leases of its own; gone when the test ends."""
    with Platform(tmp_path, is_full=project_settings.DATABASES["default"]["ENGINE"].endswith("postgresql")) as started:
        yield started
