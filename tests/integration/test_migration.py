"""An installation of the first release becomes one of the newest: every row stays, and its months get their tables."""

import contextlib
import sqlite3
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from executions.identity import new_execution_id
from tests.platform import Platform

FIRST, LAST = datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC), datetime(2027, 12, 31, 23, 0, tzinfo=UTC)
FIRE_TIMES = [FIRST, datetime(2024, 12, 31, 23, 59, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC), LAST]
# What the first release knew of an execution.
KNOWN = (
    "id, job_id, fire_time, trigger, state, reason, task, args, kwargs, queue, priority, max_attempts, max_lost, "
    "available_at, attempt, lost, worker, created_at, queued_at, started_at, heartbeat_at, finished_at, result, error, "
    "skipped_count, skipped_until"
)
ATTEMPT = "id, execution_id, number, outcome, worker, started_at, finished_at, error"


def quoted(moment: datetime) -> str:
    return f"'{moment:%Y-%m-%d %H:%M:%S.%f}'"


def write(platform: Platform, *statements: str) -> None:
    if platform.is_full:
        with psycopg.connect(platform.environment["DATABASE_URL"], options="-c timezone=UTC") as connection:
            for statement in statements:
                connection.execute(statement.encode())
        return
    with contextlib.closing(sqlite3.connect(platform.folder / "onbeat.sqlite3", timeout=20)) as database, database:
        for statement in statements:
            database.execute(statement)


def an_execution(execution_id: UUID, fire_time: datetime, state: str) -> str:
    at = quoted(fire_time)
    return (
        f"INSERT INTO onbeat_execution ({KNOWN}) VALUES ('{execution_id.hex}', 1, {at}, 'SCHEDULE', '{state}', '', "
        f"'onbeat.echo', '[1]', '{{\"a\": 1}}', 'default', 5, 3, 3, {at}, 2, 0, 'w', {at}, {at}, {at}, {at}, NULL, "
        "'{\"r\": 1}', 'boom', NULL, NULL)"
    )


def an_attempt(number: int, execution_id: UUID, attempt: int, at: datetime) -> str:
    moment = quoted(at)
    return (
        f"INSERT INTO onbeat_attempt ({ATTEMPT}) "
        f"VALUES ({number}, '{execution_id.hex}', {attempt}, 'FAILED', 'w', {moment}, {moment}, 'boom')"
    )


def a_first_release(platform: Platform) -> None:
    """A database as the first release left it, with a job, executions of several months and attempts."""
    platform.manage("migrate", "onbeat_executions", "0001")  # and with it the first of the jobs
    at, true = quoted(FIRST), "true" if platform.is_full else "1"
    statements = [
        "INSERT INTO onbeat_job (id, key, state, task, args, kwargs, queue, priority, max_attempts, max_lost, version, "
        "created_at, changed_at) "
        f"VALUES (1, 'old', 'ACTIVE', 'onbeat.echo', '[]', '{{}}', 'default', 5, 3, 3, 1, {at}, {at})",
        "INSERT INTO onbeat_schedule (job_id, kind, expression, timezone, misfire_grace_seconds, is_active, version, "
        f"next_fire_at, shard) VALUES (1, 'CRON', '0 3 * * *', 'UTC', 60, {true}, 7, {at}, 3)",
    ]
    states = ["SUCCEEDED", "DEAD", "SCHEDULED", "RUNNING"]
    for place, (fire_time, state) in enumerate(zip(FIRE_TIMES, states, strict=True)):
        execution_id = new_execution_id(fire_time)
        statements.append(an_execution(execution_id, fire_time, state))
        statements += [an_attempt(10 * place + n, execution_id, n, fire_time) for n in (1, 2)]
    statements.append(an_attempt(99, new_execution_id(FIRST), 1, FIRST))  # its execution is gone
    write(platform, *statements)


