"""The plan step: schedules that are nearly due become executions.

Invariant: a schedule is advanced and the executions of exactly its passed fires are inserted in one transaction, and
only if the schedule still has the version that was read. However many beats plan the same fire, it gets one row.
"""

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction

from beat import shards
from beat.lease import Leases, fire_key
from beat.shards import ALL
from executions import events, lifecycle, value_lists
from executions.identity import milliseconds
from executions.storable import in_a_line
from jobs import due_schedules
from jobs.due_schedules import DueSchedule
from jobs.misfires import FirePlan, Misfire, plan_fires
from jobs.models import Schedule, ScheduleQuerySet

# One schedule cannot fill a whole batch: what is left is planned by the next one.
_FIRES_PER_SCHEDULE = 100
# Nor can many of them make a transaction a long one.
_FIRES_PER_BATCH = 5000
_FORGIVE_AFTER = timedelta(minutes=1)
_OVERDUE = timedelta(seconds=1)
# What is overdue by this much is done by whoever comes, whatever the shards say.
LEFT_LYING = timedelta(seconds=3)
# And this many at a time: most often the one whose they are is alive and busy, and they are read for nothing.
OTHERS_AT_ONCE = 100
# A batch that comes after a long outage must not be a long one: what is left is planned by the next.
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True)
class Planned:
    """What became of one batch of schedules."""

    fires: int = 0
    has_more: bool = False

    def and_then(self, following: "Planned") -> "Planned":
        return Planned(self.fires + following.fires, following.has_more)


class Planner:
    """Plans for one beat, under its leases."""

    def __init__(self, leases: Leases, *, look_ahead: timedelta, batch_size: int) -> None:
        self._leases = leases
        self._look_ahead = look_ahead
        self._batch_size = batch_size
        self._unreadable: set[int] = set()
        self._told: dict[int, str] = {}
        self._forgive_at: datetime | None = None
        self._are_some_held = False

    def plan_due(self, *, now: datetime, among: frozenset[int] = ALL) -> Planned:
        """Plan up to a batch of schedules that fire within the look-ahead: those of our shards before all others."""
        horizon = now + self._look_ahead
        due = self._read(now, horizon, among)
        keys = [_lease_key(schedule) for schedule in due]
        taken = self._leases.take(keys)
        plans, is_cut_short = self._plans_of(due, taken, now=now, horizon=horizon)
        if not plans:
            return Planned(has_more=is_cut_short)
        try:
            recorded = _record(plans, now=now)
        except Exception:
            self._leases.release([key for key, is_ours in zip(keys, taken, strict=True) if is_ours])
            raise
        self._are_some_held = len(recorded) < len(plans)
        is_unfinished = any(plan.next_fire_at and plan.next_fire_at <= horizon for _, plan in recorded)
        has_more = self._are_some_held or is_unfinished or is_cut_short or len(due) == self._batch_size
        return Planned(sum(len(plan.fire_times) for _, plan in recorded), has_more)

    def _read(self, now: datetime, horizon: datetime, among: frozenset[int]) -> list[DueSchedule]:
        """What is on time comes first, so that catching up makes nothing else late. Then what was missed.

        Last, if there is room, what others should have planned: whoever is taken for alive by mistake loses nothing.
        """
        if self._forgive_at is not None and now >= self._forgive_at:
            self._unreadable, self._forgive_at = set(), None  # a person may have mended them
        due = Schedule.objects.firing_before(horizon).exclude(pk__in=self._unreadable)
        on_time, missed = due.filter(next_fire_at__gt=now - LEFT_LYING), due.filter(next_fire_at__lte=now - LEFT_LYING)
        found: list[DueSchedule] = []
        for rows in (shards.within(on_time, among), shards.within(missed, among)):
            room = self._batch_size - len(found)
            found += self._take(rows, room) if room else []
        if among != ALL and (room := min(self._batch_size - len(found), OTHERS_AT_ONCE)):
            found += self._take(shards.within(missed, ALL - among), room)
        return found

    def _take(self, due: ScheduleQuerySet, room: int) -> list[DueSchedule]:
        if self._are_some_held:
            with transaction.atomic():
                # Those that an app holds are passed by here already, so that they do not fill the batch. Their ids
                # alone: who is frozen while it is sent a long answer keeps its locks.
                free = list(due.select_for_update(skip_locked=True).values_list("pk", flat=True)[:room])
            due = Schedule.objects.filter(pk__in=free).order_by("next_fire_at")
        return due_schedules.read(due[:room])

    def _plans_of(
        self, due: Sequence[DueSchedule], taken: Sequence[bool], *, now: datetime, horizon: datetime
    ) -> tuple[list["Plan"], bool]:
        """What to do about each, and whether there was no time for all of them."""
        plans: list[Plan] = []
        fires = 0
        known: dict[Hashable, FirePlan] = {}  # those that say the same fire at the same times
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for schedule, is_ours in zip(due, taken, strict=True):
            if time.monotonic() > deadline or fires >= _FIRES_PER_BATCH:
                return plans, True
            # A lease saves work, and must never make a fire late: what is overdue is planned whoever holds it.
            if (is_ours or schedule.due_at < now - _OVERDUE) and (
                plan := self._plan_of(schedule, known, now=now, horizon=horizon)
            ):
                plans.append((schedule, plan))
                fires += len(plan.fire_times)
        return plans, False

    def _plan_of(
        self, schedule: DueSchedule, known: dict[Hashable, FirePlan], *, now: datetime, horizon: datetime
    ) -> FirePlan | None:
        try:
            says = schedule.says
            if says not in known:
                known[says] = _plan_fires(schedule, now=now, horizon=horizon)
            return known[says]
        except Exception as error:
            # One schedule that was broken behind our back (by SQL, by a zone that is gone) must not stop the others.
            # Its row stays as it is, and is looked at again in a while.
            self._unreadable.add(schedule.job_id)
            self._forgive_at = now + _FORGIVE_AFTER
            why = in_a_line(error)
            if self._told.get(schedule.job_id) != why:
                events.warn("a schedule cannot be read and is left out", job=schedule.key, error=why)
            self._told[schedule.job_id] = why
            return None


