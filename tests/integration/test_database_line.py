"""A line to the database that is given up when no answer comes, for those who are hurried, and for nobody else."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.conf import settings as project_settings
from django.db import OperationalError, connection

from chaos.proxy import Proxy
from executions import database_line
from executions.database_line import Line, hurried, hurry_always
from executions.outages import is_outage

pytestmark = [pytest.mark.django_db, pytest.mark.full]

PATIENCE_SECONDS = 0.5
LONGER = f"SELECT pg_sleep({PATIENCE_SECONDS * 2})"


@pytest.fixture(autouse=True)
def _little_patience(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DATABASE_ANSWER_SECONDS = PATIENCE_SECONDS
    monkeypatch.setattr(database_line, "_is_process_hurried", False)  # a beat of another test may have run here


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(project_settings.DATABASE_URL) as started:
        yield started


@pytest.fixture
def line(proxy: Proxy) -> Iterator[Line]:
    name = connection.settings_dict["NAME"]
    with Line.connect(urlunsplit(urlsplit(proxy.url)._replace(path=f"/{name}")), autocommit=True) as opened:
        yield opened


def test_the_connections_of_the_platform_are_such_lines() -> None:
    connection.ensure_connection()
    assert isinstance(connection.connection, Line)


@pytest.mark.parametrize("fault", ["server gone", "frozen"])
def test_a_server_that_never_answers_is_left_by_whoever_is_hurried(line: Line, proxy: Proxy, fault: str) -> None:
    proxy.tear(gone="server") if fault == "server gone" else proxy.freeze()
    with hurried(), pytest.raises(psycopg.OperationalError, match=r"the database did not answer within 0\.5 s"):
        line.execute("SELECT 1")
    assert line.closed


def test_a_statement_that_takes_too_long_is_taken_back_and_the_line_is_kept(line: Line) -> None:
    with hurried(), pytest.raises(psycopg.errors.QueryCanceled):
        line.execute("SELECT pg_sleep(60)")
    assert line.execute("SELECT 1").fetchone() == (1,)


def test_who_is_not_hurried_waits_for_as_long_as_it_takes(line: Line) -> None:
    line.execute(LONGER)
    with hurried():
        line.execute("SELECT 1")
    line.execute(LONGER)


def test_a_beat_or_web_process_is_always_hurried(line: Line) -> None:
    hurry_always()
    with pytest.raises(psycopg.errors.QueryCanceled):
        line.execute("SELECT pg_sleep(60)")


def test_an_answer_that_does_not_come_is_an_outage(line: Line, proxy: Proxy) -> None:
    proxy.tear(gone="server")
    with pytest.raises(OperationalError) as caught, connection.wrap_database_errors, hurried():
        line.execute("SELECT 1")
    assert is_outage(caught.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("tcp_keepalives_idle", "10"),
        ("tcp_keepalives_interval", "5"),
        ("tcp_keepalives_count", "3"),
        ("tcp_user_timeout", "30000"),
    ],
)
def test_the_server_notices_a_host_that_vanished_as_soon_as_we_would(setting: str, value: str) -> None:
    """By default it keeps the locks of one for two hours."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [setting])
        assert cursor.fetchone() == (value,)
