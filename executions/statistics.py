"""How many executions there were, hour by hour: what charts are drawn from, and what is left when the rows are gone.

Owns when the tables of hourly counts, by job, and of hourly totals, over all jobs, are looked at. Invariant: an hour's
counts and totals change in one transaction, and add up to the executions that fired in it when it was last looked at;
to look again at what has not changed writes nothing. What is added up: `executions/counted.py`; how it is stored:
`executions/stored_hours.py`.
"""

import time
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from django.db.models import Max, Min

from executions import stored_hours
from executions.models import HourlyCount, HourlyTotal

RECENT_HOURS = 2  # looked at each time
LATE_HOURS = 23  # before these, looked at in turn: some executions end late
_LOCK = 0x6F6E_7374  # of whoever counts
_HOUR = timedelta(hours=1)
# What the release before has counted has no totals. So long for these: a beat has other duties.
_PATIENCE_SECONDS = 1.0


def roll_up(now: datetime, *, hours: int | None = None) -> int:
    """Count the executions of the last hours anew; returns how many counts were written.

    If nothing is said these are the current hour and the one before, and one of the day before them, by the minute:
    called every minute or two, each of these is looked at once an hour, rarer calls come to some of them an
    hour or two later. Costs what the hours hold. While there are no totals it is the whole day, and hours before it get
    theirs from their counts, newest first.
    """
    now = now.astimezone(UTC)
    current = now.replace(minute=0, second=0, microsecond=0)
    if hours is not None:
        ages = [*range(hours)]
    elif HourlyTotal.objects.exists():
        ages = [*range(RECENT_HOURS), RECENT_HOURS + now.minute * LATE_HOURS // 60]
    else:
        ages = [*range(RECENT_HOURS + LATE_HOURS)]
    written = sum(_count_anew(current - age * _HOUR) for age in ages)
    if hours is None:
        _add_up_older(current)
    return written


def _count_anew(hour: datetime) -> int:
    with transaction.atomic():
        if not _is_ours():
            return 0
        written = stored_hours.store(HourlyCount, hour)
        stored_hours.store(HourlyTotal, hour)
        return written


def _add_up_older(current: datetime) -> None:
    """Totals of hours before the first that has some: their executions may be gone, their counts are not."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    first = HourlyTotal.objects.aggregate(hour=Min("hour"))["hour"] or current
    while time.monotonic() < deadline:
        hour = HourlyCount.objects.filter(hour__lt=first).aggregate(hour=Max("hour"))["hour"]
        if hour is None:
            return
        with transaction.atomic():
            if not _is_ours():
                return
            stored_hours.store(HourlyTotal, hour)
        first = hour


def _is_ours() -> bool:
    """Whether nobody else counts at this moment. Two who write the same rows could wait for one another in a ring."""
    if connection.vendor != "postgresql":
        return True  # SQLite has one writer at a time
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return bool(cursor.fetchone()[0])
