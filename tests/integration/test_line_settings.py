"""What a beat tells PostgreSQL of its connections: what a tick asks is found by index, and nothing read as a whole."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from django.db import connection

from beat import aside, line_settings
from executions import outbox
from tests.making import a_job, planned, seconds

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
SETTINGS = ("enable_seqscan", "enable_sort", "jit", "idle_in_transaction_session_timeout")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    with connection.cursor() as cursor:
        cursor.execute("RESET ALL")


def told() -> list[str]:
    """In this thread, on a connection that may have been another's before."""
    line_settings.tell(connection=connection)
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in SETTINGS))
        said: list[str] = list(cursor.fetchone())
        return said


def told_in(name: str) -> list[str]:
    def ask() -> list[str]:
        threading.current_thread().name = name
        try:
            with connection.cursor() as cursor:
                cursor.execute(line_settings._BY_INDEX)  # as the one before has left it
            return told()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(ask).result()


def test_what_a_tick_asks_goes_by_index_and_what_duties_ask_as_the_server_likes(settings: Any) -> None:
    settings.ONBEAT_BEAT_STUCK_AFTER_SECONDS = 7
    by_index, as_usual = ["off", "off", "off", "7s"], ["on", "on", "on", "7s"]
    assert told() == by_index  # a beat ticks in its main thread
    assert told_in(f"{aside.NAME}_0") == by_index
    assert told_in("upkeep") == as_usual


def test_behind_a_pooler_nothing_is_said_that_others_would_inherit(settings: Any) -> None:
    settings.DATABASE_PREPARES = False
    with connection.cursor() as cursor:
        cursor.execute("RESET ALL")
    assert told()[:3] == ["on", "on", "on"]


def test_a_table_that_is_nearly_empty_when_the_server_looks_is_not_read_as_a_whole_for_ever(noon: datetime) -> None:
    """What is prepared then is kept, whatever becomes of the table."""
    line_settings.tell(connection=connection)
    planned(a_job(now=noon), noon)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE onbeat_execution")
    for _ in range(10):  # until the server keeps its plan
        assert outbox.next_at(noon, until=noon + seconds(99)) is None
        assert len(outbox.most_urgent(noon, most=10)) == 1
    plans = {what: kept_plan(what) for what in ("LIMIT 1\n", "level (priority)")}
    assert [plan for plan in plans.values() if "Seq Scan" in plan or "Index" not in plan] == []


# The newest of them: other tests may have said it on this connection with other conditions.
_KEPT = """
SELECT name, array_length(parameter_types, 1) FROM pg_prepared_statements WHERE position(%s in statement) > 0
ORDER BY prepare_time DESC LIMIT 1
"""


def kept_plan(what: str) -> str:
    """Of the statement that says this."""
    with connection.cursor() as cursor:
        cursor.execute(_KEPT, [what])
        name, count = cursor.fetchone()
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        cursor.execute(f'EXPLAIN EXECUTE "{name}" ({", ".join(["NULL"] * count)})')
        return "\n".join(line for (line,) in cursor.fetchall())
