"""Create, change, pause, resume, complete and archive jobs.

Owns every change of a definition. Invariants: a definition that cannot work is refused and nothing of it is saved; an
edit names the version it began from, and a stale one is refused, never lost; every change leaves a version with who,
when and through what; no change fires the past. What was planned and not begun is taken back (`lifecycle.unplan`), and
fires that pass without a run leave a row that says why.

Apps may call these within `transaction.atomic()`: they commit with the app's own data or not at all. `now` is for
tests; left out, it is the database's time.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef

from executions import events, lifecycle
from executions.clock import database_now
from executions.models import REASON_CHARACTERS, Execution
from executions.storable import in_a_line, storable_text
from jobs import new_jobs, targets
from jobs.finding import find
from jobs.misfires import passed_fires
from jobs.models import OPEN_STATES, Change, Job, JobState, JobVersion, Schedule
from jobs.new_jobs import version_of
from jobs.refusals import InvalidDefinition, JobIsOver, StaleVersion, check_text, shown
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
        job, schedule = _hold(job, version)
        before = _said_so_far(job, schedule, is_schedule_replaced="schedule" in fields)
        after = _changed(job, before, fields, task_lives_elsewhere=task_lives_elsewhere)
        if after.is_same_as(before):
            return job
        if not after.differs_in_labels_only(before):
            if schedule is not None:
                _take_back(job, schedule, now=now, reason="the job was changed before this was published")
                _settle_passed(job, schedule, now=now, reason=_why_not_planned(job, "changed"))
            schedule = _reschedule(job, schedule, before, after, now=now)
        _save(job, now=now, **after.job_columns())
        _keep_version(job, schedule, Change.CHANGED, by=by, through=through, now=now)
    return job


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
    reason, by = (storable_text(text, REASON_CHARACTERS) for text in (reason, by))
    with transaction.atomic():
        job, schedule = _hold(job, version)
        if schedule is not None and schedule.is_active:
            _take_back(job, schedule, now=now, reason=_paused(reason))
            _settle_passed(job, schedule, now=now, reason=_why_not_planned(job, "paused"))
            schedule.is_active = False
            _advance(schedule)
        _save(job, now=now, state=JobState.PAUSED, paused_reason=reason, paused_by=by, paused_until=until)
        _keep_version(job, schedule, Change.PAUSED, by=by, through=through, now=now, note=reason)
    return job


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
        job, schedule = _hold(job, version)
        if job.state != JobState.PAUSED:
            return job
        if schedule is not None:
            if _is_unreadable(schedule):
                raise InvalidDefinition(
                    "schedule",
                    f"The schedule {str(schedule)!r} of {job.key!r} cannot be read; give the job another one.",
                )
            until = min(now, job.paused_until - _INSTANT) if job.paused_until is not None else now
            _settle_passed(job, schedule, until=until, now=now, reason=_why_not_planned(job, "resumed"))
            schedule.is_active = True
            _advance(schedule)
        _save(job, now=now, state=JobState.ACTIVE, paused_reason="", paused_by="", paused_until=None)
        _keep_version(job, schedule, Change.RESUMED, by=by, through=through, now=now)
    return job


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
        job, schedule = _hold(job, version)
        if schedule is not None:
            _take_back(job, schedule, now=now, reason="the job was archived before this was published")
            _settle_passed(job, schedule, now=now, reason=_why_not_planned(job, "archived"))
            schedule.is_active, schedule.next_fire_at = False, None
            _advance(schedule)
        _save(job, now=now, state=JobState.ARCHIVED, paused_until=None)
        _keep_version(job, schedule, Change.ARCHIVED, by=by, through=through, now=now, note=reason)
    return job


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
    reason = _why_not_planned(schedule.job, "backfilled")
    _settle_passed(schedule.job, schedule, until=first - _INSTANT, now=now, reason=reason)
    schedule.next_fire_at = schedule.recurrence.next_after(last)
    _advance(schedule)


# ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _hold(job: Job | str, version: int | None) -> tuple[Job, Schedule | None]:
    """The job and its schedule as they are, held until the transaction ends. Planners pass by a held schedule."""
    found = Job.objects.select_for_update().get(pk=find(job).pk)
    if found.state not in OPEN_STATES:
        raise JobIsOver("key", found.key, f"{found.state} and can no longer be changed")
    if version is not None and found.version != version:
        raise StaleVersion(key=found.key, read=version, current=found.version)
    schedule = Schedule.objects.select_for_update().filter(job_id=found.pk).first()
    if schedule is not None:
        schedule.job = found
    return found, schedule


def _said_so_far(job: Job, schedule: Schedule | None, *, is_schedule_replaced: bool) -> Specification:
    if schedule is None or not is_schedule_replaced or not _is_unreadable(schedule):
        return Specification.of(job, schedule)
    return replace(Specification.of(job, None), **policies_of(schedule))


def _changed(job: Job, before: Specification, fields: dict[str, Any], *, task_lives_elsewhere: bool) -> Specification:
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


def _take_back(job: Job, schedule: Schedule, *, now: datetime, reason: str) -> None:
    """Un-plan, and let the schedule stand again before what was taken back."""
    unplanned = lifecycle.unplan(job.pk, reason=reason, now=now)
    if unplanned.removed:
        schedule.next_fire_at = min(filter(None, [unplanned.removed[0], schedule.next_fire_at]))
    given_back = len(unplanned.removed) + unplanned.skipped
    if schedule.fires_left is not None and given_back:
        schedule.fires_left += given_back
        if schedule.next_fire_at is None and not _is_unreadable(schedule):
            schedule.next_fire_at = schedule.recurrence.next_after(now)


def _settle_passed(job: Job, schedule: Schedule, *, now: datetime, reason: str, until: datetime | None = None) -> None:
    """Fires up to now that nobody planned will not run: one row says so, and the schedule goes on from there."""
    until = until or now
    if schedule.next_fire_at is None or schedule.next_fire_at > until:
        return
    if _is_unreadable(schedule):
        row, following = job.new_skipped_row(schedule.next_fire_at, until, None, reason=reason, now=now), None
    else:
        stretch = passed_fires(schedule.recurrence, due_at=schedule.next_fire_at, until=until)
        assert stretch is not None
        row = job.new_skipped_row(stretch.first, stretch.last, stretch.count, reason=reason, now=now)
        following = schedule.recurrence.next_after(until)
    lifecycle.record_skipped([row], now=now)
    schedule.next_fire_at = following


def _is_unreadable(schedule: Schedule | None) -> bool:
    """It can be archived or replaced, and no more."""
    return schedule is not None and not schedule.is_readable


def _paused(reason: str) -> str:
    return f"paused: {reason}"[:REASON_CHARACTERS] if reason else "paused"


def _why_not_planned(job: Job, done: str) -> str:
    if job.state == JobState.PAUSED:
        return _paused(job.paused_reason)
    return f"misfire: no beat could plan these in time, and then the job was {done}"


def _reschedule(
    job: Job, schedule: Schedule | None, before: Specification, after: Specification, *, now: datetime
) -> Schedule | None:
    if after.schedule is None:
        if schedule is not None:
            schedule.delete()
        return None
    is_new = (after.schedule, after.max_fires) != (before.schedule, before.max_fires)
    first_fire = new_jobs.first_fire_of(after.schedule, now) if is_new else None
    if schedule is None:
        schedule = new_jobs.new_schedule(job, after, first_fire, follows_another=True)
        assert schedule is not None
        schedule.save(force_insert=True)
        return schedule
    for name, value in after.schedule_columns().items():
        setattr(schedule, name, value)
    if is_new:
        schedule.next_fire_at, schedule.fires_left = first_fire, after.max_fires
    _advance(schedule)
    return schedule


def _advance(schedule: Schedule) -> None:
    """Store a schedule under a new version: a planner that read the old one finds out."""
    schedule.version += 1
    schedule.save()


def _save(job: Job, *, now: datetime, **columns: Any) -> None:
    for name, value in columns.items():
        setattr(job, name, value)
    job.version += 1
    job.changed_at = now
    job.save(update_fields=[*columns, "version", "changed_at"])


def _keep_version(
    job: Job, schedule: Schedule | None, change: Change, *, by: str, through: str, now: datetime, note: str = ""
) -> None:
    version_of(job, schedule, change, by=by, through=through, now=now, note=note).save(force_insert=True)
