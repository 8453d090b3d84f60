"""How long rows are kept, and how they go.

Owns what may be deleted. Invariant: nothing that is open goes, no dead letter that waits for a person before its days
are over, nothing that ended lately, and no fire that its schedule could plan again: its row is what keeps it from
running twice.

Where there are partitions a whole month is dropped. If something in it has to stay, and on SQLite, the rest is deleted
in batches, so many per call: the caller comes again.
"""

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from executions import partitions
from executions.identity import fire_time_of
from executions.models import Attempt, DeadMessage, Execution, ExecutionQuerySet, HourlyCount, HourlyTotal
from executions.partitions import Month
from executions.states import FIRE_TRIGGERS, OPEN, State

BATCH_SIZE = 5000
MOST_BATCHES = 20
# A beat has other duties beside this: so long for the months, so long for the rows.
_PATIENCE_SECONDS = 1.0
_FEW_JOBS = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Pruned:
    """What became of the old rows."""

    months: tuple[Month, ...]  # dropped whole
    kept: Mapping[Month, str]  # and why
    executions: int  # this and the next four: deleted row by row
    attempts: int
    hourly_counts: int
    hourly_totals: int
    dead_messages: int
    has_more: bool


def _spans(kept: Iterable[Month], ended_before: datetime) -> list[tuple[datetime, datetime]]:
    """Where rows are deleted one by one."""
    if partitions.are_used():
        return [(month.start, month.following.start) for month in kept]
    return [(_EPOCH, ended_before)]


def _going(start: datetime, end: datetime, stays: Mapping[str, Q]) -> ExecutionQuerySet:
    return Execution.objects.firing_between(start, end).exclude(reduce(or_, stays.values()))


def prune(now: datetime, *, batch_size: int = BATCH_SIZE, most_batches: int = MOST_BATCHES) -> Pruned:
    """Remove what is past its days, as much as one call may. Not within a transaction: that would use the months."""
    ended_before = _days_ago(now, settings.ONBEAT_EXECUTIONS_RETENTION_DAYS)
    over = partitions.ended_before(ended_before)
    # What stays is asked only where something could go: the question reads all schedules.
    stays = _what_stays(now) if over or not partitions.are_used() else {}
    months, kept, has_more = _drop_months(over, stays)
    # What somebody uses is dropped another time, whole.
    spans = _spans([month for month, why in kept.items() if why != partitions.IN_USE], ended_before)
    gone: Counter[str] = Counter()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for number, deleted in enumerate(_deletions(spans, stays, now=now, batch_size=batch_size), start=1):
        gone += deleted
        if number >= most_batches or time.monotonic() > deadline:
            has_more |= bool(gone)
            break
    return Pruned(
        tuple(months),
        kept,
        executions=gone["executions"],
        attempts=gone["attempts"],
        hourly_counts=gone["hourly_counts"],
        hourly_totals=gone["hourly_totals"],
        dead_messages=gone["dead_messages"],
        has_more=has_more,
    )


@dataclass(frozen=True)
class KeptMonth:
    """A partition, and what is to become of it."""

    month: Month
    rows: int | None  # about so many; None: the database has not counted yet
    goes_from: datetime  # its days are over then
    stays_for: str  # what has to stay in it though its days are over; nothing: it is dropped whole


def months(now: datetime) -> list[KeptMonth]:
    """The partitions, the oldest first. None on SQLite."""
    estimated, stays = partitions.rows_estimated(), _what_stays(now)
    kept_for = timedelta(days=settings.ONBEAT_EXECUTIONS_RETENTION_DAYS)

    def of(month: Month) -> KeptMonth:
        goes_from = month.following.start + kept_for
        stays_for = partitions.why_kept(month, unless=stays) if goes_from <= now else ""
        return KeptMonth(month, estimated.get(month), goes_from, stays_for)

    return [of(month) for month in partitions.existing()]


@dataclass(frozen=True)
class PastTheirDays:
    """What the next calls of `prune` remove, each counted no further than so many."""

    executions: int
    dead_letters: int
    dead_messages: int
    hourly: int


def past_their_days(now: datetime, *, most: int) -> PastTheirDays:
    ended_before = _days_ago(now, settings.ONBEAT_EXECUTIONS_RETENTION_DAYS)
    spans = _spans(partitions.ended_before(ended_before), ended_before)
    is_waiting = Q(state=State.DEAD, handled_at=None)
    going = Execution.objects.none()
    if spans:
        going = _going(spans[0][0], spans[-1][1], _what_stays(now))
    counted_before = {"hour__lt": _days_ago(now, settings.ONBEAT_EXECUTIONS_STATISTICS_DAYS)}

    def count(rows: QuerySet[Any]) -> int:
        return rows.order_by().values("pk")[:most].count()

    return PastTheirDays(
        executions=count(going.exclude(is_waiting)),
        dead_letters=count(going.filter(is_waiting)),
        dead_messages=count(_old_messages(now)),
        hourly=count(HourlyCount.objects.filter(**counted_before))
        + count(HourlyTotal.objects.filter(**counted_before)),
    )


