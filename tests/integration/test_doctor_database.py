"""The doctor looks at the database: each fault is made for real, in the test's own transaction or database."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from django.conf import settings as project_settings
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from executions import catalogue, clock, outages, partitions
from executions.clock import database_now
from executions.models import Execution
from terminal.doctor import database
from tests.doctoring import doctor
from tests.making import a_job, asked_for
from tests.platform import ROOT, Platform
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def another() -> Iterator[psycopg.Connection]:
    """A connection of somebody else to the same database."""
    name = connection.settings_dict["NAME"]
    with psycopg.connect(project_settings.DATABASE_URL, dbname=name, application_name="their-report") as other:
        yield other


def test_a_database_that_is_as_it_should_be_is_told_in_a_line(is_full: bool) -> None:
    told = doctor("database")
    assert told.bad == []
    if is_full:
        assert told.says("database").startswith("PostgreSQL 15.")
        assert told.says("database").endswith(" ms")
    else:
        assert told.ids == ["database.N01"]


@pytest.mark.full
@pytest.mark.parametrize("port", [1, 9])
def test_a_database_that_does_not_answer_is_one_error_and_what_needs_it_is_passed_by(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "PORT", str(port))
    told = doctor()
    assert told.bad[0] == "database.E01"
    assert "Connection refused" in told.only("database.E01")["says"]
    passed_by = [area["name"] for area in told.document["areas"] if not area["is_examined"]]
    assert passed_by == ["beats", "workers", "schedules", "jobs", "code", "executions", "upkeep"]
    assert told.says("redis").startswith("Redis ")
    assert told.says("rabbitmq").startswith("RabbitMQ ")


@pytest.mark.full
def test_a_database_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setitem(connection.settings_dict, "PORT", str(silent.getsockname()[1]))
        monkeypatch.setattr(outages, "_CONNECT_SECONDS", 2)
        assert doctor("database").ids == ["database.E01"]


@pytest.mark.embedded
def test_a_file_that_is_no_database_is_one_error(platform: Platform) -> None:
    (platform.folder / "onbeat.sqlite3").write_text("this is a letter, and no database, as anybody can see" * 20)
    command = [sys.executable, "manage.py", "doctor"]
    done = subprocess.run(command, cwd=ROOT, env=platform.environment, capture_output=True, text=True, check=False)
    assert "database.E01" in done.stdout
    assert "file is not a database" in done.stdout
    assert (done.returncode, done.stderr) == (1, "")


def test_missing_migrations_are_named_and_tables_are_left_alone() -> None:
    newest = MigrationRecorder.Migration.objects.filter(app="onbeat_executions").latest("name")
    newest.delete()
    told = doctor()
    says = f"1 migration is missing: onbeat_executions.{newest.name}."
    assert told.only("database.E03")["says"] == says
    assert told.says("jobs") == "not looked at: the database has to be mended first"


def test_a_server_that_is_too_old_is_an_error(is_full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "version", lambda: (14, "PostgreSQL 14.9"))
    told = doctor("database")
    assert told.bad == (["database.E02"] if is_full else [])


def test_a_constraint_that_is_missing_is_an_error(is_full: bool) -> None:
    execute("DROP INDEX onbeat_execution_once_per_fire")
    told = doctor("database")
    assert told.bad == ["database.E05"]
    assert told.only("database.E05")["facts"] == {"constraints": ["onbeat_execution.onbeat_execution_once_per_fire"]}


@pytest.mark.full
def test_a_check_that_is_missing_or_not_valid_is_an_error() -> None:
    execute(
        "ALTER TABLE onbeat_job DROP CONSTRAINT onbeat_job_priority_0_to_9",
        "ALTER TABLE onbeat_schedule DROP CONSTRAINT onbeat_schedule_misfire_known",
        "ALTER TABLE onbeat_schedule ADD CONSTRAINT onbeat_schedule_misfire_known CHECK (true) NOT VALID",
    )
    missing = ["onbeat_job.onbeat_job_priority_0_to_9", "onbeat_schedule.onbeat_schedule_misfire_known"]
    assert doctor("database").only("database.E05")["facts"] == {"constraints": missing}


def test_an_index_that_is_missing_is_a_warning() -> None:
    execute("DROP INDEX onbeat_schedule_next", "DROP INDEX onbeat_execution_due")
    told = doctor("database")
    assert told.bad == ["database.W03"]
    assert told.only("database.W03")["facts"] == {
        "indexes": ["onbeat_execution.onbeat_execution_due", "onbeat_schedule.onbeat_schedule_next"]
    }


@pytest.mark.full
def test_an_index_that_some_months_lack_is_not_valid() -> None:
    execute(
        "DROP INDEX onbeat_execution_due",
        "CREATE INDEX onbeat_execution_due ON ONLY onbeat_execution (available_at) WHERE state = 'SCHEDULED'",
    )
    assert doctor("database").bad == ["database.W03"]


@pytest.mark.full
def test_a_month_without_tables_is_told() -> None:
    now, later, *_ = partitions.months_ahead(database_now())
    for month in (now, later):
        execute(*(f"DROP TABLE {parent}_{month}" for parent in partitions.PARENTS))
    told = doctor("database")
    assert told.bad == ["database.E04", "database.W01"]
    assert told.only("database.E04")["facts"] == {"month": str(now).replace("_", "-")}
    assert told.only("database.W01")["facts"] == {"months": [str(later).replace("_", "-")]}


@pytest.mark.full
def test_half_a_month_is_told() -> None:
    partitions.make_on(connection, [partitions.Month(2031, 5)])
    assert doctor("database").bad == []
    execute("DROP TABLE onbeat_attempt_2031_05")
    told = doctor("database")
    assert told.bad == ["database.W02"]
    assert told.only("database.W02")["facts"] == {"tables": ["onbeat_execution_2031_05"]}


@pytest.mark.full
def test_a_transaction_that_is_open_for_long_is_told_with_who_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LONG_TRANSACTION", timedelta(0))
    with another() as other:
        other.execute("SELECT 1")
        finding = doctor("database").only("database.W04")
        (session,) = [each for each in finding["facts"]["sessions"] if each["application"] == "their-report"]
        assert session["pid"] == other.info.backend_pid
        assert session["state"] == "idle in transaction"
        other.rollback()
    monkeypatch.setattr(database, "LONG_TRANSACTION", timedelta(minutes=5))
    assert doctor("database").bad == []


@pytest.mark.full
@pytest.mark.parametrize(("seconds", "expected"), [(-0.9, []), (2, ["database.W05"]), (-31, ["database.E06"])])
def test_clocks_that_differ_are_told(seconds: float, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The database's clock cannot be set here; what it answers can."""
    real = clock.database_now
    monkeypatch.setattr(clock, "database_now", lambda: real() + timedelta(seconds=seconds))
    told = doctor("database")
    assert told.bad == expected
    if expected:
        way = "behind" if seconds > 0 else "ahead of"
        assert f" {way} the database's." in told.only(expected[0])["says"]