def _plan_fires(schedule: DueSchedule, *, now: datetime, horizon: datetime) -> FirePlan:
    if milliseconds(schedule.due_at) < 0:
        raise ValueError("its next fire is before 1970")
    return plan_fires(
        schedule.recurrence,
        due_at=schedule.due_at,
        now=now,
        horizon=horizon,
        grace=timedelta(seconds=schedule.misfire_grace_seconds),
        limit=_FIRES_PER_SCHEDULE,
        left=schedule.fires_left,
        misfire=Misfire(schedule.misfire),
        misfire_limit=schedule.misfire_limit,
    )


def _lease_key(schedule: DueSchedule) -> str:
    return fire_key(schedule.job_id, milliseconds(schedule.due_at))


Plan = tuple[DueSchedule, FirePlan]


def _record(plans: Sequence[Plan], *, now: datetime) -> list[Plan]:
    """Write the plans of the schedules that are still as they were read, and that nobody holds; returns those."""
    with transaction.atomic():
        advanced = _advance(plans)
        unchanged = [(schedule, plan) for schedule, plan in plans if schedule.job_id in advanced]
        fires = [schedule.fire(fire_time) for schedule, plan in unchanged for fire_time in plan.fire_times]
        stretches = [schedule.left_out(plan.skipped) for schedule, plan in unchanged if plan.skipped]
        lifecycle.plan_fires(fires, stretches, now=now)
    return unchanged


# One statement for the whole batch: Django's bulk_update would compare every row with every other. Who moves a fire by
# plain SQL need not know of versions, so the fire that was read is compared as well.
_ADVANCE = """
UPDATE onbeat_schedule SET next_fire_at = next_at, fires_left = left_then, version = version + 1
FROM (
    SELECT job, next_at, left_then FROM {planned} {and_stored}
    WHERE stored.version = as_version AND stored.next_fire_at = due_at
) AS free
WHERE job_id = job RETURNING job_id
"""
# Each schedule by its key: PostgreSQL would read all that are active, and look the batch up in them.
_AND_STORED = {
    "postgresql": "CROSS JOIN LATERAL (SELECT version, next_fire_at FROM onbeat_schedule "
    "WHERE job_id = job AND is_active FOR UPDATE SKIP LOCKED) AS stored",
    "sqlite": "JOIN onbeat_schedule AS stored ON stored.job_id = job AND stored.is_active",  # has one writer at a time
}
_PLANNED = {
    "job": "bigint",
    "as_version": "integer",
    "due_at": "timestamptz",
    "next_at": "timestamptz",
    "left_then": "integer",
}


def _advance(plans: Sequence[Plan]) -> set[int]:
    """Move on the schedules that are as they were read; returns their jobs."""
    rows = [
        (schedule.job_id, schedule.version, schedule.due_at, plan.next_fire_at, _fires_left(schedule, plan))
        for schedule, plan in plans
    ]
    planned, parameters = value_lists.table("planned", _PLANNED, rows)
    with connection.cursor() as cursor:
        cursor.execute(_ADVANCE.format(planned=planned, and_stored=_AND_STORED[connection.vendor]), parameters)
        return {job_id for (job_id,) in cursor.fetchall()}


def _fires_left(schedule: DueSchedule, plan: FirePlan) -> int | None:
    return None if schedule.fires_left is None else schedule.fires_left - len(plan.fire_times)
