"""Which schedules the next clock changes touch, and how.

Owns the reading. Invariants: schedules that say the same are looked at once, however many jobs they are of, and all are
read in one statement; a schedule counts in one place only: under the changes of its zone, or among the untouched.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from jobs import clock_changes, cron, dst
from jobs.clock_changes import Bounds, Touch
from jobs.cron import Fields
from jobs.models import OPEN_STATES, Job, Kind, Schedule, ScheduleQuerySet
from jobs.recurrence import Cron, Within
from jobs.refusals import InvalidSchedule
from jobs.upcoming import upcoming

DEFAULT_DAYS = 180
MOST_DAYS = 3660
KEYS_SHOWN = 3
_ROWS_AT_A_TIME = 2000
_MOST_COUNTED_DOWN = 5000  # fires that are left, up to which it is looked whether they last until the change


class _Said(NamedTuple):
    """What schedules say, as far as it makes a difference."""

    expression: str
    timezone: str
    key: str  # of the job, if there is an `H`
    start_at: datetime | None
    end_at: datetime | None
    fires_left: int | None
    next_fire_at: datetime | None  # only where fires are counted


@dataclass
class _Jobs:
    """How many, and the first few by their keys."""

    count: int = 0
    keys: list[str] = field(default_factory=list)

    def add(self, key: str) -> None:
        self.count += 1
        if len(self.keys) < KEYS_SHOWN:
            self.keys.append(key)

    def join(self, others: "_Jobs") -> None:
        self.count += others.count
        self.keys = sorted([*self.keys, *others.keys])[:KEYS_SHOWN]


@dataclass(frozen=True)
class Touched:
    """Jobs for which that night is not like any other."""

    expression: str
    touch: Touch
    jobs: int
    keys: tuple[str, ...]  # the first few


@dataclass(frozen=True)
class ZoneChange:
    """One change of one zone's clocks, and whom it touches."""

    zone: ZoneInfo
    change: dst.Change
    touched: tuple[Touched, ...]
    shifted: int  # jobs that keep their time of day, and so fire at another time of UTC from then on

    @property
    def touched_jobs(self) -> int:
        return sum(each.jobs for each in self.touched)

    @property
    def shift(self) -> timedelta:
        return self.change.after - self.change.before


@dataclass(frozen=True)
class Untouched:
    """Jobs that no change of these days can touch."""

    intervals: int
    once: int
    steady: int  # crons in zones whose clocks do not change in these days, such as UTC
    unreadable: int  # broken by SQL, or in a zone that is gone: the plan step tells of them


@dataclass(frozen=True)
class Report:
    start: datetime
    end: datetime
    changes: tuple[ZoneChange, ...]  # the soonest first
    untouched: Untouched


def schedules(*, zone: str = "", job: Job | None = None) -> ScheduleQuerySet:
    """Those of open jobs that still fire: all, of one zone, or of one job."""
    found = Schedule.objects.filter(job__state__in=OPEN_STATES, next_fire_at__isnull=False)
    found = found.filter(timezone=zone, kind=Kind.CRON) if zone else found
    return found.filter(job_id=job.pk) if job is not None else found


def report(
    among: ScheduleQuerySet, *, now: datetime, days: int = DEFAULT_DAYS, on_read: Callable[[int], object] = int
) -> Report:
    """What the changes within so many days do. `on_read` is told how many more schedules were read."""
    until = now + timedelta(days=days)
    counts: Counter[str] = Counter()
    zones: dict[str, list[_Zone]] = {}
    steady = unreadable = 0
    for one, jobs in _read(among, counts, on_read).items():
        try:
            if one.timezone not in zones:
                place = dst.zone_named(one.timezone)
                zones[one.timezone] = [
                    _Zone(place, change) for change in clock_changes.changes(place, after=now, until=until)
                ]
            fields = cron.parse(one.expression, key=one.key) if zones[one.timezone] else None
        except InvalidSchedule:
            unreadable += jobs.count
            continue
        if fields is None:
            steady += jobs.count
            continue
        for each in zones[one.timezone]:
            each.add(one, fields, jobs)
    found = sorted((each.told() for each in _flat(zones.values())), key=lambda one: (one.change, one.zone.key))
    untouched = Untouched(counts[Kind.EVERY], counts[Kind.ONCE], steady, unreadable)
    return Report(now, until, tuple(found), untouched)


def _flat(zones: "Iterable[list[_Zone]]") -> "Iterator[_Zone]":
    for each in zones:
        yield from each


_COLUMNS = ("kind", "job__key", "expression", "timezone", "start_at", "end_at", "fires_left", "next_fire_at")


def _read(among: ScheduleQuerySet, counts: Counter[str], on_read: Callable[[int], object]) -> dict[_Said, _Jobs]:
    """What crons say, by whom; others are counted by their kind."""
    said: dict[_Said, _Jobs] = {}
    spreads: dict[str, bool] = {}
    rows = among.order_by("job__key").values_list(*_COLUMNS).iterator(chunk_size=_ROWS_AT_A_TIME)
    while batch := list(islice(rows, _ROWS_AT_A_TIME)):
        for kind, key, expression, timezone, start_at, end_at, fires_left, next_fire_at in batch:
            counts[kind] += 1
            if kind != Kind.CRON:
                continue
            if expression not in spreads:
                spreads[expression] = cron.depends_on_key(expression)
            one = _Said(
                *(expression, timezone, key if spreads[expression] else "", start_at, end_at, fires_left),
                next_fire_at=next_fire_at if fires_left is not None else None,
            )
            said.setdefault(one, _Jobs()).add(key)
        on_read(len(batch))
    return said


class _Zone:
    """Gathers whom one change of one zone touches."""

    def __init__(self, zone: ZoneInfo, change: dst.Change) -> None:
        self._zone, self._change = zone, change
        self._touched: dict[tuple[str, Touch], _Jobs] = {}
        self._shifted = 0

    def add(self, said: _Said, fields: Fields, jobs: _Jobs) -> None:
        if not self._lasts(said):
            return
        if clock_changes.shifts_against_utc(fields, self._change):
            self._shifted += jobs.count
        touch = clock_changes.touch(fields, self._zone, self._change, Bounds(said.start_at, said.end_at))
        if touch is not None:
            # Those that an `H` spreads to the same time are told as one.
            self._touched.setdefault((said.expression, touch), _Jobs()).join(jobs)

    def _lasts(self, said: _Said) -> bool:
        """Whether it still fires when the clocks change."""
        first, end = clock_changes.odd_hours(self._change)
        begin = self._change.instant - (end - first)
        if said.end_at is not None and said.end_at < begin:
            return False
        if said.fires_left is None or said.fires_left > _MOST_COUNTED_DOWN or said.next_fire_at is None:
            return True
        pattern = Cron(said.expression, said.timezone, said.key)
        coming = Within(pattern, said.start_at, said.end_at)
        fires = upcoming(coming, after=said.next_fire_at - timedelta(microseconds=1), count=said.fires_left)
        return bool(fires) and fires[-1] >= begin

    def told(self) -> ZoneChange:
        touched = [
            Touched(expression, touch, jobs.count, tuple(jobs.keys))
            for (expression, touch), jobs in self._touched.items()
        ]
        touched.sort(key=lambda one: (-one.jobs, one.expression, one.touch.says))
        return ZoneChange(self._zone, self._change, tuple(touched), self._shifted)
