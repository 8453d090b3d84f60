"""Run fires of the past: those that have no row, and those that were skipped.

Owns backfills. Invariants: no fire gets a second row; what a preview says is what would be done, since one function
decides both; a fire that ran, runs, waits, was cancelled or gave up is left alone (replay is for that). The rate is in
the rows: the n-th fire is published no earlier than its `available_at`, by the beats, like everything else.

Apps may call these within `transaction.atomic()`. `now` is for tests; left out, it is the database's time.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice

from django.db import transaction

from executions import events, lifecycle
from executions.clock import database_now
from executions.models import REASON_CHARACTERS, Execution
from executions.states import FIRE_TRIGGERS, State, Trigger
from executions.storable import storable_text
from jobs import definitions, dst
from jobs.finding import find
from jobs.misfires import Skipped
from jobs.models import OPEN_STATES, Job, Kind, Schedule
from jobs.recurrence import Cron, Every, Once, Recurrence, Within
from jobs.refusals import InvalidRun, JobIsOver, check_text, shown
from jobs.stretches import take_out
from jobs.wording import in_words

MOST_FIRES = 10_000
DEFAULT_PER_MINUTE = 60
MOST_PER_MINUTE = 6000
_NAME_CHARACTERS = 80  # of whoever asks: the reason has to hold more than a name
_INSTANT = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)


class Becomes(StrEnum):
    """What a backfill makes of a fire."""

    NEW = "new"  # it had no row
    REVIVED = "revived"  # it was skipped, alone or within a stretch
    KEPT = "kept"  # its row stays as it is


@dataclass(frozen=True)
class PastFire:
    fire_time: datetime
    becomes: Becomes
    available_at: datetime | None  # when it is published; None: it is kept


@dataclass(frozen=True)
class Preview:
    """The fires of a range, the oldest first, and what becomes of each."""

    key: str
    timezone: str
    start: datetime
    end: datetime
    per_minute: int
    fires: tuple[PastFire, ...]
    left_from: datetime | None  # the first fire of the range that is left to the beats, since its time is yet to come

    @property
    def counts(self) -> Counter[Becomes]:
        return Counter(fire.becomes for fire in self.fires)

    @property
    def new(self) -> int:
        return self.counts[Becomes.NEW]

    @property
    def revived(self) -> int:
        return self.counts[Becomes.REVIVED]

    @property
    def kept(self) -> int:
        return self.counts[Becomes.KEPT]

    @property
    def to_run(self) -> int:
        return len(self.fires) - self.kept

    @property
    def first(self) -> datetime:
        return self.fires[0].fire_time

    @property
    def last(self) -> datetime:
        return self.fires[-1].fire_time

    @property
    def ends_at(self) -> datetime | None:
        """When the last one is published; None: none is."""
        return max((fire.available_at for fire in self.fires if fire.available_at is not None), default=None)


def preview(
    job: Job | str,
    *,
    start: datetime,
    end: datetime,
    per_minute: int = DEFAULT_PER_MINUTE,
    now: datetime | None = None,
) -> Preview:
    """What a backfill of the fires from start to end, both included, would do."""
    asked = _Asked.checked(start, end, per_minute)
    job = find(job)
    schedule = Schedule.objects.filter(job_id=job.pk).first()
    return _plan(job, schedule, asked, now=now or database_now()).preview


def backfill(
    job: Job | str,
    *,
    start: datetime,
    end: datetime,
    per_minute: int = DEFAULT_PER_MINUTE,
    by: str = "",
    through: str = "python",
    now: datetime | None = None,
) -> Preview:
    """Run the fires from start to end, both included, so many a minute. The answer is the preview of what was done."""
    asked = _Asked.checked(start, end, per_minute)
    check_text(InvalidRun, by=by, through=through)
    with transaction.atomic():
        # Held until the transaction ends: of two backfills the second sees what the first did, and planners pass by.
        job = Job.objects.select_for_update().get(pk=find(job).pk)
        schedule = Schedule.objects.select_for_update().filter(job_id=job.pk).first()
        now = now or database_now()
        plan = _plan(job, schedule, asked, now=now)
        plan.carry_out(by=by[:_NAME_CHARACTERS], now=now)
        transaction.on_commit(lambda: _tell(plan.preview, by=by, through=through))
    return plan.preview


# ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Asked:
    start: datetime
    end: datetime
    per_minute: int

    @classmethod
    def checked(cls, start: datetime, end: datetime, per_minute: int) -> "_Asked":
        start, end = _checked_moment("start", start), _checked_moment("end", end)
        if start > end:
            raise InvalidRun("start", f"The start {_said(start)} comes after the end {_said(end)}; exchange them.")
        if type(per_minute) is not int or not 1 <= per_minute <= MOST_PER_MINUTE:
            raise InvalidRun(
                "per_minute", f"per_minute must be a whole number from 1 to {MOST_PER_MINUTE}, not {shown(per_minute)}."
            )
        return cls(start, end, per_minute)


def _checked_moment(field: str, moment: datetime) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidRun(field, f"The {field} {shown(moment)} must be a datetime with a time zone, such as +00:00.")
    # The year first: near the ends of the calendar there may be no such moment in UTC.
    if 1970 <= moment.year <= dst.LAST_YEAR and (in_utc := moment.astimezone(UTC)).year >= 1970:
        return in_utc
    raise InvalidRun(field, f"The {field} {moment.isoformat()} must lie between the years 1970 and {dst.LAST_YEAR}.")


@dataclass(frozen=True)
class _Plan:
    """What there is, and what is made of it."""

    schedule: Schedule
    preview: Preview
    rows: dict[datetime, Execution]  # the rows that fires of the range have
    stretches: dict[datetime, Execution]  # the stretches that fires of the range are in
    splits: list[lifecycle.Split]

    def carry_out(self, *, by: str, now: datetime) -> None:
        self._take_from_pause(now=now)
        lifecycle.split(self.splits)
        provenance = f"backfill by {by}" if by else "backfill"
        new: list[Execution] = []
        revived: list[Execution] = []
        for fire in self.preview.fires:
            if fire.available_at is None:
                continue
            execution = self.schedule.job.new_execution(fire.fire_time, trigger=Trigger.BACKFILL, now=now)
            execution.available_at, execution.request_id = fire.available_at, events.request_id()
            row = self.rows.get(fire.fire_time)
            skipped = row or self.stretches.get(fire.fire_time)
            before = f"; before: {skipped.reason}" if skipped is not None else ""
            execution.reason = storable_text(provenance + before, REASON_CHARACTERS)
            if row is not None:
                execution.pk = row.pk
            (new if row is None else revived).append(execution)
        lifecycle.revive(revived)
        lifecycle.plan(new)

    def _take_from_pause(self, *, now: datetime) -> None:
        """Fires of a pause are told in one row when it ends: not those that run after all."""
        due_at = self.schedule.next_fire_at
        passed = [fire.fire_time for fire in self.preview.fires if due_at is not None and fire.fire_time >= due_at]
        if passed:
            definitions.give_to_backfill(self.schedule, first=passed[0], last=passed[-1], now=now)


def _plan(job: Job, schedule: Schedule | None, asked: _Asked, *, now: datetime) -> _Plan:
    """Decide. Reads only, and a fire at a time only up to the most that one backfill takes."""
    if job.state not in OPEN_STATES:
        raise JobIsOver("job", job.key, f"{job.state} and runs no more")
    if schedule is None:
        raise InvalidRun("job", f"The job {job.key!r} has no schedule and so no fires; ask for runs of it instead.")
    if asked.start > now:
        raise InvalidRun("start", f"The start {_said(asked.start)} is not past; what is to come fires by itself.")
    schedule.job = job
    recurrence = _readable(schedule)
    until = min(asked.end, _last_moment(schedule, now=now))
    fires = _fires(recurrence, asked, until=until)
    rows = _rows_of(job, fires)
    stretches = _stretches_over(job, fires)
    splits, stretch_of = [], {}
    for stretch in stretches:
        assert stretch.skipped_until is not None
        taken = fires[bisect_left(fires, stretch.fire_time) : bisect_right(fires, stretch.skipped_until)]
        if taken:
            splits.append(_split(stretch, taken, recurrence))
            stretch_of.update(dict.fromkeys(taken, stretch))
    following = recurrence.next_after(until)
    preview = Preview(
        key=job.key,
        timezone=schedule.timezone if schedule.kind == Kind.CRON else "UTC",
        start=asked.start,
        end=asked.end,
        per_minute=asked.per_minute,
        fires=tuple(_decided(fires, rows, stretch_of, asked.per_minute, now=now)),
        left_from=following if following is not None and following <= asked.end else None,
    )
    return _Plan(schedule, preview, rows, stretch_of, splits)


def _decided(
    fires: list[datetime],
    rows: dict[datetime, Execution],
    stretches: dict[datetime, Execution],
    per_minute: int,
    *,
    now: datetime,
) -> Iterator[PastFire]:
    place = 0
    for fire in fires:
        row = rows.get(fire)
        if row is not None and row.state != State.SKIPPED:
            yield PastFire(fire, Becomes.KEPT, None)
            continue
        is_skipped = row is not None or fire in stretches
        yield PastFire(fire, Becomes.REVIVED if is_skipped else Becomes.NEW, now + _MINUTE * place / per_minute)
        place += 1


def _readable(schedule: Schedule) -> Cron | Every | Once | Within:
    try:
        return schedule.recurrence
    except Exception:  # whatever stands in the row
        raise InvalidRun(
            "schedule",
            f"The schedule {str(schedule)!r} of {schedule.job.key!r} cannot be read; give the job another one.",
        ) from None


def _last_moment(schedule: Schedule, *, now: datetime) -> datetime:
    """Up to when fires are not the beats' to plan."""
    due_at, paused_until = schedule.next_fire_at, schedule.job.paused_until
    if due_at is None:
        return now
    if not schedule.is_active:
        # A pause that was set to end has ended then, also if nobody came to say so.
        until = now if paused_until is None else paused_until - _INSTANT
        return min(now, max(until, due_at - _INSTANT))
    return min(now, due_at - _INSTANT)


