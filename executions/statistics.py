"""How many executions there were, hour by hour: what charts are drawn from, and what is left when the rows are gone.

Owns the tables of hourly counts, by job, and of hourly totals, over all jobs. Invariant: an hour's counts and totals
change in one transaction, and add up to the executions that fired in it when it was last looked at; to look again at
what has not changed writes nothing.

A sum is of what the row of an execution can tell: its last attempt. How long that ran is known when it SUCCEEDED or is
DEAD; what was CANCELLED may have waited for a retry. How long after it was due it began is known once it has begun;
to begin early, or to wait for room before it was due again, is no delay. Beside each sum stands how its durations
are spread (`executions/histogram.py`). One statement reads it all, so that the parts agree with one another.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import (
    Aggregate,
    Count,
    DurationField,
    Expression,
    ExpressionWrapper,
    F,
    FloatField,
    Func,
    IntegerField,
    Max,
    Min,
    Q,
    Sum,
    TextField,
    Value,
)
from django.db.models.functions import Cast, Ceil, Chr, Coalesce, Greatest, Least, Ln
from django.db.models.sql.compiler import SQLCompiler

from executions import histogram
from executions.models import Execution, HourlyCount, HourlySums, HourlyTotal
from executions.states import State

RECENT_HOURS = 2  # looked at each time
LATE_HOURS = 23  # before these, looked at in turn: some executions end late
ENDED = (State.SUCCEEDED, State.DEAD)  # of which it is told how long they ran
BEGUN = (State.RUNNING, *ENDED)  # of which it is told how late they began
_LOCK = 0x6F6E_7374  # of whoever counts
_LETTER = ord("!")  # that of bucket 0
_HOUR = timedelta(hours=1)
# What the release before has counted has no totals. So long for these: a beat has other duties.
_PATIENCE_SECONDS = 1.0
_KEYS: dict[type[HourlySums], tuple[str, ...]] = {
    HourlyCount: ("job_id", "queue", "state"),
    HourlyTotal: ("queue", "state"),
}
_SPREADS = ("delay_histogram", "run_histogram")
_SUMS = ("count", "started", "run_seconds", "delay_seconds", "longest_delay_seconds", *_SPREADS)
_Row = dict[str, Any]


def roll_up(now: datetime, *, hours: int | None = None) -> int:
    """Count the executions of the last hours anew; returns how many counts were written.

    If nothing is said these are the current hour and the one before, and one of the day before them, by the minute:
    called every minute or two, each of these is looked at once an hour. Costs what the hours hold. While there are no
    totals it is the whole day, and hours before it get theirs from their counts, newest first.
    """
    now = now.astimezone(UTC)
    current = now.replace(minute=0, second=0, microsecond=0)
    if hours is not None:
        ages = [*range(hours)]
    elif HourlyTotal.objects.exists():
        ages = [*range(RECENT_HOURS), RECENT_HOURS + now.minute * LATE_HOURS // 60]
    else:
        ages = [*range(RECENT_HOURS + LATE_HOURS)]
    written = sum(_count_anew(current - age * _HOUR) for age in ages)
    if hours is None:
        _add_up_older(current)
    return written


def _count_anew(hour: datetime) -> int:
    with transaction.atomic():
        if not _is_ours():
            return 0
        counts = list(_counts(hour))
        _store(HourlyTotal, hour, _totals(counts))
        return _store(HourlyCount, hour, counts)


def _store(model: type[HourlySums], hour: datetime, rows: Iterable[_Row]) -> int:
    """Make the hour's rows these; returns how many of them were written."""
    names = _KEYS[model]

    def key(row: _Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    stored = {key(row): row for row in model._default_manager.filter(hour=hour).values("pk", *names, *_SUMS)}
    counted = {key(row): row for row in rows}
    changed = [row for key, row in counted.items() if any(row[n] != stored.get(key, {}).get(n) for n in _SUMS)]
    model._default_manager.bulk_create(
        (model(hour=hour, **row) for row in changed),
        update_conflicts=True,
        unique_fields=["hour", *names],
        update_fields=_SUMS,
    )
    gone = [row["pk"] for key, row in stored.items() if key not in counted]
    model._default_manager.filter(pk__in=gone).delete()
    return len(changed)


def _totals(counts: Iterable[_Row]) -> Iterator[_Row]:
    """What the counts of an hour add up to, by queue and state."""
    parts: defaultdict[tuple[str, str], list[_Row]] = defaultdict(list)
    for row in counts:
        parts[row["queue"], row["state"]].append(row)
    for (queue, state), rows in parts.items():
        yield {
            "queue": queue,
            "state": state,
            "count": sum(row["count"] for row in rows),
            "started": sum(row["started"] for row in rows),
            # Rounded once, so that their order makes no difference: the database gives them in any.
            "run_seconds": math.fsum(row["run_seconds"] for row in rows),
            "delay_seconds": math.fsum(row["delay_seconds"] for row in rows),
            "longest_delay_seconds": max(row["longest_delay_seconds"] for row in rows),
            **{name: histogram.merged(row[name] for row in rows) for name in _SPREADS},
        }


def _add_up_older(current: datetime) -> None:
    """Totals of hours before the first that has some: their executions may be gone, their counts are not."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    first = HourlyTotal.objects.aggregate(hour=Min("hour"))["hour"] or current
    while time.monotonic() < deadline:
        hour = HourlyCount.objects.filter(hour__lt=first).aggregate(hour=Max("hour"))["hour"]
        if hour is None:
            return
        with transaction.atomic():
            if not _is_ours():
                return
            _store(
                HourlyTotal, hour, _totals(HourlyCount.objects.filter(hour=hour).values(*_KEYS[HourlyCount], *_SUMS))
            )
        first = hour


def _is_ours() -> bool:
    """Whether nobody else counts at this moment. Two who write the same rows could wait for one another in a ring."""
    if connection.vendor != "postgresql":
        return True  # SQLite has one writer at a time
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return bool(cursor.fetchone()[0])


def _counts(hour: datetime) -> Iterator[_Row]:
    """What an hour holds, by job, queue and state."""
    key = _KEYS[HourlyCount]
    nothing = Value(timedelta(), output_field=DurationField())
    delay = Greatest(_between("available_at", "started_at"), nothing)
    run = _between("started_at", "finished_at")
    has_begun = Q(started_at__isnull=False, state__in=BEGUN)
    has_ended = Q(started_at__isnull=False, state__in=ENDED)
    rows = (
        Execution.objects.firing_between(hour, hour + _HOUR)
        .values(*key)
        .annotate(
            # A stretch too long to be counted is one.
            total=Sum(Coalesce("skipped_count", 1)),
            started=Count("pk", filter=has_begun),
            ran=Sum(run, filter=has_ended),
            delayed=Sum(delay, filter=has_begun),
            longest=Max(delay, filter=has_begun),
            delays=_letters(delay, filter=has_begun),
            runs=_letters(run, filter=has_ended),
        )
        .order_by()
    )
    for row in rows:
        yield {
            **{name: row[name] for name in key},
            "count": row["total"],
            "started": row["started"],
            "run_seconds": _seconds(row["ran"]),
            "delay_seconds": _seconds(row["delayed"]),
            "longest_delay_seconds": _seconds(row["longest"]),
            "delay_histogram": _histogram(row["delays"]),
            "run_histogram": _histogram(row["runs"]),
        }


def _between(start: str, end: str) -> Expression:
    return ExpressionWrapper(F(end) - F(start), output_field=DurationField())


def _seconds(duration: timedelta | None) -> float:
    return duration.total_seconds() if duration else 0.0


# ── Histograms ───────────────────────────────────────────────────────────────────────────────────────────────────


class Joined(Aggregate):
    """The texts of a group in one, in no order."""

    function = "STRING_AGG"
    output_field = TextField()

    def __init__(self, text: Expression, between: str, **more: Any) -> None:
        super().__init__(text, Value(between), **more)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **more: Any) -> Any:
        return self.as_sql(compiler, connection, function="GROUP_CONCAT", **more)


class _Milliseconds(Func):
    """A duration as a number, for which the ORM has no word. SQLite keeps durations as microseconds."""

    output_field = FloatField()

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **more: Any) -> Any:
        template = "(EXTRACT(EPOCH FROM %(expressions)s) * 1000)::double precision"
        return self.as_sql(compiler, connection, template=template, **more)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **more: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(expressions)s / 1000.0)", **more)


def _bucket(duration: Expression) -> Expression:
    """What `histogram.bucket` says, in SQL."""
    steps = Ln(Greatest(_Milliseconds(duration), Value(1.0))) * Value(histogram.BUCKETS_PER_LN)
    number = Cast(Ceil(steps - Value(histogram.TOLERANCE)), IntegerField())
    return Least(number, Value(histogram.LAST))


def _letters(duration: Expression, *, filter: Q) -> Joined:
    """The bucket of each, as one letter. A row per bucket would be twenty rows per job: slower, and more to fetch."""
    return Joined(Chr(_bucket(duration) + Value(_LETTER)), "", filter=filter)


def _histogram(letters: str | None) -> histogram.Histogram:
    return {str(ord(letter) - _LETTER): count for letter, count in Counter(letters or "").items()}
