"""The forecast of what the next day brings, from the schedules and the executions that wait.

Owns the stored forecast. Invariant: what is planned counts by its row, what is not yet by its schedule, from its next
fire on; so nothing counts twice. Jobs that say the same cost one computation however many they are. Beyond
`MOST_EXACT` that differ, the most numerous are counted and of the others some stand for all, and the forecast says so.
A schedule that nobody can read fires nothing, and counts for nothing; the plan step tells of it.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from django.db.models import Case, CharField, Count, F, Value, When
from django.db.models.functions import TruncMinute

from executions.models import Execution
from jobs import forecast
from jobs.cron import depends_on_key
from jobs.forecast import Forecast, Share
from jobs.models import Kind, Schedule, StoredForecast, pattern_of
from jobs.recurrence import Every, Within

MOST_EXACT = 5000
# It is made again after so many times what it took: at most one part in so many of a beat's time goes into it.
RESTS_TIMES = 60


class _Said(NamedTuple):
    """When jobs fire, as the columns of their schedules say."""

    kind: str
    expression: str
    timezone: str
    key: str  # of the job, if it makes a difference
    anchor_at: datetime | None
    start_at: datetime | None
    end_at: datetime | None
    fires_left: int | None
    jitter_seconds: int
    next_fire_at: datetime


def refresh(now: datetime) -> int:
    """Make the forecast anew, unless it was made a short while ago for what it takes; returns how many were made."""
    last = StoredForecast.objects.first()
    if last and abs((now - last.made_at).total_seconds()) < RESTS_TIMES * last.took_seconds:
        return 0
    begin = time.monotonic()
    made = make(now)
    row = StoredForecast(
        start_at=made.start,
        counts=made.counts,
        is_estimate=made.is_estimate,
        made_at=made.made_at,
        took_seconds=time.monotonic() - begin,
    )
    names = [field.name for field in StoredForecast._meta.concrete_fields if not field.primary_key]
    StoredForecast.objects.bulk_create([row], update_conflicts=True, unique_fields=["id"], update_fields=names)
    return 1


def latest() -> Forecast | None:
    """The one that was made last; None before the first."""
    row = StoredForecast.objects.first()
    return None if row is None else Forecast(row.start_at, row.counts, row.is_estimate, row.made_at)


def make(now: datetime) -> Forecast:
    """Count what is still to come within a day from the start of these ten minutes."""
    now = now.astimezone(UTC)
    start = forecast.slot_of(now)
    shares, is_estimate = _shares(_said(now, start))
    counts = forecast.total(shares, start=start)
    for slot, count in _waiting(now, start):
        counts[slot] += count
    return Forecast(start, [round(count) for count in counts], is_estimate, made_at=now)


def _waiting(now: datetime, start: datetime) -> Iterator[tuple[int, int]]:
    """Executions that wait for their time, by slot. By the minute from the database: it has no word for ten."""
    coming = Execution.objects.coming(now, before=start + forecast.SPAN).order_by()
    minutes = coming.values_list(TruncMinute("available_at", tzinfo=UTC)).annotate(Count("pk"))
    return (((minute - start) // forecast.SLOT, count) for minute, count in minutes)


# ── Schedules ────────────────────────────────────────────────────────────────────────────────────────────────────


def _said(now: datetime, start: datetime) -> Counter[_Said]:
    """What the schedules with a fire within the day say, and how many jobs say it."""
    key = Case(
        When(kind=Kind.CRON, expression__icontains="h", then=F("job__key")), default=Value(""), output_field=CharField()
    )
    schedules = Schedule.objects.firing_before(start + forecast.SPAN).order_by().annotate(key=key)
    found: Counter[_Said] = Counter()
    for *columns, jobs in schedules.values_list(*_Said._fields).annotate(Count("pk")).iterator():
        try:
            found[_in_short(_Said._make(columns), now, start)] += jobs
        except Exception:
            continue  # broken by SQL: its row stays as it is, and whoever is alike
    return found


def _in_short(said: _Said, now: datetime, start: datetime) -> _Said:
    """The same fires, without what makes no difference to their counts."""
    since = max(now, said.next_fire_at)
    end = start + forecast.SPAN
    said = said._replace(
        next_fire_at=since,
        start_at=said.start_at if said.start_at and said.start_at > since else None,
        end_at=said.end_at if said.end_at and said.end_at < end else None,
    )
    match Kind(said.kind):
        case Kind.CRON:
            return said if depends_on_key(said.expression) else said._replace(key="")
        case Kind.EVERY if said.start_at is None and said.end_at is None:
            assert said.anchor_at is not None
            first = forecast.in_step(Every(int(said.expression), said.anchor_at), since)
            return said._replace(anchor_at=first, next_fire_at=first)
        case Kind.ONCE if said.start_at is None and said.end_at is None and said.next_fire_at > now:
            slot = forecast.slot_of(datetime.fromisoformat(said.expression))
            return said._replace(expression=slot.isoformat(), next_fire_at=slot)
        case _:
            return said


def _shares(said: Counter[_Said]) -> tuple[list[Share], bool]:
    """What to count, and whether some of it stands for others."""
    if len(said) <= MOST_EXACT:
        return list(_read(said.items(), times=1)), False
    in_order = sorted(said.items(), key=lambda item: (-item[1], item[0].next_fire_at, item[0].expression, item[0].key))
    many, few = in_order[: MOST_EXACT // 2], in_order[MOST_EXACT // 2 :]
    room = MOST_EXACT - len(many)
    picked = [few[number * len(few) // room] for number in range(room)]
    times = sum(jobs for _, jobs in few) / sum(jobs for _, jobs in picked)
    return [*_read(many, times=1), *_read(picked, times=times)], True


def _read(said: Iterable[tuple[_Said, int]], *, times: float) -> Iterator[Share]:
    for one, jobs in said:
        try:
            pattern = pattern_of(one.kind, one.expression, one.timezone, one.anchor_at, key=one.key)
            is_bounded = one.start_at is not None or one.end_at is not None
            recurrence = Within(pattern, one.start_at, one.end_at) if is_bounded else pattern
        except Exception:
            continue  # as above
        yield Share(recurrence, one.next_fire_at, jobs * times, one.fires_left, one.jitter_seconds)