def _what_stays(now: datetime) -> dict[str, Q]:
    """The kinds of executions that have to stay, however old they are. What is of none of these may go."""
    lately = _days_ago(now, settings.ONBEAT_EXECUTIONS_RETENTION_DAYS)
    dead_lately = _days_ago(now, settings.ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS)
    return {
        # One by one, since each of these states has an index of its own.
        "executions in it are not over": reduce(or_, (Q(state=state) for state in OPEN)),
        "dead letters in it are not handled": Q(state=State.DEAD, handled_at=None) & ~Q(finished_at__lt=dead_lately),
        "executions in it ended lately": Q(finished_at__gte=lately),
        "fires in it could be planned again": _may_be_planned_again(lately),
    }


def _may_be_planned_again(before: datetime) -> Q:
    """Fires that ran ahead of their schedule, by a backfill: no beat was there to plan them, or the job is paused.

    A schedule never goes back to what has passed, so a fire that it has behind it stays behind it. Jobs whose schedule
    stands so far back are few, if any, and are named: so their fires are found by an index, and not by reading all.
    """
    job = Execution._meta.get_field("job").related_model
    late = job._default_manager.filter(schedule__next_fire_at__lt=before)
    few = list(late.values_list("pk", flat=True)[: _FEW_JOBS + 1])
    of_late_jobs = Q(job_id__in=few) if len(few) <= _FEW_JOBS else Q()
    is_ahead = late.filter(pk=OuterRef("job_id"), schedule__next_fire_at__lte=OuterRef("fire_time"))
    return of_late_jobs & Q(trigger__in=FIRE_TRIGGERS) & Q(Exists(is_ahead))


def _days_ago(now: datetime, days: int) -> datetime:
    return now - timedelta(days=days)


def _drop_months(over: Iterable[Month], stays: Mapping[str, Q]) -> tuple[list[Month], dict[Month, str], bool]:
    """Which were dropped, which were not and why, and whether there was no time for others."""
    months: list[Month] = []
    kept: dict[Month, str] = {}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for month in over:
        if reason := partitions.drop(month, unless=stays):
            kept[month] = reason
        else:
            months.append(month)
        if time.monotonic() > deadline:
            return months, kept, bool(months)
    return months, kept, False


def _deletions(
    spans: list[tuple[datetime, datetime]], stays: Mapping[str, Q], *, now: datetime, batch_size: int
) -> Iterator[Counter[str]]:
    """Delete a batch at each step, and tell how many."""
    for start, end in spans:
        going = _going(start, end, stays)
        for ids in _batches(going, batch_size):
            yield _delete(going, ids)
    counted_before = _days_ago(now, settings.ONBEAT_EXECUTIONS_STATISTICS_DAYS)
    # Totals after the counts that they could be made from again.
    yield from _small_rows("hourly_counts", HourlyCount.objects.filter(hour__lt=counted_before), batch_size)
    yield from _small_rows("hourly_totals", HourlyTotal.objects.filter(hour__lt=counted_before), batch_size)
    yield from _small_rows("dead_messages", _old_messages(now), batch_size)


def _old_messages(now: datetime) -> QuerySet[DeadMessage]:
    """As dead letters that are executions: those that were handled go sooner."""
    handled = Q(handled_at__lt=_days_ago(now, settings.ONBEAT_EXECUTIONS_RETENTION_DAYS))
    waiting = Q(handled_at=None, collected_at__lt=_days_ago(now, settings.ONBEAT_EXECUTIONS_DEAD_LETTER_DAYS))
    return DeadMessage.objects.filter(handled | waiting)


def _small_rows(kind: str, old: QuerySet[Any], batch_size: int) -> Iterator[Counter[str]]:
    """Those on which nothing hangs."""
    while ids := list(old.order_by("pk").values_list("pk", flat=True)[:batch_size]):
        yield Counter({kind: old.model._default_manager.filter(pk__in=ids)._raw_delete(old.db)})


def _batches(executions: ExecutionQuerySet, size: int) -> Iterator[list[uuid.UUID]]:
    """The ids in order, so many at a time. Read before the transaction: on SQLite that would keep everybody waiting."""
    in_order = executions.order_by("pk").values_list("pk", flat=True)
    ids = list(in_order[:size])
    while ids:
        yield ids
        ids = list(in_order.filter(pk__gt=ids[-1])[:size]) if len(ids) == size else []


def _delete(going: ExecutionQuerySet, ids: list[uuid.UUID]) -> Counter[str]:
    """Those of them that may still go and that nobody holds, with their attempts."""
    with transaction.atomic():
        free = list(going.with_ids(ids).select_for_update(skip_locked=True).order_by("pk").values_list("pk", flat=True))
        if not free:
            return Counter()
        # Nothing else hangs on an execution, so no cascade has to be looked for.
        first, last = fire_time_of(free[0]), fire_time_of(free[-1]) + timedelta(milliseconds=1)
        attempts = Attempt.objects.filter(execution__in=free, fire_time__gte=first, fire_time__lt=last)
        return Counter(
            attempts=attempts._raw_delete(Attempt.objects.db),
            executions=Execution.objects.with_ids(free)._raw_delete(Execution.objects.db),
        )
