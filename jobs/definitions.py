"""Create, change, pause, resume, complete and archive jobs.

Owns every change of a definition. Invariants: a definition that cannot work is refused and nothing of it is saved; an
edit names the version it began from, and a stale one is refused, never lost; every change leaves a version with who,
when and through what; no change fires the past. What was planned and not begun is taken back (`lifecycle.unplan`), and
fires that pass without a run leave a row that says why.

Apps may call these within `transaction.atomic()`: they commit with the app's own data or not at all. `now` is for
tests; left out, it is the database's time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef

from executions import events
from executions.clock import database_now
from executions.models import REASON_CHARACTERS, Execution
from executions.storable import in_a_line, storable_text
from jobs import new_jobs, targets
from jobs.edits import Edits, Held, hold
from jobs.finding import find
from jobs.models import Change, Job, JobState, JobVersion, Schedule
from jobs.new_jobs import version_of
from jobs.refusals import InvalidDefinition, check_text, shown
from jobs.specification import Specification, check_moment, policies_of

_INSTANT = timedelta(microseconds=1)


def create(
    *,
    key: str,
    task: str = "",
    task_lives_elsewhere: bool = False,
    by: str = "",
    through: str = "python",
    now: datetime | None = None,
    **fields: Any,
) -> Job:
    """Store a job and, if it has one, its schedule: both or neither. `fields` are those of a Specification."""
    check_text(InvalidDefinition, by=by, through=through)
    now = now or database_now()
    said = new_jobs.checked(key, task, fields)
    targets.check(said.task, said.http, lives_elsewhere=task_lives_elsewhere)
    first_fire = new_jobs.first_fire_of(said.schedule, now)
    return new_jobs.store([(said, first_fire)], by=by, through=through, now=now)[0]


def change(
    job: Job | str,
    *,
    version: int,
    task_lives_elsewhere: bool = False,
    by: str = "",
    through: str = "python",
    now: datetime | None = None,
    **fields: Any,
) -> Job:
    """Give fields other values, starting from the version that was read. Coming fires run as the job says now."""
    if type(version) is not int:
        raise InvalidDefinition("version", f"version must be a whole number, not {shown(version)}.")
    check_text(InvalidDefinition, by=by, through=through)
    now = now or database_now()
    with transaction.atomic():
        held = _hold(job, version)
        changing = to_change(held, fields, task_lives_elsewhere=task_lives_elsewhere, now=now)
        change_all([changing], by=by, through=through, now=now)
    return held.job


@dataclass(frozen=True)
class Changing:
    """A held job that shall say something else: checked, and not stored yet."""

    held: Held
    before: Specification
    after: Specification
    first_fire: datetime | None  # of another schedule than before

    @property
    def is_same(self) -> bool:
        return self.after.is_same_as(self.before)

    @property
    def is_rescheduled(self) -> bool:
        return (self.after.schedule, self.after.max_fires) != (self.before.schedule, self.before.max_fires)


def to_change(held: Held, fields: Mapping[str, Any], *, task_lives_elsewhere: bool, now: datetime) -> Changing:
    """What a held job would become; refused if it cannot be."""
    before = _said_so_far(held, is_schedule_replaced="schedule" in fields)
    after = _changed(held.job, before, fields, task_lives_elsewhere=task_lives_elsewhere)
    changing = Changing(held, before, after, None)
    first_fire = new_jobs.first_fire_of(after.schedule, now) if changing.is_rescheduled else None
    return replace(changing, first_fire=first_fire)


def change_all(changes: Sequence[Changing], *, by: str, through: str, now: datetime) -> None:
    """Store what was checked, many in as many statements as one."""
    changes = [each for each in changes if not each.is_same]
    edits = Edits(by=by, through=through, now=now)
    touching = [each for each in changes if not each.after.differs_in_labels_only(each.before)]
    edits.take_back([each.held for each in touching], reason="the job was changed before this was published")
    for each in touching:
        edits.settle_passed(each.held, reason=_why_not_planned(each.held.job, "changed"))
        _reschedule(edits, each)
    for each in changes:
        edits.save(each.held, Change.CHANGED, **each.after.job_columns())
    edits.store()


def pause(
    job: Job | str,
    *,
    reason: str,
    until: datetime | None = None,
    version: int | None = None,
    by: str = "",
    through: str = "python",
    now: datetime | None = None,
) -> Job:
    """Fire no more until resumed, or until a moment. Runs that were asked for, retries and waiting rows still run.

    This and the verbs below may name the version they begin from; an edit that came between is then not passed over.
    """
    check_text(InvalidDefinition, reason=reason, by=by, through=through)
    now = now or database_now()
    check_moment("until", until, now=now)
    with transaction.atomic():
        held = _hold(job, version)
        pause_all([held], reason=reason, until=until, by=by, through=through, now=now)
    return held.job


def pause_all(
    held: Sequence[Held], *, reason: str, until: datetime | None = None, by: str, through: str, now: datetime
) -> None:
    """Many jobs that are held, in as many statements as one."""
    check_moment("until", until, now=now)
    reason, by = (storable_text(text, REASON_CHARACTERS) for text in (reason, by))
    edits = Edits(by=by, through=through, now=now)
    firing = [one for one in held if one.schedule is not None and one.schedule.is_active]
    edits.take_back(firing, reason=_paused(reason))
    for one in firing:
        assert one.schedule is not None
        edits.settle_passed(one, reason=_why_not_planned(one.job, "paused"))
        one.schedule.is_active = False
        edits.advance(one.schedule)
    columns: dict[str, Any] = {
        "state": JobState.PAUSED,
        "paused_reason": reason,
        "paused_by": by,
        "paused_until": until,
    }
    for one in held:
        edits.save(one, Change.PAUSED, note=reason, **columns)
    edits.store()


def resume(
    job: Job | str,
    *,
    version: int | None = None,
    by: str = "",
    through: str = "python",
    now: datetime | None = None,
) -> Job:
    """Fire again. The fires of the pause become one row that says so; none of them runs.

    A pause that was set to end has ended then, also if nobody came to say so: fires since are late, not paused.
    """
    check_text(InvalidDefinition, by=by, through=through)
    now = now or database_now()
    with transaction.atomic():
        held = _hold(job, version)
        resume_all([held], by=by, through=through, now=now)
    return held.job


def resume_all(held: Sequence[Held], *, by: str, through: str, now: datetime) -> None:
    """Those of many held jobs that are paused, in as many statements as one."""
    edits = Edits(by=by, through=through, now=now)
    for one in held:
        if one.job.state != JobState.PAUSED:
            continue
        if one.schedule is not None:
            if one.is_unreadable:
                raise InvalidDefinition(
                    "schedule",
                    f"The schedule {str(one.schedule)!r} of {one.job.key!r} cannot be read; give the job another one.",
                )
            until = min(now, one.job.paused_until - _INSTANT) if one.job.paused_until is not None else now
            edits.settle_passed(one, until=until, reason=_why_not_planned(one.job, "resumed"))
            one.schedule.is_active = True
            edits.advance(one.schedule)
        edits.save(one, Change.RESUMED, state=JobState.ACTIVE, paused_reason="", paused_by="", paused_until=None)
    edits.store()


def archive(
    job: Job | str,
    *,
    reason: str = "",
    version: int | None = None,
    by: str = "",
    through: str = "python",
    now: datetime | None = None,
) -> Job:
    """End a job for good and free its key. Its history stays; runs that were asked for still run."""
    check_text(InvalidDefinition, reason=reason, by=by, through=through)
    now = now or database_now()
    with transaction.atomic():
        held = _hold(job, version)
        archive_all([held], reason=reason, by=by, through=through, now=now)
    return held.job


def archive_all(held: Sequence[Held], *, reason: str = "", by: str, through: str, now: datetime) -> None:
    """Many jobs that are held, in as many statements as one."""
    edits = Edits(by=by, through=through, now=now)
    edits.take_back(held, reason="the job was archived before this was published")
    for one in held:
        if one.schedule is not None:
            edits.settle_passed(one, reason=_why_not_planned(one.job, "archived"))
            one.schedule.is_active, one.schedule.next_fire_at = False, None
            edits.advance(one.schedule)
        edits.save(one, Change.ARCHIVED, note=reason, state=JobState.ARCHIVED, paused_until=None)
    edits.store()


def resume_due(now: datetime, *, limit: int = 100) -> int:
    """Resume jobs whose pause was set to end by now."""
    due = list(Job.objects.pause_over(now).order_by("paused_until").values_list("pk", flat=True)[:limit])
    return sum(_resume_if_due(pk, now=now) for pk in due)


def _resume_if_due(pk: int, *, now: datetime) -> bool:
    """One of them, as it is by now: somebody may have ended or prolonged the pause meanwhile."""
    with transaction.atomic():
        job = Job.objects.pause_over(now).select_for_update(skip_locked=True).filter(pk=pk).first()
        if job is None:
            return False
        try:
            resume(job, through="beat", now=now)
        except InvalidDefinition as error:
            # Broken behind our back (by SQL, by a zone that is gone): it stays paused, and stops nobody else.
            events.warn("a pause cannot end: the schedule cannot be read", job=job.key, error=in_a_line(error))
            Job.objects.filter(pk=pk).update(paused_until=None)
            return False
    return True


def complete_ended(now: datetime, *, limit: int = 1000) -> int:
    """Complete jobs whose schedule has no fire left and whose executions are all over: their keys are free again."""
    still_open = Exists(Execution.objects.open().filter(job_id=OuterRef("pk")))
    with transaction.atomic():
        ended = list(
            Job.objects.out_of_fires()
            .exclude(still_open)
            .select_related("schedule")
            .select_for_update(skip_locked=True, of=("self", "schedule"))[:limit]
        )
        for job in ended:
            job.state, job.changed_at, job.version = JobState.COMPLETED, now, job.version + 1
        Job.objects.bulk_update(ended, ["state", "changed_at", "version"])
        Schedule.objects.filter(job__in=ended).update(is_active=False, version=F("version") + 1)
        JobVersion.objects.bulk_create(
            version_of(job, job.schedule, Change.COMPLETED, by="", through="beat", now=now) for job in ended
        )
    return len(ended)


def give_to_backfill(schedule: Schedule, *, first: datetime, last: datetime, now: datetime) -> None:
    """Fires that passed while the schedule was inactive run after all, from the first to the last of these.

    Those before them get the row that they would have got when the pause ends; those after them still get it then.
    """
    edits = Edits(by="", through="", now=now)
    reason = _why_not_planned(schedule.job, "backfilled")
    edits.settle_passed(Held(schedule.job, schedule), until=first - _INSTANT, reason=reason)
    schedule.next_fire_at = schedule.recurrence.next_after(last)
    edits.advance(schedule)
    edits.store()


# ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _hold(job: Job | str, version: int | None) -> Held:
    held = hold([find(job).pk])[0]
    held.check(version)
    return held


def _said_so_far(held: Held, *, is_schedule_replaced: bool) -> Specification:
    if held.schedule is None or not is_schedule_replaced or not held.is_unreadable:
        return Specification.of(held.job, held.schedule)
    return replace(Specification.of(held.job, None), **policies_of(held.schedule))


def _changed(
    job: Job, before: Specification, fields: Mapping[str, Any], *, task_lives_elsewhere: bool
) -> Specification:
    after = before.changed(fields)
    if after.key != job.key:
        raise InvalidDefinition(
            "key", f"The key of {job.key!r} names the job and cannot be changed; create another job."
        )
    after.check()
    after = after.normalised()
    if (after.task, after.http) != (before.task, before.http):
        targets.check(after.task, after.http, lives_elsewhere=task_lives_elsewhere)
    return after


def _paused(reason: str) -> str:
    return f"paused: {reason}"[:REASON_CHARACTERS] if reason else "paused"


def _why_not_planned(job: Job, done: str) -> str:
    if job.state == JobState.PAUSED:
        return _paused(job.paused_reason)
    return f"misfire: no beat could plan these in time, and then the job was {done}"


def _reschedule(edits: Edits, change: Changing) -> None:
    held, after = change.held, change.after
    if after.schedule is None:
        edits.take_schedule(held)
        return
    if held.schedule is None:
        schedule = new_jobs.new_schedule(held.job, after, change.first_fire, follows_another=True)
        assert schedule is not None
        edits.give_schedule(held, schedule)
        return
    for name, value in after.schedule_columns().items():
        setattr(held.schedule, name, value)
    if change.is_rescheduled:
        held.schedule.next_fire_at, held.schedule.fires_left = change.first_fire, after.max_fires
    edits.advance(held.schedule)