def _fires(recurrence: Cron | Every | Once | Within, asked: _Asked, *, until: datetime) -> list[datetime]:
    fires = list(islice(_walk(recurrence, asked.start, until), MOST_FIRES + 1))
    if not fires:
        coming = recurrence.next_after(asked.start - _INSTANT)
        if coming is not None and coming <= asked.end:
            raise InvalidRun(
                "start", f"The fires from {_said(coming)} on are still the beats' to plan; choose an earlier start."
            )
        raise InvalidRun(
            "start",
            f"The schedule ({in_words(recurrence)}) has no fire from {_said(asked.start)} to {_said(asked.end)}; "
            "choose another range.",
        )
    if len(fires) > MOST_FIRES:
        raise InvalidRun(
            "end",
            f"There are more than {MOST_FIRES} fires from {_said(asked.start)} to {_said(asked.end)}; backfill them in "
            f"parts, the first up to {_said(fires[MOST_FIRES - 1])}.",
        )
    return fires


def _walk(recurrence: Recurrence, start: datetime, until: datetime) -> Iterator[datetime]:
    fire = recurrence.next_after(start - _INSTANT)
    while fire is not None and fire <= until:
        yield fire
        fire = recurrence.next_after(fire)


def _rows_of(job: Job, fires: list[datetime]) -> dict[datetime, Execution]:
    rows = Execution.objects.filter(job_id=job.pk, trigger__in=FIRE_TRIGGERS, fire_time__in=fires)
    return {row.fire_time: row for row in rows.only("fire_time", "state", "reason")}


