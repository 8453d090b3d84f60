"""The forecast of what the next day brings, from the schedules and the executions that wait.

Owns the stored forecast. Invariant: what is planned counts by its row, what is not yet by its schedule, from its next
fire on; so nothing counts twice. Jobs that say the same cost one computation however many they are
(`jobs/alike.py`). Beyond `MOST_EXACT` that differ, some stand for others, and the forecast says so.
A schedule that nobody can read fires nothing, and counts for nothing; the plan step tells of it.
"""

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from django.db.models import Count
from django.db.models.functions import TruncMinute

from executions.models import Execution
from jobs import alike, forecast
from jobs.alike import Said
from jobs.forecast import Forecast, Share
from jobs.models import StoredForecast, pattern_of
from jobs.recurrence import Within

MOST_EXACT = 5000
# It is made again after so many times what it took: at most one part in so many of a beat's time goes into it.
RESTS_TIMES = 60


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
    chosen = alike.choose(now, start, most=MOST_EXACT)
    counts = forecast.total(_shares(chosen.said), start=start)
    for slot, count in _waiting(now, start):
        counts[slot] += count
    return Forecast(start, [round(count) for count in counts], not chosen.is_all, made_at=now)


def _waiting(now: datetime, start: datetime) -> Iterator[tuple[int, int]]:
    """Executions that wait for their time, by slot. By the minute from the database: it has no word for ten."""
    coming = Execution.objects.coming(now, before=start + forecast.SPAN).order_by()
    minutes = coming.values_list(TruncMinute("available_at", tzinfo=UTC)).annotate(Count("pk"))
    return (((minute - start) // forecast.SLOT, count) for minute, count in minutes)


def _shares(said: Iterable[tuple[Said, float]]) -> Iterator[Share]:
    for one, jobs in said:
        try:
            pattern = pattern_of(one.kind, one.expression, one.timezone, one.anchor_at, key=one.key)
            is_bounded = one.start_at is not None or one.end_at is not None
            recurrence = Within(pattern, one.start_at, one.end_at) if is_bounded else pattern
        except Exception:
            continue  # nobody can read it
        yield Share(recurrence, one.next_fire_at, jobs, one.fires_left, one.jitter_seconds)
