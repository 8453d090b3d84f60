"""Before it runs: planned, published, held back, moved, left out, revived, taken back."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, Q

from executions import lazily, prepared, value_lists
from executions.identity import MILLISECOND, fire_time_of, new_execution_id
from executions.lifecycle import tally
from executions.lifecycle.fires import with_partitions
from executions.lifecycle.inserts import insert, insert_like
from executions.lifecycle.rows import change_free
from executions.models import FROM_JOB, REASON_CHARACTERS, Execution, ExecutionQuerySet
from executions.new_runs import NewRun
from executions.outcomes import Unplanned
from executions.outgoing import Outgoing
from executions.states import FIRE_TRIGGERS, State, Trigger
from executions.storable import storable_text

# What is due sooner than this may have been read by a beat already, and can no longer be moved.
SETTLED = timedelta(seconds=1)
_ROWS_PER_STATEMENT = 500
_MOST_EXPLAINED = 5000


@dataclass(frozen=True)
class Split:
    """What is left of a skipped stretch when some of its fires run after all."""

    stretch: Execution
    last: datetime  # that stays in its row; the first, if none stays
    count: int | None
    rest: tuple[datetime, datetime, int | None] | None  # first, last and number of the fires after the gap


def plan(executions: Sequence[Execution]) -> None:
    """Insert the rows of fires and replays. A fire that already has its row keeps that one."""
    if not executions:
        return
    with_partitions(lambda: insert(executions), (execution.fire_time for execution in executions))


def plan_runs(runs: Sequence[NewRun], *, like: Execution) -> None:
    """The same for asked-for runs of one job, without rows of the model: in all other columns they are like this one.

    Rows of the model take longer than all the rest, where they are many.
    """
    if not runs:
        return
    columns = dict(zip(NewRun._fields, zip(*runs, strict=True), strict=True))
    with_partitions(lambda: insert_like(like, columns), columns["fire_time"])


def record_skipped(executions: Sequence[Execution], *, now: datetime) -> None:
    """Insert rows of fires that will not run, each with the reason that it brings."""
    for execution in executions:
        execution.state, execution.finished_at = State.SKIPPED, now
    plan(executions)
    tally.skipped((execution.reason, execution.skipped_count or 1) for execution in executions)


def mark_queued(executions: Iterable[Execution | Outgoing], *, now: datetime, due_by: datetime | None = None) -> int:
    """SCHEDULED → QUEUED for what the broker has confirmed; what was claimed meanwhile stays as it is.

    They were read as due by now; or by a later moment, and published ahead of their time: they count as available now.
    What is due later still, or waits and did not then, was moved or held back meanwhile: its message is void.
    """
    rows = [(execution.pk, execution.attempt, execution.is_waiting) for execution in executions]
    if not rows:
        return 0
    ids = [pk for pk, _, _ in rows]
    between = [fire_time_of(min(ids)), fire_time_of(max(ids)) + MILLISECOND]
    given, given_parameters = value_lists.table("given", _AS_READ, rows)
    ahead = [] if due_by is None else [now]
    statement = _MARK.format(
        given=given,
        ahead=", available_at = %s" if ahead else "",
        lazily=lazily.source(),
        lock="FOR UPDATE OF stored SKIP LOCKED" if connection.features.has_select_for_update_skip_locked else "",
    )
    moments = [now, *ahead, *given_parameters, due_by or now, *between, *between]
    with prepared.cursor() as cursor:
        cursor.execute(statement, value_lists.as_parameters(moments))
        return int(cursor.rowcount)


# In plain SQL: a beat says it for each batch, however small, and Django would look at each row several times. Its
# commit is not waited for: what a server forgets is SCHEDULED again, is published again, and the claim drops the
# double. Rows that an app holds are passed by: the beat comes again.
_MARK = """
UPDATE onbeat_execution AS execution SET state = 'QUEUED', queued_at = %s, reason = ''{ahead}
FROM (
    SELECT stored.id AS free_id, stored.fire_time AS free_time FROM {given} JOIN onbeat_execution AS stored
    ON stored.id = given.id AND stored.attempt = given.attempt AND stored.is_waiting = given.is_waiting
    WHERE stored.state = 'SCHEDULED' AND stored.available_at <= %s
    AND stored.fire_time >= %s AND stored.fire_time < %s {lock}
) AS free{lazily}
WHERE id = free_id AND fire_time = free_time AND fire_time >= %s AND fire_time < %s
"""
_AS_READ = {"id": "uuid", "attempt": "integer", "is_waiting": "boolean"}


def hold(executions: Iterable[Execution | Outgoing], *, reason: str, until: datetime) -> int:
    """SCHEDULED or QUEUED → SCHEDULED at the same attempt: keep them back for a while, and let them say why."""
    return change_free(
        ((execution.pk, execution.attempt) for execution in executions),
        Execution.objects.filter(state__in=[State.SCHEDULED, State.QUEUED]),
        state=State.SCHEDULED,
        reason=storable_text(reason, REASON_CHARACTERS),
        available_at=until,
    )


def explain(rows: ExecutionQuerySet, *, reason: str) -> int:
    """Let some of these rows that wait, and do not say why, say it. No state changes."""
    silent = rows.filter(state=State.SCHEDULED, reason="")
    with transaction.atomic():
        free = silent.select_for_update(skip_locked=True).values_list("pk", flat=True)[:_MOST_EXPLAINED]
        return silent.with_ids(list(free)).update(reason=storable_text(reason, REASON_CHARACTERS))


def move(execution_id: uuid.UUID, *, to: datetime, now: datetime) -> bool:
    """Let a run that nobody has tried yet come at another time. False: it is about to run, or did."""
    return bool(
        Execution.objects.with_id(execution_id)
        .scheduled()
        .filter(attempt=1, is_waiting=False, available_at__gt=now + SETTLED)
        .update(available_at=to)
    )


def hurry(ids: Collection[uuid.UUID], *, now: datetime) -> int:
    """Let retries that wait for their time come now. No state changes."""
    waiting = Execution.objects.with_ids(ids).scheduled().filter(attempt__gt=1, is_waiting=False, available_at__gt=now)
    return waiting.update(available_at=now, reason="its retry was hurried")


def skip(ids: Collection[uuid.UUID], *, reason: str, now: datetime) -> int:
    """SCHEDULED → SKIPPED: it will not run, and says why."""
    skipped = (
        Execution.objects.with_ids(ids)
        .scheduled()
        .update(state=State.SKIPPED, reason=storable_text(reason, REASON_CHARACTERS), finished_at=now, is_waiting=False)
    )
    tally.skipped([(reason, skipped)])
    return skipped


def split(splits: Sequence[Split]) -> int:
    """Let skipped stretches end sooner, and give what comes after the gap rows of its own. No state changes.

    The fires of the gap have no row then, but for the first of a stretch: its row is that fire's alone, to be revived.
    """
    if not splits:
        return 0
    for one in splits:
        one.stretch.skipped_until, one.stretch.skipped_count = one.last, one.count
    with transaction.atomic():
        changed = _change_each(
            [one.stretch for one in splits],
            Execution.objects.filter(state=State.SKIPPED, skipped_until__isnull=False),
            ["skipped_until", "skipped_count"],
        )
        plan([_rest(one.stretch, *one.rest) for one in splits if one.rest is not None])
    return changed


def _rest(stretch: Execution, first: datetime, last: datetime, count: int | None) -> Execution:
    """A row for the end of a stretch, which says the same as the row of the whole."""
    rest = copy(stretch)
    rest.id, rest.fire_time, rest.available_at = new_execution_id(first), first, first
    rest.skipped_until, rest.skipped_count = last, count
    return rest


def revive(rows: Sequence[Execution]) -> int:
    """SKIPPED → SCHEDULED, for a backfill: fires that were left out run after all. Not a row of many fires.

    Rows of one job, as they shall be: each has its own `available_at` and reason, and what to run is the same for all.
    Not for what somebody asked for: its key may be another run's by now, and its instant a fire's. It is replayed.
    """
    if not rows:
        return 0
    left_out = Execution.objects.filter(
        Q(skipped_until=None) | Q(skipped_until=F("fire_time")), state=State.SKIPPED, trigger__in=FIRE_TRIGGERS
    )
    by_reason: defaultdict[str, list[uuid.UUID]] = defaultdict(list)  # few, however many rows
    for row in rows:
        by_reason[storable_text(row.reason, REASON_CHARACTERS)].append(row.pk)
    changes = {name: getattr(rows[0], name) for name in FROM_JOB}
    changes |= {"trigger": Trigger.BACKFILL, "finished_at": None, "skipped_until": None, "skipped_count": None}
    changes |= {"request_id": rows[0].request_id}  # one asked for all
    with transaction.atomic():
        _change_each(rows, left_out, ["available_at"])
        return sum(
            left_out.with_ids(ids).update(state=State.SCHEDULED, reason=reason, **changes)
            for reason, ids in by_reason.items()
        )


def _change_each(rows: Sequence[Execution], among: ExecutionQuerySet, fields: list[str]) -> int:
    """Store fields that differ from row to row, where the stored row is still among those. In parts: a statement
    compares each of its rows with all others."""
    parts = [rows[start : start + _ROWS_PER_STATEMENT] for start in range(0, len(rows), _ROWS_PER_STATEMENT)]
    return sum(among.with_ids([row.pk for row in part]).bulk_update(part, fields) for part in parts)


def unplan(job_id: int, *, reason: str, now: datetime) -> Unplanned:
    """Take back what was planned and not begun: rows of coming fires go, those whose time has passed are SKIPPED."""
    return unplan_all([job_id], reason=reason, now=now).get(job_id, Unplanned([], 0))


def unplan_all(job_ids: Collection[int], *, reason: str, now: datetime) -> dict[int, Unplanned]:
    """The same for many jobs, in as many statements. A job of which nothing was planned is left out."""
    with transaction.atomic():
        planned = list(
            Execution.objects.planned()
            .filter(job_id__in=list(job_ids))
            .select_for_update()
            .order_by("pk")
            .values_list("pk", "job_id", "fire_time")
        )
        coming = {pk for pk, _, fire_time in planned if fire_time > now}
        passed = [(pk, job_id) for pk, job_id, _ in planned if pk not in coming]
        # Nothing hangs on a row that was never tried, so no cascade has to be looked for.
        Execution.objects.with_ids(coming)._raw_delete(Execution.objects.db)
        # These are locked, and SCHEDULED: each of them is skipped.
        skip([pk for pk, _ in passed], reason=reason, now=now)
    removed: defaultdict[int, list[datetime]] = defaultdict(list)
    for pk, job_id, fire_time in planned:
        if pk in coming:
            removed[job_id].append(fire_time)
    skipped = Counter(job_id for _, job_id in passed)
    return {job_id: Unplanned(sorted(removed[job_id]), skipped[job_id]) for job_id in {*removed, *skipped}}