def test_the_rows_of_the_first_release_are_kept_and_numbered_on(platform: Platform) -> None:
    a_first_release(platform)
    executions, schedules = (
        f"SELECT {KNOWN} FROM onbeat_execution ORDER BY id",
        "SELECT job_id, version FROM onbeat_schedule",
    )
    attempts = f"SELECT {ATTEMPT} FROM onbeat_attempt WHERE id < 99 ORDER BY id"
    before = [platform.rows(query) for query in (executions, attempts, schedules)]
    assert [len(rows) for rows in before] == [4, 8, 1]

    platform.manage("migrate")

    assert [platform.rows(query) for query in (executions, attempts, schedules)] == before
    assert platform.count("SELECT count(*) FROM onbeat_attempt") == 8
    apart = "SELECT count(*) FROM onbeat_attempt a JOIN onbeat_execution e ON e.id = a.execution_id WHERE {}"
    assert platform.count(apart.format("a.fire_time = e.fire_time")) == 8
    news = "is_waiting, run_key, cancel_requested_at, handled_at, replay_of"
    assert platform.rows(f"SELECT DISTINCT {news} FROM onbeat_execution") == [(False, "", None, None, None)]
    assert platform.rows("SELECT overlap, max_concurrency, owner, paused_reason FROM onbeat_job") == [
        ("ALLOW", None, "", "")
    ]
    policies = "SELECT job_id, version, misfire, misfire_limit, jitter_seconds FROM onbeat_schedule"
    assert platform.rows(policies) == [(1, 7, "FIRE_ONCE", 100, 0)]
    numbered_on(platform)
    if platform.is_full:
        is_partitioned(platform)
    goes_back_and_comes_again(platform)


def goes_back_and_comes_again(platform: Platform) -> None:
    """Without the newest tables and indexes, and with them."""
    executions = platform.rows(f"SELECT {KNOWN} FROM onbeat_execution ORDER BY id")
    queued = (
        "SELECT count(*) FROM pg_indexes WHERE tablename LIKE 'onbeat_execution%' AND indexdef LIKE '%queued_at%'"
        if platform.is_full
        else "SELECT count(*) FROM sqlite_master WHERE name = 'onbeat_execution_queued'"
    )
    there = platform.count(queued)
    platform.manage("migrate", "onbeat_executions", "0003")
    assert platform.count(queued) == 0
    platform.manage("migrate")
    assert platform.count(queued) == there > 0
    assert platform.count("SELECT count(*) FROM onbeat_hourly_count") == 0
    assert platform.rows(f"SELECT {KNOWN} FROM onbeat_execution ORDER BY id") == executions


def test_schedules_stay_when_their_policies_are_migrated_back(platform: Platform) -> None:
    a_first_release(platform)
    platform.manage("migrate", "onbeat_jobs")
    write(platform, "UPDATE onbeat_schedule SET misfire = 'SKIP', jitter_seconds = 9")
    platform.manage("migrate", "onbeat_jobs", "0002")
    assert platform.rows("SELECT job_id, version, shard FROM onbeat_schedule") == [(1, 7, 0)]


def numbered_on(platform: Platform) -> None:
    """The next attempt gets a number of its own."""
    ((execution_id,),) = platform.rows("SELECT id FROM onbeat_execution ORDER BY id LIMIT 1")
    at, name = quoted(FIRST), execution_id.hex if isinstance(execution_id, UUID) else execution_id
    write(
        platform,
        "INSERT INTO onbeat_attempt (execution_id, fire_time, number, outcome, worker, started_at, finished_at, error) "
        f"VALUES ('{name}', {at}, 3, 'SUCCEEDED', 'w', {at}, {at}, '')",
    )
    assert platform.count("SELECT max(id) FROM onbeat_attempt") > 32


def is_partitioned(platform: Platform) -> None:
    tables = [str(name) for (name,) in platform.rows("SELECT tablename FROM pg_tables WHERE tablename LIKE 'onbeat%'")]
    assert not [name for name in tables if name.endswith("_plain")]
    month, missing = FIRST.replace(day=1), []
    while month <= LAST + timedelta(days=60):
        missing += [
            name for name in (f"onbeat_execution_{month:%Y_%m}", f"onbeat_attempt_{month:%Y_%m}") if name not in tables
        ]
        month = (month + timedelta(days=32)).replace(day=1)
    assert missing == []
    ((place,),) = platform.rows(
        f"SELECT tableoid::regclass::text FROM onbeat_execution WHERE fire_time = {quoted(FIRST)}"
    )
    assert place == "onbeat_execution_2024_02"
    with pytest.raises(psycopg.errors.UniqueViolation):
        write(
            platform,
            "CREATE TEMPORARY TABLE doubled AS SELECT * FROM onbeat_execution",
            "UPDATE doubled SET id = gen_random_uuid()",
            "INSERT INTO onbeat_execution SELECT * FROM doubled",
        )
    kinds = platform.rows(
        "SELECT relname, relkind FROM pg_class WHERE relname IN ('onbeat_execution', 'onbeat_attempt')"
    )
    assert dict(kinds) == {"onbeat_execution": "p", "onbeat_attempt": "p"}
