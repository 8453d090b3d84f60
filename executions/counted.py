"""What the executions of an hour add up to, by job, queue and state: the question, asked in one statement.

A sum is of what the row of an execution can tell: its last attempt. How long that ran is known when it SUCCEEDED or is
DEAD; what was CANCELLED may have waited for a retry. How long after it was due it began is known once it has begun;
to begin early, or to wait for room before it was due again, is no delay. Beside each sum stands how its durations
are spread (`executions/histogram.py`). Invariant: one statement reads it all, so that the parts agree with one another.
"""

from datetime import datetime, timedelta
from typing import Any

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
    QuerySet,
    Sum,
    TextField,
    Value,
)
from django.db.models.functions import Cast, Ceil, Chr, Coalesce, Greatest, Least, Ln
from django.db.models.sql.compiler import SQLCompiler

from executions import histogram
from executions.models import Execution
from executions.states import State

ENDED = (State.SUCCEEDED, State.DEAD)  # of which it is told how long they ran
BEGUN = (State.RUNNING, *ENDED)  # of which it is told how late they began
LETTER = ord("!")  # that of bucket 0
_HOUR = timedelta(hours=1)


def counted(hour: datetime) -> QuerySet[Any, Any]:
    """What an hour holds. Sums are durations, and nothing if there is none; of histograms see `_letters`."""
    nothing = Value(timedelta(), output_field=DurationField())
    delay = Greatest(_between("available_at", "started_at"), nothing)
    run = _between("started_at", "finished_at")
    has_begun = Q(started_at__isnull=False, state__in=BEGUN)
    has_ended = Q(started_at__isnull=False, state__in=ENDED)
    return (
        Execution.objects.firing_between(hour, hour + _HOUR)
        .values("job_id", "queue", "state")
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


def _between(start: str, end: str) -> Expression:
    return ExpressionWrapper(F(end) - F(start), output_field=DurationField())


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
    return Joined(Chr(_bucket(duration) + Value(LETTER)), "", filter=filter)
