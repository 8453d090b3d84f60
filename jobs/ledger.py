"""Does every fire that there should be have its row? A walk over all schedules, window by window, without end.

Owns the invariant "expected fires − recorded fires = 0" as a figure. It shares nothing with those who plan: what there
should be follows from what jobs say and said (`jobs/eras.py`), what there is from rows. Invariants:
- a window is looked at when it is closed: a minute has passed since, and the job's schedule stands behind it. A job
  whose fires are still to be planned is left for the next window, and nothing is left out;
- a fire without a row counts as missing only if nothing else explains it (`jobs/absences.py`), and no longer than that;
- a pass costs a bounded time, however many schedules there are; of two beats that walk at once one does in vain.
"""

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import QuerySet

from executions import events, snapshots
from executions.metrics import Gauge
from executions.models import Execution
from executions.states import FIRE_TRIGGERS, State
from jobs.absences import Standing
from jobs.cron import depends_on_key
from jobs.eras import eras_of
from jobs.models import Job, JobState, Kind, Schedule, recurrence_of
from jobs.upcoming import between
from jobs.verdicts import Around, Verdict

NAME = "ledger"
LAG = timedelta(seconds=60)
LONGEST_WINDOW = timedelta(hours=6)
SHORTEST_WINDOW = timedelta(seconds=10)
_JOBS_AT_ONCE = 2000
_FIRES_AT_ONCE = 5000
_PATIENCE_SECONDS = 0.2
_MOST_LEFT = 1000  # jobs that beats are behind with; if there are more, the walk waits for the beats
_MOST_HOLES = 1000

EXPECTED = Gauge("onbeat_ledger_expected_fires_total", "Fires that there should be, in the windows that are closed.")
RECORDED = Gauge("onbeat_ledger_recorded_fires_total", "Those of them that have a row, or lie in a row of many.")
MISSING = Gauge("onbeat_ledger_missing_fires", "Expected fires less recorded ones: lost. It must be 0.")
AGE = Gauge("onbeat_ledger_age_seconds", "How far the walk that counts expected and recorded fires is behind.")

Fires = list[tuple[int, datetime]]  # by job


@dataclass(frozen=True)
class Walk:
    """Where it is. Moments are text: it is kept as JSON."""

    since: str  # the window: after this moment
    until: str = ""  # up to this one; empty: the next is not chosen yet
    after_job: int = 0  # jobs up to this one are done
    left: dict[str, str] = field(default_factory=dict)  # jobs that are not planned so far, and from when on to look
    holes: list[tuple[int, str]] = field(default_factory=list)
    expected: int = 0
    recorded: int = 0


class _Line(NamedTuple):
    """A job and its schedule, as far as the walk looks at them: rows of the model would take several times as long."""

    pk: int
    key: str
    state: str
    changed_at: datetime
    kind: str | None  # None: it has no schedule
    expression: str
    timezone: str
    anchor_at: datetime | None
    start_at: datetime | None
    end_at: datetime | None
    is_active: bool
    next_fire_at: datetime | None

    def stands_before(self, until: datetime) -> bool:
        return bool(self.is_active and self.next_fire_at and self.next_fire_at <= until)

    def fires(self, since: datetime, until: datetime) -> list[datetime]:
        """Of one that nobody changed meanwhile."""
        if self.kind is None or not self.is_active or self.state != JobState.ACTIVE:
            return []
        pattern = (self.kind, self.expression, self.timezone, self.anchor_at, self.start_at, self.end_at)
        try:
            return list(between(recurrence_of(*pattern, key=self.key), after=since, until=until))
        except Exception:  # broken behind our back: beats leave it out, and the doctor tells of it
            return []

    def says(self, since: datetime) -> Hashable:
        key = self.key if self.kind == Kind.CRON and depends_on_key(self.expression) else ""
        return (key, since, self.state, *self[_FIRST_SAID:])


_FIRST_SAID = _Line._fields.index("kind")
_OWN = _Line._fields[:_FIRST_SAID]


