"""Telling a database that is away from one that refuses a statement, and saying why it is away."""

import pytest
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections, transaction

from executions.outages import is_outage, why_away
from tests.waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.django_db]


def refused(statement: str) -> Exception:
    with pytest.raises(Exception) as caught, transaction.atomic(), connection.cursor() as cursor:  # noqa: PT011
        cursor.execute(statement)
    return caught.value


def test_a_statement_that_was_too_slow_or_wrong_is_no_outage() -> None:
    assert not is_outage(refused("SET LOCAL statement_timeout = 1; SELECT pg_sleep(2)"))
    assert not is_outage(refused("SELECT 1 / 0"))
    assert not is_outage(ZeroDivisionError())


def test_a_connection_that_is_gone_is_an_outage() -> None:
    assert is_outage(OperationalError())
    assert is_outage(InterfaceError("the connection is closed"))


def test_a_connection_that_the_server_ended_for_its_silence_is_an_outage() -> None:
    """As it does with a beat that hangs between a lock and its commit."""
    silent = connections.create_connection("default")
    silent.set_autocommit(False)

    def end() -> Exception | None:
        try:
            with silent.cursor() as cursor:
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
        except DatabaseError as error:
            return error
        return None

    try:
        assert is_outage(wait_until(end, what="the server has ended it"))
    finally:
        silent.close()


def away(text: str, cause: str = "") -> OperationalError:
    error = OperationalError(text)
    error.__cause__ = type(cause, (Exception,), {})() if cause else None
    return error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'connection failed: FATAL:  password authentication failed for user "onbeat"',
            "password authentication failed",
        ),
        ('connection to server at "10.0.0.1", port 5432 failed: Connection refused', "Connection refused"),
    ],
)
def test_what_the_server_says_is_told_without_its_address(text: str, said: str) -> None:
    assert why_away(away(text)).startswith(said)


def test_when_the_pool_says_nothing_the_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_away(away("couldn't get a connection after 30.00 sec", "PoolTimeout")) == "PoolTimeout"
    password = "not-the-password"
    parameters = connection.get_connection_params()  # type: ignore[attr-defined]
    monkeypatch.setattr(connection, "get_connection_params", lambda: {**parameters, "password": password})
    said = why_away(away("couldn't get a connection after 30.00 sec", "PoolTimeout"))
    assert said.startswith("password authentication failed for user")
    assert password not in said
    assert str(settings.DATABASES["default"]["PORT"]) not in said
