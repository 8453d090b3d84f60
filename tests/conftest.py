"""What every tier shares."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import hypothesis
import pytest
from django.conf import settings
from django.db import connection

from tests.platform import Platform

# The same examples in every run: a failure is found by whoever caused it, and not by whoever comes next.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture
def noon() -> datetime:
    """A moment to pass as `now`: far from any clock change."""
    return datetime(2026, 6, 15, 12, 0, tzinfo=UTC)


@pytest.fixture
def is_full() -> bool:
    """Whether this run is on PostgreSQL, Redis and RabbitMQ."""
    return connection.vendor == "postgresql"


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    """A platform of real processes with a database, queues and leases of its own; gone when the test ends."""
    with Platform(tmp_path, is_full=settings.DATABASES["default"]["ENGINE"].endswith("postgresql")) as started:
        yield started
