"""How many fires the next day brings, ten minutes by ten minutes. Pure: no Django, no clock.

Owns the counting of fires that are not walked one by one: of a job that fires every second there are 86,400. Invariant:
the counts of a recurrence are those of the fires that its `next_after` names. An interval is counted by arithmetic, a
cron by its fields, within each stretch of its zone between two clock changes; what a change does to fixed times is the
rule of `jobs/recurrence.py`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from math import gcd
from zoneinfo import ZoneInfo

from jobs import cron, dst
from jobs.recurrence import Cron, Every, Once, Within

SLOT = timedelta(minutes=10)
SLOTS = 144
SPAN = SLOTS * SLOT
_SLOT_SECONDS = 600
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_MICROSECOND, _SECOND = timedelta(microseconds=1), timedelta(seconds=1)
# No clocks have been set back by more: what they show a second time they have shown within this.
_LONGEST_REPEAT = timedelta(days=2)


@dataclass(frozen=True)
class Forecast:
    start: datetime
    counts: list[int]  # of each ten minutes; of the first, what was still to come
    is_estimate: bool  # schedules were too many, and some stand for others
    made_at: datetime


@dataclass(frozen=True)
class Share:
    """Jobs that fire at the same times."""

    recurrence: Cron | Every | Once | Within
    since: datetime  # what is earlier does not count
    jobs: float = 1
    left: int | None = None  # fires of each, at most
    jitter_seconds: int = 0


def slot_of(moment: datetime) -> datetime:
    """The start of the ten minutes that a moment lies in."""
    return moment.astimezone(UTC) - (moment - _EPOCH) % SLOT


def total(shares: Iterable[Share], *, start: datetime) -> list[float]:
    """What they bring together, in each ten minutes of the day from a start."""
    by_jitter: defaultdict[int, list[float]] = defaultdict(lambda: [0.0] * SLOTS)
    for share in shares:
        counts = by_jitter[share.jitter_seconds]
        for slot, count in fires(share.recurrence, start=start, since=share.since, left=share.left).items():
            counts[slot] += count * share.jobs
    spread = [_spread(counts, jitter_seconds) for jitter_seconds, counts in by_jitter.items()]
    return [sum(column) for column in zip(*spread, strict=True)] if spread else [0.0] * SLOTS


def fires(
    recurrence: Cron | Every | Once | Within, *, start: datetime, since: datetime, left: int | None = None
) -> dict[int, int]:
    """How many fires, by the number of the slot; those without one are left out. The start is that of a slot."""
    # By UTC: two moments of one zone are added up by their wall clocks.
    first, end = max(start, since.astimezone(UTC)), start + SPAN
    if isinstance(recurrence, Within):
        first = first if recurrence.start is None else max(first, recurrence.start.astimezone(UTC))
        end = end if recurrence.end is None else min(end, recurrence.end.astimezone(UTC) + _MICROSECOND)
        recurrence = recurrence.recurrence
    if first >= end:
        return {}
    match recurrence:
        case Cron():
            counts = _of_cron(recurrence, start, first, end)
        case Every():
            counts = _of_interval(recurrence, start, first, end)
        case Once():
            at = recurrence.at.astimezone(UTC)
            counts = Counter({(at - start) // SLOT: 1} if first <= at < end else {})
    return dict(counts if left is None else _first_few(counts, left))


def _first_few(counts: Counter[int], left: int) -> Iterator[tuple[int, int]]:
    for slot in sorted(counts):
        if left <= 0:
            return
        yield slot, min(left, counts[slot])
        left -= counts[slot]


def _spread(counts: list[float], jitter_seconds: int) -> list[float]:
    """Each fire comes at any time of its jitter, as likely as at any other; as if it were due when its slot begins."""
    if not jitter_seconds:
        return counts
    parts = [
        min(jitter_seconds - later, _SLOT_SECONDS) / jitter_seconds for later in range(0, jitter_seconds, _SLOT_SECONDS)
    ]
    spread = [0.0] * SLOTS
    for slot, count in enumerate(counts):
        for later, part in enumerate(parts[: SLOTS - slot] if count else (), start=slot):
            spread[later] += count * part
    return spread


# ── Intervals ────────────────────────────────────────────────────────────────────────────────────────────────────


def in_step(every: Every, since: datetime) -> datetime:
    """The first fire from a moment on, put back to where all that bring the same counts have theirs.

    Slots and steps are both whole numbers of their greatest common divisor, so that a part of it makes no difference.
    """
    fire = every.next_after(since.astimezone(UTC) - _MICROSECOND)
    assert fire is not None
    return fire - (fire - _EPOCH) % timedelta(seconds=gcd(every.seconds, _SLOT_SECONDS))


def _of_interval(every: Every, start: datetime, first: datetime, end: datetime) -> Counter[int]:
    # In whole microseconds since the start: moments are ten times as slow, and there may be thousands of intervals.
    step, slot_length = every.seconds * 1_000_000, SLOT // _MICROSECOND
    anchor, since, until = ((moment - start) // _MICROSECOND for moment in (every.anchor.astimezone(UTC), first, end))
    counts: Counter[int] = Counter()
    fire = since + (anchor - since) % step
    while fire < until:
        slot = fire // slot_length
        many = -((fire - min(until, (slot + 1) * slot_length)) // step)  # up to the end of its slot
        counts[slot] = many
        fire += many * step
    return counts


# ── Cron ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# In whole seconds since 1970, by UTC or by the clock on the wall.


@dataclass(frozen=True)
class _Stretch:
    """A time without a change of clocks."""

    start: int
    end: int
    offset: int  # what the clock on the wall is ahead of UTC


@lru_cache(maxsize=1024)
def _stretches(zone: ZoneInfo, start: datetime) -> tuple[_Stretch, ...]:
    """Those of the day, and of the time before of which the clocks may repeat something."""
    found, moment, end = [], start - _LONGEST_REPEAT, start + SPAN
    while moment < end:
        change = dst.next_change(zone, moment, until=end)
        until = end if change is None else change.instant
        offset = dst.offset_at(zone, moment) // _SECOND
        found.append(_Stretch((moment - _EPOCH) // _SECOND, (until - _EPOCH) // _SECOND, offset))
        moment = until
    return tuple(found)


def _of_cron(pattern: Cron, start: datetime, first: datetime, end: datetime) -> Counter[int]:
    zero = (start - _EPOCH) // _SECOND
    # Fires are at whole seconds: from the first that is not before, up to the first that is not before the end.
    low, high = -((_EPOCH - first) // _SECOND), -((_EPOCH - end) // _SECOND)
    counts: Counter[int] = Counter()
    reached: int | None = None  # what the clock on the wall has shown
    for stretch in _stretches(dst.zone_named(pattern.timezone), start):
        shown = stretch.start + stretch.offset
        begin = stretch.start
        if pattern.fields.is_fixed_time and reached is not None:
            begin = max(begin, reached - stretch.offset)  # what comes a second time does not fire
            if low <= begin < high and _is_any(pattern.fields, reached, shown):
                # What the gap swallowed fires after it, together with what fires there anyway.
                counts[(begin - zero) // _SLOT_SECONDS] += 1
                begin += 1
        _count(pattern.fields, max(begin, low), min(stretch.end, high), stretch.offset, zero, counts)
        reached = max(reached or shown, stretch.end + stretch.offset)
    return counts


def _is_any(fields: cron.Fields, begin: int, end: int) -> bool:
    """Whether the fields name a time that the clock on the wall skips."""
    found: Counter[int] = Counter()
    _count(fields, begin, end, 0, 0, found)
    return bool(found)


def _count(fields: cron.Fields, begin: int, end: int, offset: int, zero: int, counts: Counter[int]) -> None:
    """Add what fires between two moments that have the same offset."""
    if begin >= end:
        return
    hour_by_slot = _hour_by_slot(fields, (-offset - zero) % _SLOT_SECONDS)
    for number in range((begin + offset) // _DAY, (end - 1 + offset) // _DAY + 1):
        if not fields.falls_on(date.fromordinal(_EPOCH_ORDINAL + number)):
            continue
        for hour in fields.hour.values:
            moment = number * _DAY + hour * _HOUR - offset
            if begin <= moment and moment + _HOUR <= end and offset % _MINUTE == 0:
                slot = (moment - zero) // _SLOT_SECONDS
                for further, count in hour_by_slot:
                    counts[slot + further] += count
            elif begin < moment + _HOUR and moment < end:
                for fire in _of_hour(fields, moment):
                    if begin <= fire < end:
                        counts[(fire - zero) // _SLOT_SECONDS] += 1


def _hour_by_slot(fields: cron.Fields, into_slot: int) -> list[tuple[int, int]]:
    """The fires of an hour that begins so many seconds after a slot does, by slots from that one on."""
    slots = Counter((into_slot + minute * _MINUTE) // _SLOT_SECONDS for minute in fields.minute.values)
    return [(slot, minutes * len(fields.second.values)) for slot, minutes in slots.items()]


def _of_hour(fields: cron.Fields, moment: int) -> Iterator[int]:
    for minute in fields.minute.values:
        for second in fields.second.values:
            yield moment + minute * _MINUTE + second
