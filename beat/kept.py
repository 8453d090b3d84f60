"""For how long everything is kept, how much is past that, and its removal in one go.

Owns the answer for whoever asks; what goes and what stays is said by those who own the rows, and beats remove it little
by little (`beat/upkeep/`). Invariant: nothing is removed here that a duty of the upkeep would not remove.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.conf import settings
from django.db.models import QuerySet
from django_celery_results.models import TaskResult

from access import audit, idempotent_answers
from executions import retention, run_keys

MOST_COUNTED = 100_000


@dataclass(frozen=True)
class Kind:
    """Rows of one kind."""

    name: str
    keeps: timedelta | None  # None: until what they belong to is over
    setting: str  # which says so; nothing: it is fixed
    past: int  # their time is over; counted up to a limit


def kinds(now: datetime, *, most: int = MOST_COUNTED) -> list[Kind]:
    past = retention.past_their_days(now, most=most)
    expires = _results_expire()
    return [
        _by_days("executions", "ONBEAT_EXECUTIONS_RETENTION_DAYS", past.executions),
        _by_days("dead letters", "ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS", past.dead_letters + past.dead_messages),
        _by_days("statistics", "ONBEAT_EXECUTIONS_STATISTICS_DAYS", past.hourly),
        _by_days("audit trail", "ONBEAT_ACCESS_AUDIT_DAYS", _count(audit.past_their_days(now), most)),
        Kind(
            "idempotent answers",
            timedelta(hours=idempotent_answers.IDEMPOTENT_HOURS),
            "",
            _count(idempotent_answers.past_their_hours(now), most),
        ),
        Kind("results", expires, "result_expires of Celery", _count(_old_results(now, expires), most)),
        Kind("run keys", None, "", _count(run_keys.ended(now), most)),
    ]


def _by_days(name: str, setting: str, past: int) -> Kind:
    return Kind(name, timedelta(days=getattr(settings, setting)), setting, past)


def _count(rows: QuerySet[Any], most: int) -> int:
    return rows.order_by().values("pk")[:most].count()


def _results_expire() -> timedelta | None:
    said = current_app.conf.result_expires
    return said if said is None or isinstance(said, timedelta) else timedelta(seconds=said)


def _old_results(now: datetime, expires: timedelta | None) -> QuerySet[TaskResult]:
    return TaskResult.objects.none() if expires is None else TaskResult.objects.filter(date_done__lt=now - expires)


def remove_past(now: datetime, *, by: str, through: str) -> Iterator[tuple[str, int]]:
    """Remove what is past its time until nothing is left; tells after each part of what, and how much.

    Not within a transaction: each part stands for itself. Whoever stops in the middle has done the first parts, and the
    audit trail tells of these.
    """
    gone: Counter[str] = Counter()
    try:
        for name, number in _parts(now):
            gone[name] += number
            yield name, number
    finally:
        audit.record(who=by, through=through, action="retention.run", subject="retention", after=dict(gone))


def _parts(now: datetime) -> Iterator[tuple[str, int]]:
    yield from _pruned(now)
    while number := audit.forget_older(now):
        yield "audit trail", number
    while number := idempotent_answers.forget_answers(now):
        yield "idempotent answers", number
    yield "results", _count(_old_results(now, _results_expire()), MOST_COUNTED)
    current_app.backend.cleanup()  # it does not say how many
    while run_keys.to_look_at(now).exists():
        yield "run keys", run_keys.forget_ended(now)


def _pruned(now: datetime) -> Iterator[tuple[str, int]]:
    has_more = True
    while has_more:
        pruned = retention.prune(now)
        has_more = pruned.has_more
        yield "months", len(pruned.months)
        yield "executions", pruned.executions
        yield "dead messages", pruned.dead_messages
        yield "statistics", pruned.hourly_counts + pruned.hourly_totals
