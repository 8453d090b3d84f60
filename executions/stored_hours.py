"""The stored counts and totals of an hour, made what its executions add up to.

Owns what is written into both tables. Invariant: a row is written only if it differs from what is stored, and totals
are the sums of the stored counts, in whole microseconds, so that it makes no difference in which order they are added.

An hour may have hundreds of thousands of counts. PostgreSQL counts, compares and writes them by itself, and nothing of
it comes here. SQLite cannot write what it has compared in the same statement; its installations are small, and
their rows are compared here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from executions import histogram
from executions.counted import LETTER, counted
from executions.models import HourlyCount, HourlySums, HourlyTotal

_KEYS: dict[type[HourlySums], tuple[str, ...]] = {
    HourlyCount: ("job_id", "queue", "state"),
    HourlyTotal: ("queue", "state"),
}
_SPREADS = ("delay_histogram", "run_histogram")
_SUMS = ("count", "started", "run_seconds", "delay_seconds", "longest_delay_seconds", *_SPREADS)
_Row = dict[str, Any]


def store(model: type[HourlySums], hour: datetime) -> int:
    """Make the hour's rows what they should be; returns how many were written. Counts come before their totals."""
    if connection.vendor == "postgresql":
        return _store_there(model, hour)
    return _store_from_here(model, hour, _counts(hour) if model is HourlyCount else _totals(hour))


# ── In PostgreSQL ────────────────────────────────────────────────────────────────────────────────────────────────

# Stored rows are compared first: ON CONFLICT locks, and so writes, also what it leaves as it is. A full join and an
# array, since the planner knows little of the current hour and takes it for empty: with these it cannot choose to go
# through all rows for each row.
_STORE = """
WITH counted AS ({counted}),
compared AS MATERIALIZED (
    SELECT {key}, {counted_sums}, stored.id AS stored_id
    FROM counted FULL JOIN (SELECT * FROM {table} WHERE hour = %s) AS stored USING ({key})
    WHERE ({counted_sums}) IS DISTINCT FROM ({stored_sums})
),
written AS (
    INSERT INTO {table} (hour, {key}, {sums})
    SELECT %s, {key}, {sums} FROM compared WHERE count IS NOT NULL
    ON CONFLICT (hour, {key}) DO UPDATE SET ({sums}) = ROW ({new_sums})
    RETURNING 1
),
gone AS (
    DELETE FROM {table} WHERE id = ANY (ARRAY(SELECT stored_id FROM compared WHERE count IS NULL))
)
SELECT count(*) FROM written
"""

_COUNTS = """
SELECT job_id, queue, state, total AS count, started,
    {ran} AS run_seconds, {delayed} AS delay_seconds, {longest} AS longest_delay_seconds,
    {delays} AS delay_histogram, {runs} AS run_histogram
FROM ({fired}) AS fired
"""
_SECONDS = "coalesce(extract(epoch FROM {duration}), 0)::double precision"
_HISTOGRAM = f"""(
    SELECT coalesce(jsonb_object_agg(ascii(letter) - {LETTER}, number), '{{{{}}}}')
    FROM (SELECT letter, count(*) AS number FROM string_to_table({{letters}}, NULL) AS letter GROUP BY letter) AS bucket
)"""

_TOTALS = """
SELECT queue, state, count, started, run_seconds, delay_seconds, longest_delay_seconds,
    coalesce(delay_histogram, '{}') AS delay_histogram, coalesce(run_histogram, '{}') AS run_histogram
FROM (
    SELECT queue, state, sum(count) AS count, sum(started) AS started,
        (sum(round(run_seconds * 1e6)::bigint) * 0.000001)::double precision AS run_seconds,
        (sum(round(delay_seconds * 1e6)::bigint) * 0.000001)::double precision AS delay_seconds,
        max(longest_delay_seconds) AS longest_delay_seconds
    FROM onbeat_hourly_count WHERE hour = %s GROUP BY queue, state
) AS summed LEFT JOIN (
    SELECT queue, state,
        jsonb_object_agg(bucket, number) FILTER (WHERE kind = 'delay') AS delay_histogram,
        jsonb_object_agg(bucket, number) FILTER (WHERE kind = 'run') AS run_histogram
    FROM (
        SELECT queue, state, kind, bucket, sum(number::bigint) AS number
        FROM onbeat_hourly_count CROSS JOIN LATERAL (
            SELECT 'delay', * FROM jsonb_each_text(delay_histogram)
            UNION ALL SELECT 'run', * FROM jsonb_each_text(run_histogram)
        ) AS spread (kind, bucket, number)
        WHERE hour = %s GROUP BY queue, state, kind, bucket
    ) AS merged GROUP BY queue, state
) AS spreads USING (queue, state)
"""


