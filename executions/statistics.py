"""How many executions there were, hour by hour: what charts are drawn from, and what is left when the rows are gone.

Owns the table of hourly counts. Invariant: an hour's counts change in one transaction, and add up to the executions
that fired in it when it was last looked at; to look again at what has not changed writes nothing.

A sum is of what the row of an execution can tell: its last attempt. How long that ran is known when it SUCCEEDED or is
DEAD; what was CANCELLED may have waited for a retry. How long after it was due it began is known once it has begun;
to begin early, or to wait for room before it was due again, is no delay.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, DurationField, Expression, ExpressionWrapper, F, Max, Q, Sum, Value
from django.db.models.functions import Coalesce, Greatest

from executions.models import Execution, HourlyCount
from executions.states import State

RECENT_HOURS = 2  # looked at each time
LATE_HOURS = 23  # before these, looked at in turn: some executions end late
_LOCK = 0x6F6E_7374  # of whoever counts
_HOUR = timedelta(hours=1)
_KEY = ("job_id", "queue", "state")
_SUMS = ("count", "started", "run_seconds", "delay_seconds", "longest_delay_seconds")


def roll_up(now: datetime, *, hours: int | None = None) -> int:
    """Count the executions of the last hours anew; returns how many counts were written.

    If nothing is said these are the current hour and the one before, and one of the day before them, by the minute:
    called every minute or two, each of these is looked at once an hour. Costs what the hours hold.
    """
    now = now.astimezone(UTC)
    current = now.replace(minute=0, second=0, microsecond=0)
    ages = [*range(RECENT_HOURS if hours is None else hours)]
    if hours is None:
        ages.append(RECENT_HOURS + now.minute * LATE_HOURS // 60)
    return sum(_count_anew(current - age * _HOUR) for age in ages)


def _count_anew(hour: datetime) -> int:
    with transaction.atomic():
        if not _is_ours():
            return 0
        stored = {_key(row): row for row in HourlyCount.objects.filter(hour=hour).values("pk", *_KEY, *_SUMS)}
        counted = {_key(row): row for row in _counts(hour)}
        changed = [row for key, row in counted.items() if any(row[n] != stored.get(key, {}).get(n) for n in _SUMS)]
        HourlyCount.objects.bulk_create(
            (HourlyCount(hour=hour, **row) for row in changed),
            update_conflicts=True,
            unique_fields=["hour", "job", "queue", "state"],
            update_fields=_SUMS,
        )
        gone = [row["pk"] for key, row in stored.items() if key not in counted]
        HourlyCount.objects.filter(pk__in=gone).delete()
    return len(changed)


def _is_ours() -> bool:
    """Whether nobody else counts at this moment. Two who write the same rows could wait for one another in a ring."""
    if connection.vendor != "postgresql":
        return True  # SQLite has one writer at a time
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return bool(cursor.fetchone()[0])


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def _counts(hour: datetime) -> Iterator[dict[str, Any]]:
    """What an hour holds, by job, queue and state."""
    nothing = Value(timedelta(), output_field=DurationField())
    delay = Greatest(_between("available_at", "started_at"), nothing)
    has_begun = Q(started_at__isnull=False, state__in=[State.RUNNING, State.SUCCEEDED, State.DEAD])
    has_ended = has_begun & ~Q(state=State.RUNNING)
    rows = (
        Execution.objects.firing_between(hour, hour + _HOUR)
        .values(*_KEY)
        .annotate(
            # A stretch too long to be counted is one.
            total=Sum(Coalesce("skipped_count", 1)),
            started=Count("pk", filter=has_begun),
            ran=Sum(_between("started_at", "finished_at"), filter=has_ended),
            delayed=Sum(delay, filter=has_begun),
            longest=Max(delay, filter=has_begun),
        )
        .order_by()
    )
    for row in rows:
        yield {
            **{name: row[name] for name in _KEY},
            "count": row["total"],
            "started": row["started"],
            "run_seconds": _seconds(row["ran"]),
            "delay_seconds": _seconds(row["delayed"]),
            "longest_delay_seconds": _seconds(row["longest"]),
        }


def _between(start: str, end: str) -> Expression:
    return ExpressionWrapper(F(end) - F(start), output_field=DurationField())


def _seconds(duration: timedelta | None) -> float:
    return duration.total_seconds() if duration else 0.0
