"""What a beat tells PostgreSQL of its connections: what a tick asks is found by index, and nothing read as a whole."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from django.db import connection

from beat import aside, line_settings
from executions import lifecycle, outbox
from executions.states import Trigger
from tests.making import a_job, seconds

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
SETTINGS = ("enable_seqscan", "plan_cache_mode", "jit", "idle_in_transaction_session_timeout")


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
    by_index, as_usual = ["off", "force_generic_plan", "off", "7s"], ["on", "auto", "on", "7s"]
    assert told() == by_index  # a beat ticks in its main thread
    assert told_in(f"{aside.NAME}_0") == by_index
    assert told_in("upkeep") == as_usual


def test_behind_a_pooler_nothing_is_said_that_others_would_inherit(settings: Any) -> None:
    settings.DATABASE_PREPARES = False
    with connection.cursor() as cursor:
        cursor.execute("RESET ALL")
    assert told()[:3] == ["on", "auto", "on"]


def test_a_table_that_was_nearly_empty_when_the_server_looked_is_not_read_as_a_whole(
    noon: datetime,
) -> None:
    """The statement is prepared while there is one row; then there are thousands, and nobody has looked again."""
    job = a_job(now=noon)

    def plan(first: int, count: int) -> None:
        fires = [job.new_execution(noon + seconds(first + n), trigger=Trigger.DELAYED, now=noon) for n in range(count)]
        lifecycle.plan(fires)

    line_settings.tell(connection=connection)
    plan(0, 1)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE onbeat_execution")
    for _ in range(10):  # until the server keeps its plan
        assert outbox.next_at(noon, until=noon + seconds(9999)) is None
        assert len(outbox.most_urgent(noon, most=10)) == 1
    plan(1, 4000)
    for ask in (
        lambda: outbox.next_at(noon, until=noon + seconds(9999)),
        lambda: outbox.most_urgent(noon, most=10),
    ):
        before = _hits()
        ask()
        assert _hits() - before < 200


def _hits() -> int:
    """Of this connection's own statements, up to the last one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT sum(heap_blks_hit + idx_blks_hit) FROM pg_statio_user_tables WHERE relname ~ 'execution'"
        )
        return int(cursor.fetchone()[0])
