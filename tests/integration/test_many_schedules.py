"""Thousands of schedules: what a beat and a person do about one of them costs what that one costs."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from executions.dispatch import Publisher
from executions.models import Execution
from executions.states import State
from jobs import definitions, due_schedules
from jobs.due_schedules import DueSchedule
from jobs.models import Job, Schedule, ScheduleQuerySet
from jobs.recurrence import Cron
from tests import rows
from tests.integration.conftest import Queues
from tests.making import a_job, a_planner, a_ticker, every_minute, planned, seconds

pytestmark = pytest.mark.django_db

MANY = 3000
DAY = timedelta(days=1)


def store_many(noon: datetime, count: int = MANY) -> None:
    """Nightly jobs, a while ahead, stored in bulk; as an installation has them after some years."""
    made = Job.objects.bulk_create(
        Job(key=f"stored-{n}", task="onbeat.echo", created_at=noon, changed_at=noon) for n in range(count)
    )
    Schedule.objects.bulk_create(
        Schedule(job=job, kind="CRON", expression="0 3 * * *", next_fire_at=noon + timedelta(hours=15)) for job in made
    )
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE onbeat_schedule, onbeat_job")


def statements(act: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as captured:
        act()
    return len(captured)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every schedule that a beat reads from the database."""
    found: list[Any] = []
    original = due_schedules.read

    def count(schedules: ScheduleQuerySet) -> list[DueSchedule]:
        rows = original(schedules)
        found.extend(rows)
        return rows

    monkeypatch.setattr(due_schedules, "read", count)
    return found


def test_to_add_change_pause_and_resume_one_of_thousands_costs_the_same_as_one_of_few(noon: datetime) -> None:
    def live(key: str) -> list[int]:
        nightly, later = Cron("0 3 * * *"), noon + seconds(1)
        return [
            statements(lambda: a_job(now=noon, key=key, schedule=nightly)),
            statements(lambda: definitions.change(key, version=1, schedule=Cron("0 4 * * *"), now=later)),
            statements(lambda: definitions.pause(key, reason="quiet", now=later)),
            statements(lambda: definitions.resume(key, now=later)),
        ]

    live("warm")
    among_few = live("among-few")
    store_many(noon)
    assert live("among-many") == among_few


def test_a_beat_reads_only_what_is_due_also_when_it_starts(
    noon: datetime, publisher: Publisher, broker: Queues, read: list[Any]
) -> None:
    planned(a_job(now=noon), noon)  # the month's partition is there from now on
    a_job(now=noon, schedule=every_minute(noon))
    beat = a_ticker(publisher)
    beat.tick(noon + seconds(60))
    among_few = statements(lambda: beat.tick(noon + seconds(120)))
    store_many(noon)
    read.clear()
    assert statements(lambda: a_ticker(publisher).tick(noon + seconds(130))) < among_few  # it starts, nothing is due
    assert read == []
    assert statements(lambda: beat.tick(noon + seconds(180))) == among_few
    assert len(read) == 1


def test_what_is_due_is_found_by_its_index_among_thousands(noon: datetime) -> None:
    store_many(noon)
    a_job(now=noon, schedule=every_minute(noon))
    assert "onbeat_schedule_next" in Schedule.objects.firing_before(noon + seconds(65)).explain()


@pytest.mark.full
def test_a_batch_of_hundreds_reads_the_schedules_and_jobs_of_these_among_thousands(
    noon: datetime,
) -> None:
    """PostgreSQL would rather look the batch up in all that are stored, which costs more the more these are."""
    store_many(noon)
    Schedule.objects.filter(job__key__endswith="7").update(next_fire_at=noon + seconds(60))
    plans: list[str] = []

    def look_first(execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if "onbeat_schedule SET next_fire_at" in sql or "INSERT INTO onbeat_execution" in sql:
            execute(f"EXPLAIN {sql}", parameters, many, context)
            plans.append("\n".join(line for (line,) in context["cursor"].fetchall()))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(look_first):
        assert a_planner(batch_size=1000).plan_due(now=noon + seconds(60)).fires == MANY // 10
    assert len(plans) >= 2  # the insert once more, if the month had no partition
    assert [plan for plan in plans if "Hash Join" in plan or "Merge Join" in plan or "Seq Scan" in plan] == []


@pytest.mark.full  # SQLite's limit on variables makes Django split long statements
def test_the_number_of_statements_of_a_whole_tick_does_not_grow_with_what_is_due(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    beat = a_ticker(publisher, batch_size=1000)
    a_job(now=noon, schedule=every_minute(noon))
    beat.tick(noon + seconds(60))
    for_one = statements(lambda: beat.tick(noon + seconds(120)))
    store_many(noon, 900)
    Schedule.objects.update(next_fire_at=noon + seconds(180))
    assert statements(lambda: beat.tick(noon + seconds(180))) == for_one
    assert Execution.objects.filter(state=State.QUEUED, fire_time=noon + seconds(180)).count() == 901


# Zones without clock changes, with their distance from UTC in hours.
ZONES = {"Pacific/Kiritimati": 14, "Asia/Kathmandu": 5.75, "UTC": 0, "America/Phoenix": -7, "Pacific/Pago_Pago": -11}


def test_however_far_away_in_hours_and_zones_each_schedule_fires_on_time(noon: datetime) -> None:
    """A look each quarter of an hour for a whole day, and each hour of each zone has a job."""
    jobs = {
        (zone, hour): a_job(now=noon, schedule=Cron(f"0 {hour} * * *", zone), misfire="SKIP", misfire_grace_seconds=0)
        for zone in ZONES
        for hour in range(24)
    }
    beat = a_planner(batch_size=1000)
    for quarter in range(1, 24 * 4 + 1):
        beat.plan_due(now=noon + quarter * timedelta(minutes=15))
    midnight = noon - timedelta(hours=12)
    for (zone, hour), job in jobs.items():
        at = midnight + timedelta(hours=hour - ZONES[zone])
        expected = next(at + n * DAY for n in range(-1, 4) if at + n * DAY > noon)
        assert [(row.state, row.fire_time) for row in rows.of(job)] == [(State.SCHEDULED, expected)], (zone, hour)
