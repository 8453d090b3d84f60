"""Why a job did or did not run: the latest fire, the one nearest to a moment, or all of a day.

Owns the question and the choice of fires. Invariants: what is told is read from rows and versions, and nothing is
guessed; the number of statements does not depend on how many fires are asked for; nothing is changed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import UUID

from django.db.models import Sum

from executions.identity import fire_time_of
from executions.models import Attempt, Execution, HourlyCount
from executions.states import FIRE_TRIGGERS, State
from executions.words import away, count, duration
from jobs import dst, explained_rows
from jobs.absences import Standing
from jobs.eras import Era, eras_of, says_the_same
from jobs.explained_rows import clock
from jobs.models import OPEN_STATES, Job, JobState, Kind, Schedule
from jobs.recurrence import Recurrence
from jobs.refusals import InvalidRun
from jobs.upcoming import between, is_fire, latest
from jobs.verdicts import Around, Explained, Explanation, Verdict

MOST_FIRES = 2000  # of a day that are looked at
MOST_TOLD = 50  # of them that are told
_INSTANT = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)
_LONG = ("args", "kwargs", "result", "checkpoint", "progress", "response")
# Where there are too many to tell, what went wrong comes first, then what ran, and last where nothing was to happen.
_TOLD_LAST = (Verdict.NOT_YET, Verdict.NO_SUCH_JOB_THEN, Verdict.OVER, Verdict.REMOVED)


def explain(
    job: Job, *, start: datetime | None = None, end: datetime | None = None, now: datetime, around: Around
) -> Explanation:
    """The latest fire; or the one nearest to a moment, which is start and end; or all from start to end."""
    for moment in filter(None, (start, end)):
        if not 1970 <= moment.year < dst.LAST_YEAR:
            raise InvalidRun(
                "at", f"The moment {moment.isoformat()} must lie between the years 1970 and {dst.LAST_YEAR}."
            )
    # In one statement, and before the rows: a fire that is planned meanwhile is found, and not missed.
    job = Job.objects.select_related("schedule").get(pk=job.pk)
    schedule: Schedule | None = getattr(job, "schedule", None)
    standing = Standing(job, schedule, eras_of(job, schedule), now=now, around=around)
    if start is None or end is None:
        found = _latest(standing)
    elif start == end:
        found = _nearest(standing, start)
    else:
        found = _all_of(standing, start, end)
    is_on = schedule is not None and schedule.is_active
    return Explanation(
        key=job.key,
        timezone=timezone_of(schedule),
        start=start,
        end=end,
        remark=found.remark,
        fires=tuple(found.told),
        left_out=found.left_out,
        next_fire_at=schedule.next_fire_at if is_on and schedule is not None else None,
        next_says=_next(job, schedule, now=now),
    )


def timezone_of(schedule: Schedule | None) -> str:
    """By which its times are told. Only a cron has a zone; of one that is gone, UTC stands for it."""
    is_zoned = schedule is not None and schedule.kind == Kind.CRON and schedule.is_readable
    return schedule.timezone if is_zoned and schedule is not None else "UTC"


@dataclass(frozen=True)
class _Found:
    told: Sequence[Explained]
    remark: str = ""
    left_out: dict[Verdict, int] = field(default_factory=dict)


# ── Which fires ──────────────────────────────────────────────────────────────────────────────────────────────────


def _latest(standing: Standing) -> _Found:
    now = standing.now
    if standing.schedule is None and standing.job.state in OPEN_STATES:
        return _latest_run(standing)
    fire = _before(standing, now)
    if fire is not None:
        return _told(standing, [fire])
    era = standing.eras[-1]
    if era.is_over or era.schedule is None or not era.schedule.is_readable:
        return _Found([standing.nothing(now, now, at=None)])
    first = era.schedule.recurrence.next_after(now)
    return _told(standing, [first]) if first is not None else _Found([standing.nothing(now, now, at=None)])


def _latest_run(standing: Standing) -> _Found:
    """Of a job without a schedule: what was asked for last."""
    rows = Execution.objects.filter(job_id=standing.job.pk, fire_time__lte=standing.now).defer(*_LONG)
    row = rows.order_by("-fire_time").first()
    if row is None:
        return _Found([standing.nothing(standing.now, standing.now, at=None)])
    told = _told(standing, [row.fire_time], rows={row.fire_time: row})
    return replace(told, remark="It has no schedule; this is the latest run that was asked for.")


def _nearest(standing: Standing, moment: datetime) -> _Found:
    era = standing.era_at(moment)
    rows = _rows(standing.job, moment, moment)
    recurrence = _recurrence(era)
    if rows or (recurrence is not None and is_fire(recurrence, moment)):
        return _told(standing, [moment], rows=rows)
    if recurrence is None or era.state is None or era.is_over or standing.is_named(moment):
        return _Found([standing.nothing(moment, moment, at=moment)])
    around = [_before(standing, moment), _after(standing, moment)]
    near = min((fire for fire in around if fire is not None), key=lambda fire: abs(fire - moment), default=None)
    if near is None:
        return _Found([standing.nothing(moment, moment, at=moment)])
    way = "before" if near < moment else "after"
    remark = f"No fire was due at {clock(moment)}; the nearest is {duration(abs(near - moment))} {way}."
    return replace(_told(standing, [near]), remark=remark)


def _all_of(standing: Standing, start: datetime, end: datetime) -> _Found:
    fires = list(islice(_fires(standing, start, end), MOST_FIRES + 1))
    rows = _rows(standing.job, start, end)
    times = sorted({*fires, *rows})
    if not times:
        return _Found([standing.nothing(start, end, at=None)])
    found = _told(standing, times[:MOST_FIRES], rows=rows)
    if len(times) <= MOST_FIRES:
        return found
    return replace(found, remark=f"There are more than {MOST_FIRES:,} fires; these are of the first {MOST_FIRES:,}.")


def _fires(standing: Standing, start: datetime, end: datetime) -> Iterator[datetime]:
    """What each schedule of that time says, also in pauses, before the job was made and after it was over."""
    for era in standing.eras:
        recurrence = _recurrence(era)
        after = max(start - _INSTANT, era.since or start - _INSTANT)
        until = min(end, era.until or end)
        if recurrence is not None and after < until:
            yield from between(recurrence, after=after, until=until)


def _before(standing: Standing, moment: datetime) -> datetime | None:
    """The last fire up to a moment, while there was a job to fire."""
    for era in reversed(standing.eras):
        recurrence = _recurrence(era)
        if recurrence is None or era.since is None or era.is_over or era.since >= moment:
            continue
        fire = latest(recurrence, after=era.since, until=min(moment, era.until or moment))
        if fire is not None:
            return fire
    return None


def _after(standing: Standing, moment: datetime) -> datetime | None:
    for era in standing.eras:
        recurrence = _recurrence(era)
        if recurrence is None or era.since is None or era.is_over or (era.until is not None and era.until <= moment):
            continue
        fire = recurrence.next_after(max(moment, era.since))
        if fire is not None and (era.until is None or fire <= era.until):
            return fire
    return None


def _recurrence(era: Era) -> Recurrence | None:
    return era.schedule.recurrence if era.schedule is not None and era.schedule.is_readable else None


# ── What became of them ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Case:
    """One fire with what there is of it."""

    fire: datetime
    era: Era
    row: Execution | None  # its own, or that of the stretch it was skipped with
    verdict: Verdict


def _told(standing: Standing, fires: Sequence[datetime], rows: dict[datetime, Execution] | None = None) -> _Found:
    rows = _rows(standing.job, fires[0], fires[-1]) if rows is None else rows
    stretches = _stretches(standing.job, fires[0], fires[-1])
    cases = [_case(standing, fire, rows.get(fire) or _over(stretches, fire)) for fire in fires]
    chosen = _chosen(cases)
    left_out = Counter(case.verdict for case in cases)
    left_out.subtract(case.verdict for case in chosen)
    ids = [case.row.pk for case in chosen if case.row is not None]
    attempts, replays = _attempts(ids), _replays(ids)
    told = [_explained(standing, case, attempts, replays) for case in chosen]
    return _Found(_with_counts(standing.job, told), left_out={key: n for key, n in left_out.items() if n})


def _case(standing: Standing, fire: datetime, row: Execution | None) -> _Case:
    era = standing.era_at(fire)
    if row is None:
        return _Case(fire, era, None, standing.verdict(fire, era))
    if row.state == State.SKIPPED and era.state is JobState.PAUSED:
        return _Case(fire, era, row, Verdict.PAUSED)  # its row is made when the pause ends
    return _Case(fire, era, row, explained_rows.verdict_of(row, now=standing.now))


def _chosen(cases: Sequence[_Case]) -> Sequence[_Case]:
    """Those that are told: what did not go as it should comes first, where there are too many."""
    if len(cases) <= MOST_TOLD:
        return cases
    by_need = sorted(cases, key=lambda case: (case.verdict in _TOLD_LAST, case.verdict is Verdict.RAN, case.fire))
    return sorted(by_need[:MOST_TOLD], key=lambda case: case.fire)


def _explained(
    standing: Standing, case: _Case, attempts: dict[UUID, list[Attempt]], replays: dict[UUID, list[Execution]]
) -> Explained:
    row = case.row
    if case.verdict is Verdict.PAUSED:
        told = standing.paused(case.fire, case.era, row)
    elif row is None:
        told = standing.explained(case.fire, case.era)
    else:
        told = explained_rows.explained(
            row,
            case.fire,
            now=standing.now,
            around=standing.around,
            attempts=attempts.get(row.pk, ()),
            replays=replays.get(row.pk, ()),
        )
        if told.verdict is Verdict.SKIPPED:
            told = replace(told, remedy=standing.backfill(case.fire))
    if case.era.schedule is None or case.era.state is None or says_the_same(case.era.schedule, standing.schedule):
        return told
    then = f"{case.era.schedule.in_words} (version {case.era.version})"
    return replace(told, facts=(*told.facts, ("schedule then", then)))


def _with_counts(job: Job, told: Sequence[Explained]) -> list[Explained]:
    """Of fires whose rows are gone the hourly counts still tell something."""
    gone = [one.fire_time for one in told if one.verdict is Verdict.REMOVED and one.fire_time is not None]
    if not gone:
        return list(told)
    first, last = _hour(gone[0]), _hour(gone[-1])
    rows = HourlyCount.objects.filter(job_id=job.pk, hour__gte=first, hour__lte=last)
    counted: dict[datetime, list[str]] = {}
    for hour, state, number in rows.order_by("state").values_list("hour", "state").annotate(Sum("count")):
        counted.setdefault(hour, []).append(f"{number} {state}")
    return [
        replace(one, facts=(*one.facts, ("counted in that hour", ", ".join(counted[_hour(one.fire_time)]))))
        if one.verdict is Verdict.REMOVED and one.fire_time is not None and _hour(one.fire_time) in counted
        else one
        for one in told
    ]


def _hour(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _rows(job: Job, start: datetime, end: datetime) -> dict[datetime, Execution]:
    rows = Execution.objects.filter(job_id=job.pk, trigger__in=FIRE_TRIGGERS, fire_time__gte=start, fire_time__lte=end)
    return {row.fire_time: row for row in rows.defer(*_LONG).order_by("fire_time")[: MOST_FIRES + 1]}


def _stretches(job: Job, start: datetime, end: datetime) -> list[Execution]:
    """Also those that begin before the fires or end after them."""
    skipped = Execution.objects.filter(job_id=job.pk, trigger__in=FIRE_TRIGGERS, state=State.SKIPPED)
    return list(skipped.filter(fire_time__lte=end, skipped_until__gte=start).defer(*_LONG).order_by("fire_time"))


def _over(stretches: Sequence[Execution], fire: datetime) -> Execution | None:
    return next(
        (row for row in stretches if row.skipped_until is not None and row.fire_time <= fire <= row.skipped_until), None
    )


def _attempts(ids: Sequence[UUID]) -> dict[UUID, list[Attempt]]:
    found: dict[UUID, list[Attempt]] = {}
    if ids:
        first, last = fire_time_of(min(ids)), fire_time_of(max(ids)) + _MILLISECOND
        rows = Attempt.objects.filter(execution_id__in=ids, fire_time__gte=first, fire_time__lt=last)
        for attempt in rows.defer("response").order_by("number"):
            found.setdefault(attempt.execution_id, []).append(attempt)
    return found


def _replays(ids: Sequence[UUID]) -> dict[UUID, list[Execution]]:
    found: dict[UUID, list[Execution]] = {}
    for row in Execution.objects.filter(replay_of__in=ids).only("replay_of", "state").order_by("pk") if ids else ():
        assert row.replay_of is not None
        found.setdefault(row.replay_of, []).append(row)
    return found


# ── What comes next ──────────────────────────────────────────────────────────────────────────────────────────────


def _next(job: Job, schedule: Schedule | None, *, now: datetime) -> str:
    if job.state not in OPEN_STATES:
        return f"The job is {job.state}: it fires no more."
    if schedule is None:
        return "It has no schedule, and runs only when asked."
    if job.state == JobState.PAUSED:
        by = f" by {job.paused_by}" if job.paused_by else ""
        until = f"until {clock(job.paused_until)}" if job.paused_until is not None else "until somebody resumes it"
        return f"It is paused{by}, {until}."
    if schedule.next_fire_at is None:
        used_up = "" if schedule.max_fires is None else f": it has had {count(schedule.max_fires, 'fire')}"
        return f"It has no fire left{used_up}."
    at = f"{clock(schedule.next_fire_at)}, {away(schedule.next_fire_at, now=now)}"
    return f"Next: {at}." if schedule.next_fire_at > now else f"Its schedule stands at {at}: no beat has planned that."
