"""What a change of definition does to the rows of jobs, of one or of ten thousand in as many statements.

Owns the way from a held job to its stored change. Invariants: jobs are held in the order of their ids, then their
schedules, so that two that change the same ones wait in a line and never in a ring; what was planned and not begun is
taken back; fires that pass without a run leave a row that says why; each change raises the version of the job, and of
the schedule if it is touched, and leaves a version with who, when and through what.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from executions import lifecycle, many_rows
from executions.models import Execution
from jobs.misfires import passed_fires
from jobs.models import OPEN_STATES, Change, Job, JobQuerySet, Schedule, ScheduleQuerySet
from jobs.new_jobs import version_of
from jobs.refusals import JobIsOver, StaleVersion


@dataclass
class Held:
    """A job and its schedule as they are, held until the transaction ends. Planners pass by a held schedule."""

    job: Job
    schedule: Schedule | None

    @property
    def is_unreadable(self) -> bool:
        """It can be archived or replaced, and no more."""
        return self.schedule is not None and not self.schedule.is_readable

    def check(self, version: int | None = None) -> None:
        """Whether it may be changed, by whoever read this version of it."""
        if self.job.state not in OPEN_STATES:
            raise JobIsOver("key", self.job.key, f"{self.job.state} and can no longer be changed")
        if version is not None and self.job.version != version:
            raise StaleVersion(key=self.job.key, read=version, current=self.job.version)


def hold(pks: Collection[int]) -> list[Held]:
    """In the order of their ids."""
    return _together(Job.objects.select_for_update(), Schedule.objects.select_for_update(), pks)


def look_at(pks: Collection[int]) -> list[Held]:
    """The same for whoever only wants to know what a change would do: nobody waits for it."""
    return _together(Job.objects.all(), Schedule.objects.all(), pks)


def _together(jobs: JobQuerySet, schedules: ScheduleQuerySet, pks: Collection[int]) -> list[Held]:
    found = list(jobs.filter(pk__in=pks).order_by("pk"))
    of_job = {schedule.job_id: schedule for schedule in schedules.filter(job_id__in=pks).order_by("pk")}
    for job in found:
        if job.pk in of_job:
            of_job[job.pk].job = job
    return [Held(job, of_job.get(job.pk)) for job in found]


class Edits:
    """Changes to held jobs, gathered and then stored together."""

    def __init__(self, *, by: str, through: str, now: datetime) -> None:
        self._signature: dict[str, Any] = {"by": by, "through": through, "now": now}
        self._now = now
        self._skipped: list[Execution] = []
        self._schedules: list[Schedule] = []
        self._new_schedules: list[Schedule] = []
        self._gone_schedules: list[int] = []
        self._jobs: list[Job] = []
        self._columns: set[str] = {"version", "changed_at"}
        self._told: list[tuple[Held, Change, str]] = []

    def take_back(self, held: Sequence[Held], *, reason: str) -> None:
        """Un-plan, and let each schedule stand again before what was taken back."""
        scheduled = {one.job.pk: one.schedule for one in held if one.schedule is not None}
        unplanned = lifecycle.unplan_all(scheduled, reason=reason, now=self._now)
        for pk, answer in unplanned.items():
            schedule = scheduled[pk]
            if answer.removed:
                schedule.next_fire_at = min(filter(None, [answer.removed[0], schedule.next_fire_at]))
            given_back = len(answer.removed) + answer.skipped
            if schedule.fires_left is not None and given_back:
                schedule.fires_left += given_back
                if schedule.next_fire_at is None and schedule.is_readable:
                    schedule.next_fire_at = schedule.recurrence.next_after(self._now)

    def settle_passed(self, held: Held, *, reason: str, until: datetime | None = None) -> None:
        """Fires up to now that nobody planned will not run: one row says so, and the schedule goes on from there."""
        schedule, until = held.schedule, until or self._now
        if schedule is None or schedule.next_fire_at is None or schedule.next_fire_at > until:
            return
        if held.is_unreadable:
            row = held.job.new_skipped_row(schedule.next_fire_at, until, None, reason=reason, now=self._now)
            following = None
        else:
            stretch = passed_fires(schedule.recurrence, due_at=schedule.next_fire_at, until=until)
            assert stretch is not None
            row = held.job.new_skipped_row(stretch.first, stretch.last, stretch.count, reason=reason, now=self._now)
            following = schedule.recurrence.next_after(until)
        self._skipped.append(row)
        schedule.next_fire_at = following

    def advance(self, schedule: Schedule | None) -> None:
        """Store a schedule under a new version: a planner that read the old one finds out."""
        if schedule is not None:
            schedule.version += 1
            self._schedules.append(schedule)

    def give_schedule(self, held: Held, schedule: Schedule) -> None:
        held.schedule = schedule
        self._new_schedules.append(schedule)

    def take_schedule(self, held: Held) -> None:
        if held.schedule is not None:
            self._gone_schedules.append(held.job.pk)
            held.schedule = None

    def save(self, held: Held, change: Change, *, note: str = "", **columns: Any) -> None:
        """The job under a new version, which its history keeps."""
        for name, value in columns.items():
            setattr(held.job, name, value)
        held.job.version += 1
        held.job.changed_at = self._now
        self._columns |= set(columns)
        self._jobs.append(held.job)
        self._told.append((held, change, note))

    def store(self) -> None:
        lifecycle.record_skipped(self._skipped, now=self._now)
        if self._gone_schedules:
            Schedule.objects.filter(pk__in=self._gone_schedules).delete()
        many_rows.insert(self._new_schedules)
        many_rows.store_again(self._schedules, {field.name for field in Schedule._meta.concrete_fields} - {"job"})
        many_rows.store_again(self._jobs, self._columns)
        versions = [
            version_of(held.job, held.schedule, change, **self._signature, note=note)
            for held, change, note in self._told
        ]
        many_rows.insert(versions)