def _lines(jobs: QuerySet[Job]) -> list[_Line]:
    columns = [name if name in _OWN else f"schedule__{name}" for name in _Line._fields]
    return [_Line._make(row) for row in jobs.values_list(*columns)]


def go_on(now: datetime) -> int:
    """Look at some more; returns how many fires it looked for."""
    kept = snapshots.kept(NAME)
    if kept is None:
        begin = Walk(since=(now - LAG).isoformat())
        snapshots.keep(NAME, asdict(begin), at=now)
        return 0
    before = walk = Walk(**kept.figures)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    walk = _mended(walk)
    while time.monotonic() < deadline:
        following = _step(walk, now)
        if following is walk:
            break
        walk = following
    is_ours = snapshots.keep_instead_of(kept, asdict(walk), at=now)
    if is_ours:
        for job_id, fire in [hole for hole in walk.holes if hole not in list(map(tuple, before.holes))]:
            key = Job.objects.filter(pk=job_id).values_list("key", flat=True).first()
            events.warn("a fire has no row: it is lost; `./onbeat explain` tells more", job=key, fire_time=fire)
    return walk.expected - before.expected


def lost() -> list[tuple[str, datetime]]:
    """Fires that have no row, as far as the walk has come, with the keys of their jobs. Two statements."""
    kept = snapshots.kept(NAME)
    holes = [(pk, datetime.fromisoformat(fire)) for pk, fire in kept.figures["holes"]] if kept else []
    keys = dict(Job.objects.filter(pk__in={pk for pk, _ in holes}).values_list("pk", "key")) if holes else {}
    return [(keys[pk], fire) for pk, fire in holes if pk in keys]


def figures(now: datetime) -> Iterator[Any]:
    kept = snapshots.kept(NAME)
    if kept is None:
        return
    walk = Walk(**kept.figures)
    yield EXPECTED.of(walk.expected)
    yield RECORDED.of(walk.recorded)
    yield MISSING.of(walk.expected - walk.recorded)
    yield AGE.of(max(0.0, (now - datetime.fromisoformat(walk.since)).total_seconds()))


def _step(walk: Walk, now: datetime) -> Walk:
    """Some more jobs of the window, or the next window; the same walk if there is nothing to do yet."""
    if not walk.until:
        return _next_window(walk, now)
    since, until = datetime.fromisoformat(walk.since), datetime.fromisoformat(walk.until)
    jobs = _lines(Job.objects.filter(pk__gt=walk.after_job).order_by("pk")[:_JOBS_AT_ONCE])
    if not jobs:
        return replace(walk, since=walk.until, until="", after_job=0)
    return _looked_at(walk, jobs, since, until, now)


def _next_window(walk: Walk, now: datetime) -> Walk:
    since = datetime.fromisoformat(walk.since)
    until = min(now - LAG, since + LONGEST_WINDOW)
    if until - since < SHORTEST_WINDOW or len(walk.left) >= _MOST_LEFT:
        if walk.left:
            return _left_again(walk, now)
        return walk
    behind = Schedule.objects.firing_before(until).order_by().values("pk")[:_MOST_LEFT].count()
    return walk if behind >= _MOST_LEFT else replace(walk, until=until.isoformat())


def _left_again(walk: Walk, now: datetime) -> Walk:
    """Those that were left, up to where the walk is: their beats may have come so far."""
    until = datetime.fromisoformat(walk.since)
    jobs = _lines(Job.objects.filter(pk__in=list(map(int, walk.left))))
    planned = [job for job in jobs if not job.stands_before(until)]
    gone = walk.left.keys() - {str(job.pk) for job in jobs}
    if not planned and not gone:
        return walk
    left = {pk: moment for pk, moment in walk.left.items() if pk not in gone}
    return _looked_at(replace(walk, left=left), planned, until, until, now, is_again=True)


