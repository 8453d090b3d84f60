"""Why a fire has no row: what its job was like then, and where its schedule stands now.

Owns the reasons. Invariant: a fire without a row is called MISSING only if nothing else explains it: its job was there,
active and not over, its schedule named it and has gone past it, and rows of that time are still kept.
"""

from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice, pairwise

from django.conf import settings

from executions.models import Execution
from executions.states import Trigger
from executions.words import duration
from jobs.eras import MOST_VERSIONS, Era, Turn, says_the_same
from jobs.explained_rows import clock
from jobs.misfires import Misfire
from jobs.models import OPEN_STATES, Job, JobState, Kind, Schedule
from jobs.upcoming import between, is_fire
from jobs.verdicts import Around, Explained, Verdict

_INSTANT = timedelta(microseconds=1)
_MOST_COUNTED_DOWN = 5000


class Standing:
    """A job with its past, at one moment."""

    def __init__(self, job: Job, schedule: Schedule | None, eras: list[Era], *, now: datetime, around: Around) -> None:
        self.job, self.schedule, self.eras, self.now, self.around = job, schedule, eras, now, around
        self._last_planned: dict[int, datetime | None] = {}

    def era_at(self, moment: datetime) -> Era:
        return next(era for era in self.eras if era.holds(moment))

    # ── A fire without a row ─────────────────────────────────────────────────────────────────────────────────────

    def verdict(self, fire: datetime, era: Era) -> Verdict:
        if era.state is None:
            return Verdict.NO_SUCH_JOB_THEN
        if era.is_over:
            return Verdict.OVER
        if self._is_used_up(fire, era):
            return Verdict.NOT_DUE
        if fire > self.now:
            return Verdict.PAUSED if self._pause_reaches(fire) else Verdict.NOT_YET
        if era.state is JobState.PAUSED and not (era.is_now and not self._pause_reaches(fire)):
            return Verdict.PAUSED
        if self._stands_before(fire):
            return Verdict.UNPLANNED
        return Verdict.REMOVED if fire < self._kept_since else Verdict.MISSING

    def explained(self, fire: datetime, era: Era) -> Explained:
        match self.verdict(fire, era):
            case Verdict.PAUSED:
                return self.paused(fire, era)
            case Verdict.NOT_YET:
                return Explained(fire, Verdict.NOT_YET, f"Not yet: it is due in {duration(fire - self.now)}.")
            case Verdict.UNPLANNED:
                return self._unplanned(fire)
            case Verdict.MISSING:
                says = (
                    "It did not run, and no row says why: its schedule went past it. That is a fault. "
                    f"Beats now: {self.around.beats}."
                )
                facts = (("look for its cause", "./onbeat doctor"),)
                return Explained(fire, Verdict.MISSING, says, self.backfill(fire), facts=facts)
            case Verdict.REMOVED:
                days = settings.ONBEAT_EXECUTIONS_RETENTION_DAYS
                says = f"What became of it is no longer known: rows are kept for {days} days."
                return Explained(fire, Verdict.REMOVED, says)
            case Verdict.NOT_DUE:
                assert era.schedule is not None
                says = f"It was not due: its schedule fires {era.schedule.max_fires} times, and had done so."
                return Explained(fire, Verdict.NOT_DUE, says)
            case verdict:
                return Explained(fire, verdict, self._not_there(era, fire))

    def paused(self, fire: datetime, era: Era, row: Execution | None = None) -> Explained:
        """Of a fire in a pause; its row tells of it when the pause is over."""
        turn = era.turn
        assert turn is not None
        is_on = self.job.state == JobState.PAUSED and self.eras[-1].turn == turn
        by, note = _by(turn), f": {turn.note}" if turn.note else ""
        says = f"It did not run: paused{by}{note}."
        if fire > self.now:
            says = f"It will not run unless the job is resumed before: paused{by}{note}."
        facts = (("paused", self._span_of(turn, is_on=is_on)),)
        remedy = f"./onbeat jobs resume {self.job.key}" if is_on else self.backfill(fire)
        return Explained(fire, Verdict.PAUSED, says, remedy, row.pk if row is not None else None, facts)

    def _span_of(self, turn: Turn, *, is_on: bool) -> str:
        since = f"since {clock(turn.changed_at)}"
        if is_on:
            until = self.job.paused_until
            return f"{since}, until {clock(until)}" if until is not None else f"{since}, until somebody resumes it"
        end = next((era.ended_by for era in reversed(self.eras) if era.turn == turn), None)
        return f"{since} until {clock(end.changed_at)}{_by(end)}" if end is not None else since

    def _unplanned(self, fire: datetime) -> Explained:
        says = f"It has not run: no beat has planned it. Beats now: {self.around.beats}."
        return Explained(
            fire, Verdict.UNPLANNED, says, "./onbeat doctor", facts=(("when a beat comes", self._misfire(fire)),)
        )

    def _misfire(self, fire: datetime) -> str:
        assert self.schedule is not None
        if self.now - fire <= timedelta(seconds=self.schedule.misfire_grace_seconds):
            return "it runs, late"
        match Misfire(self.schedule.misfire):
            case Misfire.SKIP:
                return "it is skipped: it is later than its grace"
            case Misfire.FIRE_ONCE:
                return "of the fires that are later than the grace only the latest runs"
            case Misfire.FIRE_ALL:
                return f"of the fires that are later than the grace the latest {self.schedule.misfire_limit} run"

    def backfill(self, fire: datetime) -> str:
        """The command that runs a past fire after all; empty where it would be refused."""
        if self.job.state not in OPEN_STATES or self.schedule is None or not self.schedule.is_readable:
            return ""
        if fire > self.now or not is_fire(self.schedule.recurrence, fire):
            return ""  # a backfill knows today's schedule alone
        at = f"{fire.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
        return f"./onbeat jobs backfill {self.job.key} --from {at} --to {at}"

    @cached_property
    def _kept_since(self) -> datetime:
        return self.now - timedelta(days=settings.ONBEAT_EXECUTIONS_RETENTION_DAYS)

    def _pause_reaches(self, fire: datetime) -> bool:
        until = self.job.paused_until
        return self.job.state == JobState.PAUSED and (until is None or fire < until)

    def _stands_before(self, fire: datetime) -> bool:
        """Whether it is still the beats' to plan. They begin from where the schedule stands."""
        due_at = self.schedule.next_fire_at if self.schedule is not None else None
        return due_at is not None and due_at <= fire

    def _is_used_up(self, fire: datetime, era: Era) -> bool:
        schedule = era.schedule
        if schedule is None or schedule.max_fires is None:
            return False
        if era.is_now and (schedule.next_fire_at is None or schedule.fires_left is None):
            return True
        if fire <= self.now:
            last = self._last_of(era)
            return last is not None and fire > last
        if schedule.next_fire_at is None or schedule.fires_left is None or schedule.fires_left > _MOST_COUNTED_DOWN:
            return False
        left = between(schedule.recurrence, after=schedule.next_fire_at - _INSTANT, until=fire)
        return len(list(islice(left, schedule.fires_left + 1))) > schedule.fires_left

    def _last_of(self, era: Era) -> datetime | None:
        """The fire by which a schedule had had as many as it may; None: it had not.

        What was planned and then taken back counts: until then it fired no more, and later perhaps once again.
        """
        assert era.schedule is not None
        if era.version not in self._last_planned:
            number = era.schedule.max_fires
            assert number is not None
            since = next(each.since for each in self.eras if each.state and says_the_same(each.schedule, era.schedule))
            assert since is not None
            rows = Execution.objects.filter(job_id=self.job.pk, trigger=Trigger.SCHEDULE, skipped_until=None)
            rows = rows.filter(fire_time__gt=since, fire_time__lte=era.until or self.now).order_by("fire_time")
            self._last_planned[era.version] = rows.values_list("fire_time", flat=True)[number - 1 : number].first()
        return self._last_planned[era.version]

    # ── No fire at all ───────────────────────────────────────────────────────────────────────────────────────────

    def nothing(self, start: datetime, end: datetime, *, at: datetime | None) -> Explained:
        """No fire was due from one moment to another: why not."""
        era = self.era_at(end)
        if not era.is_known:
            says = f"What its schedule was then is not known: of its versions the last {MOST_VERSIONS:,} are looked at."
            return Explained(at, Verdict.REMOVED, says)
        if era.state is None or era.is_over:
            verdict = Verdict.NO_SUCH_JOB_THEN if era.state is None else Verdict.OVER
            return Explained(at, verdict, self._not_there(era, end))
        is_past = end <= self.now
        was, its = ("was", "its schedule then was") if is_past else ("is", "its schedule is")
        if era.schedule is None:
            says = f"It {was} not due: it {'had' if is_past else 'has'} no schedule, and runs only when asked."
            return Explained(at, Verdict.NOT_DUE, says)
        if not era.schedule.is_readable:
            return Explained(at, Verdict.UNPLANNED, _unreadable(self.job, era.schedule))
        for moment, is_out, word in (
            (era.schedule.start_at, era.schedule.start_at is not None and end < era.schedule.start_at, "begins"),
            (era.schedule.end_at, era.schedule.end_at is not None and era.schedule.end_at < start, "ended"),
        ):
            if is_out and moment is not None:
                return Explained(at, Verdict.NOT_DUE, f"It {was} not due: its schedule {word} at {clock(moment)}.")
        says = f"It {was} not due: {its} {_quoted(era.schedule)}."
        changed = self._change_of_schedule(era)
        if changed is not None and at is not None and self._names_today(at):
            says += f" It was changed at {clock(changed.changed_at)}{_by(changed)}."
        return Explained(at, Verdict.NOT_DUE, says)

    def _change_of_schedule(self, era: Era) -> Turn | None:
        """What gave the job another schedule; not an edit or a pause before that."""
        later = self.eras[self.eras.index(era) :]
        return next(
            (one.ended_by for one, other in pairwise(later) if not says_the_same(other.schedule, one.schedule)), None
        )

    def _names_today(self, moment: datetime) -> bool:
        schedule = self.schedule
        return schedule is not None and schedule.is_readable and is_fire(schedule.recurrence, moment)

    def is_named(self, moment: datetime) -> bool:
        """Whether somebody may take it for a fire: today's schedule has it, or that of then but for its bounds."""
        era = self.era_at(moment)
        of_then = era.schedule is not None and era.schedule.is_readable and is_fire(era.schedule.pattern, moment)
        return of_then or self._names_today(moment)

    def _not_there(self, era: Era, moment: datetime) -> str:
        if era.state is None:
            made = era.ended_by
            assert made is not None
            return f"There was no such job then: it was created at {clock(made.changed_at)}{_by(made)}."
        will = "will not run" if moment > self.now else "did not run"
        turn = era.turn
        assert turn is not None
        if era.state is JobState.COMPLETED:
            return f"It {will}: the job was completed at {clock(turn.changed_at)}, when it had no fire left."
        note = f": {turn.note}" if turn.note else ""
        return f"It {will}: the job was archived at {clock(turn.changed_at)}{_by(turn)}{note}."


def _unreadable(job: Job, schedule: Schedule) -> str:
    return f"The schedule {str(schedule)!r} of {job.key!r} cannot be read, and beats leave it out; give it another one."


def _quoted(schedule: Schedule) -> str:
    said = f" ({schedule.expression})" if schedule.kind == Kind.CRON else ""
    return f'"{schedule.in_words}"{said}'


def _by(turn: Turn | None) -> str:
    return f" by {turn.changed_by}" if turn is not None and turn.changed_by else ""
