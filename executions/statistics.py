"""How many executions there were, hour by hour: what charts are drawn from, and what is left when the rows are gone.

Owns the table of hourly counts. Invariant: an hour's counts change in one transaction, and add up to the executions
that fired in it when it was last looked at; to look again at what has not changed writes nothing.

A sum is of what the row of an execution can tell: its last attempt. How long that ran is known when it SUCCEEDED or is
DEAD; what was CANCELLED may have waited for a retry. How long after it was due it began is known once it has begun;
to begin early, or to wait for room before it was due again, is no delay. Beside each sum stands how its durations
are spread (`executions/histogram.py`). One statement reads it all, so that the parts agree with one another.
"""

from collections import Counter
from collections.abc import Iterator
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
    Q,
    Sum,
    TextField,
    Value,
)
from django.db.models.functions import Cast, Ceil, Chr, Coalesce, Greatest, Least, Ln
from django.db.models.sql.compiler import SQLCompiler

from executions import histogram
from executions.models import Execution, HourlyCount
from executions.states import State

RECENT_HOURS = 2  # looked at each time
LATE_HOURS = 23  # before these, looked at in turn: some executions end late
ENDED = (State.SUCCEEDED, State.DEAD)  # of which it is told how long they ran
BEGUN = (State.RUNNING, *ENDED)  # of which it is told how late they began
_LOCK = 0x6F6E_7374  # of whoever counts
_LETTER = ord("!")  # that of bucket 0
_HOUR = timedelta(hours=1)
_KEY = ("job_id", "queue", "state")
_SPREADS = ("delay_histogram", "run_histogram")
_SUMS = ("count", "started", "run_seconds", "delay_seconds", "longest_delay_seconds", *_SPREADS)


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
    run = _between("started_at", "finished_at")
    has_begun = Q(started_at__isnull=False, state__in=BEGUN)
    has_ended = Q(started_at__isnull=False, state__in=ENDED)
    rows = (
        Execution.objects.firing_between(hour, hour + _HOUR)
        .values(*_KEY)
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
            **{name: row[name] for name in _KEY},
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