def _looked_at(
    walk: Walk, jobs: Sequence[_Line], since: datetime, until: datetime, now: datetime, *, is_again: bool = False
) -> Walk:
    left, known = dict(walk.left), dict[Hashable, list[datetime]]()
    expected: Fires = []
    done = walk.after_job
    for job in jobs:
        start = datetime.fromisoformat(left.pop(str(job.pk), since.isoformat())) if left else since
        if job.stands_before(until):
            left[str(job.pk)] = start.isoformat()
        elif job.changed_at > start:
            standing = _standing(job.pk, now)
            expected += [(job.pk, fire) for fire in _of_eras(standing, start, until)] if standing else []
        else:
            says = job.says(start)
            if says not in known:
                known[says] = job.fires(start, until)
            expected += [(job.pk, fire) for fire in known[says]]
        done = job.pk
        if len(expected) >= _FIRES_AT_ONCE:
            break
    holes, unexplained = _holes(expected, now)
    return replace(
        walk,
        after_job=walk.after_job if is_again else done,
        left=left,
        holes=[*walk.holes, *((pk, fire.isoformat()) for pk, fire in holes)][:_MOST_HOLES],
        expected=walk.expected + len(expected) - unexplained,
        recorded=walk.recorded + len(expected) - unexplained - len(holes),
    )


def _standing(pk: int, now: datetime) -> Standing | None:
    """One that was changed, as it is now with its past."""
    job = Job.objects.select_related("schedule").filter(pk=pk).first()
    if job is None:
        return None
    schedule = getattr(job, "schedule", None)
    return Standing(job, schedule, eras_of(job, schedule), now=now, around=Around())


def _of_eras(standing: Standing, since: datetime, until: datetime) -> Iterator[datetime]:
    """The fires of one that was changed: of each of its times what it said then."""
    for era in standing.eras:
        start, end = max(era.since or since, since), min(era.until or until, until)
        is_on = era.state is JobState.ACTIVE and era.schedule is not None and era.schedule.is_readable
        if is_on and era.schedule is not None and start < end:
            yield from between(era.schedule.recurrence, after=start, until=end)


def _holes(expected: Fires, now: datetime) -> tuple[Fires, int]:
    """Those without a row that nothing explains, and how many others without one need none."""
    lacking = _without_rows(expected)
    # As they are by now: one may have been paused or changed since the walk read it.
    standings = {pk: _standing(pk, now) for pk in {pk for pk, _ in lacking}}
    holes = [
        (pk, fire)
        for pk, fire in lacking
        if (standing := standings[pk]) and standing.verdict(fire, standing.era_at(fire)) is Verdict.MISSING
    ]
    holes = _without_rows(holes)  # a row may have come between the two looks
    return holes, len(lacking) - len(holes)


def _without_rows(fires: Fires) -> Fires:
    if not fires:
        return []
    ids, first, last = {pk for pk, _ in fires}, min(fire for _, fire in fires), max(fire for _, fire in fires)
    of_fires = Execution.objects.filter(job_id__in=ids, trigger__in=FIRE_TRIGGERS)
    rows = of_fires.filter(fire_time__gte=first, fire_time__lte=last).values_list("job_id", "fire_time")
    there = set(rows.iterator())
    lacking = [fire for fire in fires if fire not in there]
    if not lacking:
        return []
    stretches: dict[int, list[tuple[datetime, datetime]]] = {}
    skipped = of_fires.filter(job_id__in={pk for pk, _ in lacking}, state=State.SKIPPED, skipped_until__gte=first)
    for pk, start, end in skipped.values_list("job_id", "fire_time", "skipped_until"):
        stretches.setdefault(pk, []).append((start, end or start))
    return [(pk, fire) for pk, fire in lacking if not any(start <= fire <= end for start, end in stretches.get(pk, ()))]


def _mended(walk: Walk) -> Walk:
    """Holes that somebody filled by a backfill, or whose job is gone, are none."""
    if not walk.holes:
        return walk
    holes = [(pk, datetime.fromisoformat(fire)) for pk, fire in walk.holes]
    there = set(Job.objects.filter(pk__in={pk for pk, _ in holes}).values_list("pk", flat=True))
    left = _without_rows([(pk, fire) for pk, fire in holes if pk in there])
    mended = len(holes) - len(left)
    return replace(walk, holes=[(pk, fire.isoformat()) for pk, fire in left], recorded=walk.recorded + mended)