@pytest.mark.full
def test_a_table_that_nobody_vacuums_is_told() -> None:
    table = f"onbeat_execution_{partitions.Month.of(database_now())}"
    execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    assert doctor("database").only("database.W06")["facts"] == {"tables": [table]}


@pytest.mark.full
@pytest.mark.django_db(transaction=True)
def test_dead_rows_that_are_left_lying_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = database_now()
    table = f"onbeat_execution_{partitions.Month.of(now)}"
    execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    try:
        asked_for(a_job(now=now), 30, now=now)
        Execution.objects.all().delete()
        monkeypatch.setattr(database, "MANY_DEAD_ROWS", 20)
        wait_until(lambda: "database.W07" in doctor("database").ids, what="the server has counted them")
        tables = doctor("database").only("database.W07")["facts"]["tables"]
        assert table in [each["table"] for each in tables]
    finally:
        execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)")


@pytest.mark.full
def test_a_server_with_few_connections_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    used, most = catalogue.connections()
    assert 1 <= used < most
    monkeypatch.setattr(database, "NEARLY_ALL_CONNECTIONS", (used - 1) / most)
    assert doctor("database").bad == ["database.W08"]


def test_looking_takes_no_lock_that_others_wait_for(is_full: bool) -> None:
    with transaction.atomic():
        doctor("database")
        if is_full:
            with another() as other:
                other.execute("SET lock_timeout = 100")
                other.execute("LOCK TABLE onbeat_schedule IN ROW EXCLUSIVE MODE")
