"""Schedules: those that nobody can read, that never fire, or that nobody plans; and pauses that did not end.

Invariant: what says the same is read once, however many jobs say it, and for a limited time.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Exists, OuterRef, Q

from executions.models import Execution
from executions.words import away, clock, count
from jobs import ledger
from jobs.models import Job, Kind, Schedule, pattern_of
from terminal.doctor.findings import Examined, Fault, Finding, at_most, named
from terminal.doctor.visit import Visit

PATIENCE = timedelta(minutes=2)  # beats plan and upkeep works within seconds
READING_SECONDS = 5.0
MOST = 1000
_NAMED = 5
_ANY = datetime(2000, 1, 1, tzinfo=UTC)  # an anchor says when, not whether

UNREADABLE = Fault(
    "schedules.E01",
    means="Beats leave it out: the job does not fire. It was changed by SQL, or its time zone is gone.",
    remedy="Give the job another schedule, or archive it.",
)
LATE = Fault(
    "schedules.E02",
    means="Beats tick, and its fire has passed without a row: nobody plans it.",
    remedy="See in the beats' log what they say about it; a transaction may hold its row.",
)
STANDS_STILL = Fault(
    "schedules.E03",
    means="It could fire, and has no next fire: somebody emptied it by SQL. Upkeep will take it for completed.",
    remedy="Change its schedule, which computes the next fire anew, or pause and resume the job.",
)
LOST = Fault(
    "schedules.E04",
    means="It should have fired, its schedule went past it, and it has no row: it was lost. It must never happen.",
    remedy="`./onbeat explain JOB --at MOMENT` tells what is known; `./onbeat jobs backfill` runs it after all.",
)
NEVER_AGAIN = Fault(
    "schedules.W01",
    means="It has no fire left, and upkeep did not complete the job.",
    remedy="Run `./onbeat upkeep completions`, or give the job another schedule.",
)
PAUSE_IS_OVER = Fault(
    "schedules.W02",
    means="The pause was set to end, and upkeep did not resume the job: it misses its fires.",
    remedy="Run `./onbeat upkeep pauses`, and see in the beats' log why they did not.",
)


def examine(visit: Visit) -> Examined:
    active = Schedule.objects.filter(is_active=True).count()
    unreadable = _read()
    findings = [*_unreadable(unreadable), *_lost()]
    if visit.is_ticking_for(PATIENCE.total_seconds() / 60):
        findings += [*_late(visit, unreadable), *_without_next_fire(visit), *_pauses(visit)]
    else:
        findings += [finding for finding in _without_next_fire(visit) if finding.id == STANDS_STILL.id]
    says = f"{count(active, 'active schedule')}, {count(unreadable.patterns, 'pattern')} read"
    return Examined(says if unreadable.is_whole else f"{says} (there are more)", findings)


@dataclass
class _Read:
    """What came of reading each pattern once."""

    patterns: int = 0
    is_whole: bool = True
    broken: Q = field(default_factory=Q)
    why: list[str] = field(default_factory=list)


def _read() -> _Read:
    found = _Read()
    deadline = time.monotonic() + READING_SECONDS
    columns = ("kind", "expression", "timezone")
    # With how many have an anchor: an interval without one cannot be read either.
    said = Schedule.objects.filter(is_active=True).order_by().values_list(*columns).annotate(Count("pk"))
    anchored = said.annotate(anchors=Count("anchor_at"))
    for kind, expression, timezone, jobs, anchors in anchored.iterator():
        if time.monotonic() > deadline:
            found.is_whole = False
            break
        found.patterns += 1
        if why := _why_unreadable(kind, expression, timezone):
            found.broken |= Q(kind=kind, expression=expression, timezone=timezone)
            found.why.append(why)
        elif kind == Kind.EVERY and anchors < jobs:
            found.broken |= Q(kind=kind, expression=expression, timezone=timezone, anchor_at=None)
            found.why.append("an interval without an anchor")
        if len(found.why) >= MOST // 10:
            found.is_whole = False
            break
    return found


def _why_unreadable(kind: str, expression: str, timezone: str) -> str:
    try:
        pattern_of(kind, expression, timezone, _ANY, key="")
    except Exception as error:  # whatever stands in the row
        return str(error) or type(error).__name__
    return ""


def _unreadable(read: _Read) -> Iterator[Finding]:
    if not read.why:
        return
    rows = Schedule.objects.filter(read.broken, is_active=True)
    number = rows.order_by().values("pk")[: MOST + 1].count()
    keys = list(rows.order_by("job__key").values_list("job__key", flat=True)[:_NAMED])
    says = f"{at_most(number, MOST, 'schedule')} cannot be read ({named(keys)}): {read.why[0]}"
    yield UNREADABLE.found(says, jobs=keys)


def _lost() -> Iterator[Finding]:
    """As the beats' walk over all schedules has found it (`jobs/ledger.py`)."""
    lost = ledger.lost()
    if lost:
        told = [f"{key} at {clock(fire)}" for key, fire in lost]
        says = f"{at_most(len(lost), MOST, 'fire')} lost: {named(told)}."
        yield LOST.found(says, jobs=sorted({key for key, _ in lost})[:MOST])


def _late(visit: Visit, read: _Read) -> Iterator[Finding]:
    late = Schedule.objects.firing_before(visit.now - PATIENCE)
    late = late.exclude(read.broken) if read.why else late
    number = late.order_by().values("pk")[: MOST + 1].count()
    if number:
        first = list(late.values_list("job__key", "next_fire_at")[:_NAMED])
        oldest = away(first[0][1], now=visit.now) if first and first[0][1] else "a while ago"
        keys = [key for key, _ in first]
        says = f"{at_most(number, MOST, 'schedule')} late ({named(keys)}); the oldest was to fire {oldest}."
        yield LATE.found(says, jobs=keys)


def _without_next_fire(visit: Visit) -> Iterator[Finding]:
    still_open = Exists(Execution.objects.open().filter(job_id=OuterRef("pk")))
    rows = Job.objects.out_of_fires().filter(changed_at__lt=visit.now - PATIENCE).exclude(still_open)
    jobs = list(rows.select_related("schedule").order_by("pk")[: MOST // 10])
    able = [job.key for job in jobs if _could_fire(job.schedule, visit)]
    ended = [job.key for job in jobs if job.key not in set(able)]
    if able:
        yield STANDS_STILL.found(f"Without a next fire, though they could fire: {named(able)}.", jobs=able)
    if ended:
        yield NEVER_AGAIN.found(f"Without a fire left, and still active: {named(ended)}.", jobs=ended)


def _could_fire(schedule: Schedule, visit: Visit) -> bool:
    try:
        return schedule.fires_left != 0 and schedule.recurrence.next_after(visit.now) is not None
    except Exception:  # it cannot be read, and was told of
        return False


def _pauses(visit: Visit) -> Iterator[Finding]:
    over = Job.objects.pause_over(visit.now - PATIENCE)
    number = over.order_by().values("pk")[: MOST + 1].count()
    if number:
        keys = list(over.order_by("paused_until").values_list("key", flat=True)[:_NAMED])
        yield PAUSE_IS_OVER.found(f"{at_most(number, MOST, 'pause')} past their end: {named(keys)}.", jobs=keys)