def _stretches_over(job: Job, fires: list[datetime]) -> list[Execution]:
    """Also those that begin before the fires or end after them."""
    skipped = Execution.objects.filter(job_id=job.pk, trigger__in=FIRE_TRIGGERS, state=State.SKIPPED)
    return list(skipped.filter(fire_time__lte=fires[-1], skipped_until__gte=fires[0]).order_by("fire_time"))


def _split(stretch: Execution, taken: list[datetime], recurrence: Recurrence) -> lifecycle.Split:
    assert stretch.skipped_until is not None
    left = take_out(taken, Skipped(stretch.fire_time, stretch.skipped_until, stretch.skipped_count), recurrence)
    after = left.after
    return lifecycle.Split(
        stretch,
        last=left.before.last if left.before else stretch.fire_time,
        count=left.before.count if left.before else 1,
        rest=(after.first, after.last, after.count) if after else None,
    )


def _tell(preview: Preview, *, by: str, through: str) -> None:
    events.emit(
        "backfill planned",
        job=preview.key,
        first=preview.first.isoformat(),
        last=preview.last.isoformat(),
        new=preview.new,
        revived=preview.revived,
        kept=preview.kept,
        per_minute=preview.per_minute,
        by=by,
        through=through,
    )


def _said(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds" if not moment.microsecond else "auto")
