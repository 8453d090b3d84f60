"""What the hours were like: how many fires, how late they began, how long they ran.

Owns the reading of the tables of hourly counts and totals, and reads nothing else: executions may be gone by then.
Invariant: a percentile is of all that its hour tells of, or it is not told. Hours that the release before counted have
none.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db.models import F, Max, QuerySet, Sum, TextField
from django.db.models.functions import Cast

from executions import histogram
from executions.counted import ENDED, Joined
from executions.models import HourlyCount, HourlyTotal

_KEY = ("hour", "state")


@dataclass(frozen=True)
class Percentiles:
    """In seconds, and right to about 10 % (`executions/histogram.py`); mean and longest are exact. None: not known."""

    p50: float | None
    p95: float | None
    p99: float | None
    mean: float | None
    longest: float | None


@dataclass(frozen=True)
class Hour:
    hour: datetime
    counts: dict[str, int]  # by state
    fires: int
    started: int  # those that the lateness is of
    lateness: Percentiles
    duration: Percentiles  # the longest is not known


def hours(*, start: datetime, end: datetime, job_id: int | None = None, queue: str = "") -> list[Hour]:
    """The hours that begin from one moment up to another, which is not included; oldest first, without empty ones.

    Of one job, one queue, both, or everything. One query, of a few rows per hour however many jobs there are.
    """
    rows: QuerySet[HourlyCount] | QuerySet[HourlyTotal] = HourlyTotal.objects.all()
    if job_id is not None:
        rows = HourlyCount.objects.filter(job_id=job_id)
    rows = rows.filter(hour__gte=start, hour__lt=end)
    if queue:
        rows = rows.filter(queue=queue)
    states = (
        rows.values(*_KEY)
        .annotate(
            fires=Sum("count"),
            begun=Sum("started"),
            ran=Sum("run_seconds"),
            delayed=Sum("delay_seconds"),
            longest=Max("longest_delay_seconds"),
            delays=Joined(Cast("delay_histogram", TextField()), ","),
            runs=Joined(Cast("run_histogram", TextField()), ","),
        )
        .order_by("hour")
    )
    return [_hour(hour, list(parts)) for hour, parts in groupby(states, key=itemgetter("hour"))]


def lateness(*, start: datetime, end: datetime) -> Percentiles:
    """Of all that fired in the hours from one moment up to another. One query."""
    rows = HourlyTotal.objects.filter(hour__gte=start, hour__lt=end).values(
        begun=F("started"),
        delayed=F("delay_seconds"),
        longest=F("longest_delay_seconds"),
        delays=Cast("delay_histogram", TextField()),
    )
    parts: list[dict[str, Any]] = [dict(row) for row in rows]
    longest = max((part["longest"] for part in parts), default=None)
    return _percentiles(parts, total="delayed", spread="delays", longest=longest)


def _hour(hour: datetime, states: list[dict[str, Any]]) -> Hour:
    ended = [state for state in states if state["state"] in ENDED]
    longest = max(state["longest"] for state in states)
    return Hour(
        hour=hour,
        counts={state["state"]: state["fires"] for state in states},
        fires=sum(state["fires"] for state in states),
        started=sum(state["begun"] for state in states),
        lateness=_percentiles(states, total="delayed", spread="delays", longest=longest),
        duration=_percentiles(ended, total="ran", spread="runs", longest=None),
    )


def _percentiles(states: list[dict[str, Any]], *, total: str, spread: str, longest: float | None) -> Percentiles:
    many = sum(state["begun"] for state in states)
    if not many:
        return Percentiles(None, None, None, None, None)
    durations = histogram.merged(part for state in states for part in json.loads(f"[{state[spread]}]"))
    if sum(durations.values()) != many:
        durations = {}  # the release before counted some of them
    p50, p95, p99 = (_at_most(longest, histogram.percentile(durations, percent)) for percent in (50, 95, 99))
    return Percentiles(p50, p95, p99, mean=sum(state[total] for state in states) / many, longest=longest)


def _at_most(longest: float | None, seconds: float | None) -> float | None:
    """The middle of a bucket may lie above all that is in it."""
    return seconds if longest is None or seconds is None else min(seconds, longest)
