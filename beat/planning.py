"""The plan step: schedules that are nearly due become executions.

Invariant: a schedule is advanced and the executions of exactly its passed fires are inserted in one transaction, and
only if the schedule still has the version that was read. However many beats plan the same fire, it gets one row.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from beat.lease import Leases, fire_key
from executions import events, lifecycle
from executions.identity import milliseconds
from executions.states import Trigger
from executions.storable import in_a_line
from jobs.misfires import FirePlan, plan_fires
from jobs.models import Schedule

# One schedule cannot fill a whole batch: what is left is planned by the next tick.
_FIRES_PER_SCHEDULE = 100
_FORGIVE_AFTER = timedelta(minutes=1)
_MISFIRE_REASON = "misfire: no beat could plan these in time; the latest fire runs instead"
# A tick that comes after a long outage must not be a long one: what is left is planned by the next.
_PATIENCE_SECONDS = 1.0


class Planner:
    """Plans for one beat, under its leases."""

    def __init__(self, leases: Leases, *, look_ahead: timedelta, batch_size: int) -> None:
        self._leases = leases
        self._look_ahead = look_ahead
        self._batch_size = batch_size
        self._unreadable: set[int] = set()
        self._forgive_at: datetime | None = None

    def plan_due(self, *, now: datetime) -> int:
        """Plan up to a batch of schedules that fire within the look-ahead; returns how many fires were planned."""
        horizon = now + self._look_ahead
        if self._forgive_at is not None and now >= self._forgive_at:
            self._unreadable, self._forgive_at = set(), None  # a person may have mended them
        due = Schedule.objects.firing_before(horizon).exclude(pk__in=self._unreadable).select_related("job")
        with transaction.atomic():
            # Those that an app holds are passed by here already, so that they do not fill the batch.
            schedules = list(due.select_for_update(skip_locked=True, of=("self",))[: self._batch_size])
        taken = self._leases.take([_lease_key(schedule) for schedule in schedules])
        plans = []
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for schedule, is_ours in zip(schedules, taken, strict=True):
            if is_ours and (plan := self._plan_of(schedule, now=now, horizon=horizon)) is not None:
                plans.append((schedule, plan))
            if time.monotonic() > deadline:
                break
        return _record(plans, now=now) if plans else 0

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


def _record(plans: Sequence[tuple[Schedule, FirePlan]], *, now: datetime) -> int:
    with transaction.atomic():
        versions = dict(
            Schedule.objects.filter(pk__in=[schedule.pk for schedule, _ in plans], is_active=True)
            .select_for_update(skip_locked=True)
            .values_list("pk", "version")
        )
        unchanged = [(schedule, plan) for schedule, plan in plans if versions.get(schedule.pk) == schedule.version]
        _advance(unchanged)
        fires = [
            schedule.job.new_execution(fire_time, trigger=Trigger.SCHEDULE, now=now)
            for schedule, plan in unchanged
            for fire_time in plan.fire_times
        ]
        lifecycle.plan(fires)
        stretches = [
            schedule.job.new_skipped_row(plan.skipped.first, plan.skipped.last, plan.skipped.count, now=now)
            for schedule, plan in unchanged
            if plan.skipped
        ]
        lifecycle.record_skipped(stretches, reason=_MISFIRE_REASON, now=now)
    return len(fires)


def _advance(plans: Sequence[tuple[Schedule, FirePlan]]) -> None:
    for schedule, plan in plans:
        schedule.next_fire_at = plan.next_fire_at
        schedule.version += 1
        if schedule.fires_left is not None:
            schedule.fires_left -= len(plan.fire_times)
    Schedule.objects.bulk_update([schedule for schedule, _ in plans], ["next_fire_at", "version", "fires_left"])
