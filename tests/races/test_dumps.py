"""While `pg_dump` reads, everybody goes on: months are made, rows are written, and what it holds is dropped later."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.db import connection

from executions import partitions
from executions.models import Execution
from executions.partitions import Month
from tests.making import a_job, planned, succeeded
from tests.races.connections import elsewhere

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
# Months that no other test has.
OLD, COMING = datetime(1979, 3, 10, tzinfo=UTC), datetime(2034, 5, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_months_are_left() -> Iterator[None]:
    before = partitions.existing()
    yield
    for month in set(partitions.existing()) - set(before):
        partitions.drop(month, unless={})


@contextmanager
def a_dump() -> Iterator[None]:
    """What `pg_dump` holds from its first moment to its last: a snapshot, and each table against being dropped."""
    at = connection.settings_dict
    place = {"host": at["HOST"], "port": at["PORT"], "dbname": at["NAME"]}
    with psycopg.connect(user=at["USER"], password=at["PASSWORD"], **place) as own:
        own.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        named = own.execute("SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relname LIKE 'onbeat_%'")
        tables = ", ".join(f'"{name}"' for (name,) in named.fetchall())
        own.execute(f"LOCK TABLE {tables} IN ACCESS SHARE MODE".encode())
        yield


def test_a_month_is_made_and_written_to_while_a_dump_runs(noon: datetime) -> None:
    job = a_job(now=noon)
    with a_dump():
        assert elsewhere(lambda: partitions.make([Month.of(COMING)])) == [Month.of(COMING)]
        elsewhere(lambda: succeeded(job, COMING))
        assert Execution.objects.filter(fire_time=COMING).count() == 1


def test_a_month_that_a_dump_holds_is_dropped_when_it_has_ended_and_nobody_waits_for_that(noon: datetime) -> None:
    job = a_job(now=noon)
    succeeded(job, OLD)
    with a_dump():
        assert elsewhere(lambda: partitions.drop(Month.of(OLD), unless={})) == partitions.IN_USE
        elsewhere(lambda: planned(job, OLD + timedelta(seconds=1)))
    assert partitions.drop(Month.of(OLD), unless={}) == ""
    assert Month.of(OLD) not in partitions.existing()
