"""A process that runs one task at a time keeps its connection; a thread among many does not."""

import threading
from collections.abc import Iterator

import pytest
from django.db import connection

from workers import connections

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(connections, "_used_at", 0.0)
    connection.close()
    yield
    connection.close()


def backend() -> int:
    """The server's process behind our connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_a_connection_in_order_stays_from_task_to_task() -> None:
    connections.begin_task()
    first = backend()
    connections.end_task()
    assert connection.connection is not None
    connections.begin_task()
    assert backend() == first


def test_a_connection_that_was_not_used_for_a_while_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    backend()
    connections.end_task()
    monkeypatch.setattr(connections, "_FRESH_SECONDS", -1.0)
    connections.begin_task()
    assert connection.connection is None


def test_a_connection_that_a_task_left_in_a_transaction_is_given_back() -> None:
    backend()
    connection.set_autocommit(False)
    connections.end_task()
    assert connection.connection is None


def test_a_connection_that_the_server_cut_is_given_back() -> None:
    with connection.cursor() as cursor, pytest.raises(Exception, match=r"terminating|closed|server"):
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    connections.end_task()
    assert connection.connection is None


def test_a_thread_among_many_gives_its_connection_back_after_each_task() -> None:
    left: list[bool] = []

    def work() -> None:
        connections.begin_task()
        backend()
        connections.end_task()
        left.append(connection.connection is None)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert left == [True]
