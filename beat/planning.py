"""The plan step: schedules that are nearly due become executions.

Invariant: a schedule is advanced and the executions of exactly its passed fires are inserted in one transaction, and
only if the schedule still has the version that was read. However many beats plan the same fire, it gets one row.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction

from beat import shards
from beat.lease import Leases, fire_key
from executions import events, lifecycle
from executions.identity import milliseconds
from executions.storable import in_a_line
from jobs.misfires import FirePlan, Misfire, plan_fires
from jobs.models import Schedule

# One schedule cannot fill a whole batch: what is left is planned by the next one.
_FIRES_PER_SCHEDULE = 100
_FORGIVE_AFTER = timedelta(minutes=1)
_OVERDUE = timedelta(seconds=1)
# A batch that comes after a long outage must not be a long one: what is left is planned by the next.
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True)
class Planned:
    """What became of one batch of schedules."""

    fires: int = 0
    has_more: bool = False


class Planner:
    """Plans for one beat, under its leases."""

    def __init__(self, leases: Leases, *, look_ahead: timedelta, batch_size: int) -> None:
        self._leases = leases
        self._look_ahead = look_ahead
        self._batch_size = batch_size
        self._unreadable: set[int] = set()
        self._forgive_at: datetime | None = None
        self._are_some_held = False

    def plan_due(self, *, now: datetime, among: frozenset[int] = shards.ALL) -> Planned:
        """Plan up to a batch of schedules of these shards that fire within the look-ahead."""
        horizon = now + self._look_ahead
        due = self._read(now, horizon, among)
        keys = [_lease_key(schedule) for schedule in due]
        taken = self._leases.take(keys)
        plans = []
        is_cut_short = False
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for schedule, is_ours in zip(due, taken, strict=True):
            # A lease saves work, and must never make a fire late: what is overdue is planned whoever holds it.
            is_overdue = schedule.next_fire_at is not None and schedule.next_fire_at < now - _OVERDUE
            if (is_ours or is_overdue) and (plan := self._plan_of(schedule, now=now, horizon=horizon)) is not None:
                plans.append((schedule, plan))
            if time.monotonic() > deadline:
                is_cut_short = True
                break
        if not plans:
            return Planned()
        try:
            recorded = _record(plans, now=now)
        except Exception:
            self._leases.release([key for key, is_ours in zip(keys, taken, strict=True) if is_ours])
            raise
        self._are_some_held = len(recorded) < len(plans)
        is_unfinished = any(plan.next_fire_at and plan.next_fire_at <= horizon for _, plan in recorded)
        has_more = self._are_some_held or is_unfinished or is_cut_short or len(due) == self._batch_size
        return Planned(sum(len(plan.fire_times) for _, plan in recorded), has_more)

    def _read(self, now: datetime, horizon: datetime, among: frozenset[int]) -> list[Schedule]:
        if self._forgive_at is not None and now >= self._forgive_at:
            self._unreadable, self._forgive_at = set(), None  # a person may have mended them
        readable = Schedule.objects.firing_before(horizon).exclude(pk__in=self._unreadable)
        # Only the key of the job: what to run is copied within the database.
        due = shards.within(readable.select_related("job").only(*_COLUMNS), among)
        if not self._are_some_held:
            return list(due[: self._batch_size])
        with transaction.atomic():
            # Those that an app holds are passed by here already, so that they do not fill the batch.
            return list(due.select_for_update(skip_locked=True, of=("self",))[: self._batch_size])

    def _plan_of(self, schedule: Schedule, *, now: datetime, horizon: datetime) -> FirePlan | None:
        assert schedule.next_fire_at is not None
        try:
            return plan_fires(
                schedule.recurrence,
                due_at=schedule.next_fire_at,
                now=now,
                horizon=horizon,
                grace=timedelta(seconds=schedule.misfire_grace_seconds),
                limit=_FIRES_PER_SCHEDULE,
                left=schedule.fires_left,
                misfire=Misfire(schedule.misfire),
                misfire_limit=schedule.misfire_limit,
            )
        except Exception as error:
            # One schedule that was broken behind our back (by SQL, by a zone that is gone) must not stop the others.
            # Its row stays as it is, and is looked at again in a while.
            self._unreadable.add(schedule.pk)
            self._forgive_at = now + _FORGIVE_AFTER
            events.warn("a schedule cannot be read and is left out", job=schedule.job.key, error=in_a_line(error))
            return None


def _lease_key(schedule: Schedule) -> str:
    assert schedule.next_fire_at is not None
    return fire_key(schedule.job_id, milliseconds(schedule.next_fire_at))


_COLUMNS = [*(field.name for field in Schedule._meta.concrete_fields), "job__key"]
Plan = tuple[Schedule, FirePlan]


def _record(plans: Sequence[Plan], *, now: datetime) -> list[Plan]:
    """Write the plans of the schedules that are still as they were read, and that nobody holds; returns those."""
    with transaction.atomic():
        # Who moves a fire by plain SQL need not know of versions.
        stored = set(
            Schedule.objects.filter(pk__in=[schedule.pk for schedule, _ in plans], is_active=True)
            .select_for_update(skip_locked=True)
            .values_list("pk", "version", "next_fire_at")
        )
        unchanged = [
            (schedule, plan)
            for schedule, plan in plans
            if (schedule.pk, schedule.version, schedule.next_fire_at) in stored
        ]
        _advance(unchanged)
        fires = [schedule.fire(fire_time) for schedule, plan in unchanged for fire_time in plan.fire_times]
        stretches = [schedule.left_out(plan.skipped) for schedule, plan in unchanged if plan.skipped]
        lifecycle.plan_fires(fires, stretches, now=now)
    return unchanged


# One statement for the whole batch: Django's bulk_update would compare every row with every other.
_ADVANCE = """
UPDATE onbeat_schedule SET next_fire_at = planned.next_fire_at, fires_left = planned.fires_left, version = version + 1
FROM {planned} WHERE onbeat_schedule.job_id = planned.job_id
"""
_PLANNED_ON_POSTGRESQL = (
    "unnest(%s::bigint[], %s::timestamptz[], %s::integer[]) AS planned (job_id, next_fire_at, fires_left)"
)
_PLANNED_ON_SQLITE = """(
  SELECT json_extract(value, '$[0]') AS job_id, json_extract(value, '$[1]') AS next_fire_at,
         json_extract(value, '$[2]') AS fires_left
  FROM json_each(%s)
) AS planned"""


def _advance(plans: Sequence[Plan]) -> None:
    rows = [(schedule.pk, plan.next_fire_at, _fires_left(schedule, plan)) for schedule, plan in plans]
    if not rows:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                _ADVANCE.format(planned=_PLANNED_ON_POSTGRESQL), [list(column) for column in zip(*rows, strict=True)]
            )
            return
        stored = connection.ops.adapt_datetimefield_value
        text = json.dumps([(pk, stored(next_fire_at), left) for pk, next_fire_at, left in rows])
        cursor.execute(_ADVANCE.format(planned=_PLANNED_ON_SQLITE), [text])


def _fires_left(schedule: Schedule, plan: FirePlan) -> int | None:
    return None if schedule.fires_left is None else schedule.fires_left - len(plan.fire_times)