def _store_there(model: type[HourlySums], hour: datetime) -> int:
    if model is HourlyCount:
        fired, given = counted(hour).query.sql_with_params()
        seconds = {name: _SECONDS.format(duration=name) for name in ("ran", "delayed", "longest")}
        histograms = {name: _HISTOGRAM.format(letters=name) for name in ("delays", "runs")}
        question = _COUNTS.format(fired=fired, **seconds, **histograms)
    else:
        question, given = _TOTALS, (hour, hour)
    statement = _STORE.format(
        counted=question,
        table=model._meta.db_table,
        key=", ".join(_KEYS[model]),
        sums=", ".join(_SUMS),
        counted_sums=", ".join(f"counted.{name}" for name in _SUMS),
        stored_sums=", ".join(f"stored.{name}" for name in _SUMS),
        new_sums=", ".join(f"excluded.{name}" for name in _SUMS),
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [*given, hour, hour])
        return int(cursor.fetchone()[0])


# ── On SQLite ────────────────────────────────────────────────────────────────────────────────────────────────────


def _store_from_here(model: type[HourlySums], hour: datetime, rows: Iterable[_Row]) -> int:
    names = _KEYS[model]

    def key(row: _Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    stored = {key(row): row for row in model._default_manager.filter(hour=hour).values("pk", *names, *_SUMS)}
    added_up = {key(row): row for row in rows}
    changed = [row for key, row in added_up.items() if any(row[n] != stored.get(key, {}).get(n) for n in _SUMS)]
    model._default_manager.bulk_create(
        (model(hour=hour, **row) for row in changed),
        update_conflicts=True,
        unique_fields=["hour", *names],
        update_fields=_SUMS,
    )
    gone = [row["pk"] for key, row in stored.items() if key not in added_up]
    model._default_manager.filter(pk__in=gone).delete()
    return len(changed)


def _counts(hour: datetime) -> Iterator[_Row]:
    """What an hour holds, by job, queue and state."""
    for row in counted(hour):
        yield {
            **{name: row[name] for name in _KEYS[HourlyCount]},
            "count": row["total"],
            "started": row["started"],
            "run_seconds": _seconds(row["ran"]),
            "delay_seconds": _seconds(row["delayed"]),
            "longest_delay_seconds": _seconds(row["longest"]),
            "delay_histogram": _histogram(row["delays"]),
            "run_histogram": _histogram(row["runs"]),
        }


def _seconds(duration: timedelta | None) -> float:
    return duration.total_seconds() if duration else 0.0


def _histogram(letters: str | None) -> histogram.Histogram:
    return {str(ord(letter) - LETTER): count for letter, count in Counter(letters or "").items()}


def _totals(hour: datetime) -> Iterator[_Row]:
    """What the stored counts of an hour add up to, by queue and state."""
    parts: defaultdict[tuple[str, str], list[_Row]] = defaultdict(list)
    for row in HourlyCount.objects.filter(hour=hour).values(*_KEYS[HourlyCount], *_SUMS):
        parts[row["queue"], row["state"]].append(row)
    for (queue, state), rows in parts.items():
        yield {
            "queue": queue,
            "state": state,
            "count": sum(row["count"] for row in rows),
            "started": sum(row["started"] for row in rows),
            "run_seconds": _in_sum(row["run_seconds"] for row in rows),
            "delay_seconds": _in_sum(row["delay_seconds"] for row in rows),
            "longest_delay_seconds": max(row["longest_delay_seconds"] for row in rows),
            **{name: histogram.merged(row[name] for row in rows) for name in _SPREADS},
        }


def _in_sum(seconds: Iterable[float]) -> float:
    return sum(round(each * 1e6) for each in seconds) / 10**6
