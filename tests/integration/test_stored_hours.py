"""An hour's counts and totals as the database makes them, beside a plain reckoning of the same executions."""

import random
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from executions import histogram, lifecycle, statistics, stored_hours
from executions.models import Execution, HourlyCount, HourlySums, HourlyTotal
from executions.states import State, Trigger
from jobs.models import Job
from tests.making import a_job, asked_for, seconds, succeeded

pytestmark = pytest.mark.django_db
MICROSECOND = timedelta(microseconds=1)
LENGTHS = (1, 1_000, 60_000, 10**6, 3600 * 10**6, 10**14)  # microseconds; the last one is three years
Sums = tuple[Any, ...]


# ── A plain reckoning ────────────────────────────────────────────────────────────────────────────────────────────


def sums_of(rows: Iterable[Execution]) -> Sums:
    """What one row of either table says of these executions."""
    rows = list(rows)
    begun = [row for row in rows if row.started_at and row.state in (State.RUNNING, State.SUCCEEDED, State.DEAD)]
    ended = [row for row in begun if row.state != State.RUNNING]
    delays = [max((row.started_at or row.available_at) - row.available_at, timedelta()) for row in begun]
    runs = [row.finished_at - row.started_at for row in ended if row.finished_at and row.started_at]
    return (
        *(sum(row.skipped_count or 1 for row in rows), len(begun)),
        *(sum(runs, timedelta()).total_seconds(), sum(delays, timedelta()).total_seconds()),
        max(delays, default=timedelta()).total_seconds(),
        *(
            {str(number): count for number, count in Counter(map(histogram.bucket, each)).items()}
            for each in (delays, runs)
        ),
    )


def reckoned(*names: str) -> dict[tuple[Any, ...], Sums]:
    groups: dict[tuple[Any, ...], list[Execution]] = defaultdict(list)
    for row in Execution.objects.all():
        hour = row.fire_time.replace(minute=0, second=0, microsecond=0)
        groups[hour, *(getattr(row, name) for name in names)].append(row)
    return {key: sums_of(rows) for key, rows in groups.items()}


def stored(model: type[HourlySums], *names: str) -> dict[tuple[Any, ...], Sums]:
    key, sums = ("hour", *names), stored_hours._SUMS
    rows = model._default_manager.values(*key, *sums)
    return {tuple(row[name] for name in key): tuple(row[name] for name in sums) for row in rows}


def any_length(chance: random.Random) -> timedelta:
    return chance.randrange(chance.choice(LENGTHS)) * MICROSECOND


def come_to_any_end(rows: list[Execution], chance: random.Random) -> None:
    for row in rows:
        row.state = chance.choice(list(State))
        row.queue = chance.choice(("default", "batch"))
        row.skipped_count = chance.choice((None, 1, 70_000)) if row.state == State.SKIPPED else None
        has_begun = chance.random() < 0.8
        row.started_at = row.available_at + any_length(chance) * chance.choice((1, 1, 1, -1)) if has_begun else None
        row.finished_at = (row.started_at or row.available_at) + any_length(chance)
    names = ["state", "queue", "skipped_count", "started_at", "finished_at"]
    Execution.objects.bulk_update(rows, names, batch_size=100)


@pytest.mark.parametrize("seed", range(5))
def test_counts_and_totals_are_those_of_a_plain_reckoning_to_the_last_digit(seed: int, noon: datetime) -> None:
    chance = random.Random(seed)
    jobs = [a_job(now=noon) for _ in range(4)]
    moments = [noon + chance.uniform(-3600, 3599) * timedelta(seconds=1) for _ in range(150)]
    rows = [chance.choice(jobs).new_execution(at, trigger=Trigger.MANUAL, now=noon) for at in moments]
    lifecycle.plan(rows)
    before: dict[tuple[Any, ...], Sums] = {}
    for _ in range(3):
        come_to_any_end(rows, chance)
        written = statistics.roll_up(noon, hours=2)
        counts = reckoned("job_id", "queue", "state")
        assert stored(HourlyCount, "job_id", "queue", "state") == counts
        assert stored(HourlyTotal, "queue", "state") == reckoned("queue", "state")
        assert written == sum(before.get(key) != sums for key, sums in counts.items())
        assert statistics.roll_up(noon, hours=2) == 0
        before = counts
        rows = chance.sample(rows, len(rows) * 2 // 3)
        Execution.objects.exclude(pk__in=[row.pk for row in rows]).delete()


# ── What is not written ──────────────────────────────────────────────────────────────────────────────────────────


def marks() -> Any:
    """What is different once a row was written, or on PostgreSQL only locked."""
    if connection.vendor == "sqlite":
        return connection.connection.total_changes
    columns = "ctid::text, xmin::text, xmax::text"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM onbeat_hourly_count UNION ALL SELECT {columns} FROM onbeat_hourly_total")
        return sorted(cursor.fetchall())


def test_what_has_not_changed_is_neither_written_nor_locked(noon: datetime) -> None:
    for number in range(12):
        succeeded(a_job(now=noon), noon, after=0.1 * number, ran=1 / (number + 3))
    statistics.roll_up(noon)
    before = marks()
    statistics.roll_up(noon)
    assert marks() == before


def test_it_makes_no_difference_to_totals_in_which_order_the_counts_are_added(noon: datetime) -> None:
    for number in range(12):
        succeeded(a_job(now=noon), noon, after=0.1 * number, ran=1 / (number + 3))
    statistics.roll_up(noon)
    counts = list(HourlyCount.objects.order_by("-pk"))
    HourlyCount.objects.all().delete()
    for row in counts:
        row.pk = None
    HourlyCount.objects.bulk_create(counts)
    before = marks()
    statistics.roll_up(noon)
    assert marks() == before


# ── What it costs ────────────────────────────────────────────────────────────────────────────────────────────────


def of_many_jobs(count: int, noon: datetime) -> None:
    jobs = Job.objects.bulk_create(
        Job(key=f"many-{number}", task="onbeat.echo", created_at=noon, changed_at=noon) for number in range(count)
    )
    lifecycle.plan([job.new_execution(noon, trigger=Trigger.MANUAL, now=noon) for job in jobs])


@pytest.mark.full
def test_counts_stay_in_the_database_however_many_there_are(noon: datetime) -> None:
    statistics.roll_up(noon)
    of_many_jobs(2000, noon)
    tracemalloc.start()
    try:
        assert statistics.roll_up(noon) == 2000
        assert statistics.roll_up(noon) == 0
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 500_000  # 2,000 rows are some megabytes


@pytest.mark.full
def test_rows_are_compared_all_at_once_also_where_the_database_expects_none(noon: datetime) -> None:
    """A nested loop over what it takes for one row would cost the square of what there is."""
    job = a_job(now=noon)
    asked_for(job, 3, now=noon)
    succeeded(job, noon + seconds(1))
    plans: list[str] = []

    def explained(execute: Any, sql: str, given: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().startswith("WITH"):
            execute(f"EXPLAIN {sql}", given, many, context)
            plans.append("\n".join(line for (line,) in context["cursor"].fetchall()))
        return execute(sql, given, many, context)

    with connection.execute_wrapper(explained):
        statistics.roll_up(noon, hours=1)
    assert len(plans) == 2
    assert all("Full Join" in plan for plan in plans)
