"""The figures of the dashboard. Invariant: a bounded number of small statements, however many jobs and executions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from console import queues
from console.dashboard import attention, charts
from console.dashboard.attention import Concern
from console.dashboard.charts import Chart, Lines
from console.queues import Queue
from executions import hourly
from executions.hourly import Hour
from executions.models import Execution
from jobs import forecasting
from jobs.forecast import SLOT, Forecast
from jobs.models import Schedule

_HOURS = 24
_HOUR = timedelta(hours=1)
_UPCOMING = 8
_BUSIEST = 6


@dataclass(frozen=True)
class Upcoming:
    schedule: Schedule
    at: datetime


@dataclass(frozen=True)
class Pile:
    at: datetime
    count: int


@dataclass(frozen=True)
class Figures:
    concerns: Sequence[Concern]
    fires: int
    success_percent: float | None
    lateness_p95: float | None
    running: int
    dead: int
    executions: Chart
    lateness: Lines | None
    upcoming: Sequence[Upcoming]
    queues: Sequence[Queue]
    forecast: Chart | None
    is_estimate: bool
    piles: Sequence[Pile]


def figures(now: datetime) -> Figures:
    hours = _hours(now)
    seen = queues.seen(now)
    dead = attention.waiting_for_a_person()
    forecast = forecasting.latest()
    slots = [] if forecast is None else _slots(forecast, now)
    usual = sum(number for _, number in slots) / len(slots) if slots else 0.0
    piles = sorted((slot for slot in slots if charts.is_pile(slot[1], usual)), key=lambda slot: -slot[1])[:3]
    ended = {state: sum(hour.counts.get(state, 0) for hour in hours) for state in ("SUCCEEDED", "DEAD")}
    by_hour = {hour.hour: hour for hour in hours}
    each = [_start(now) - (_HOURS - 1 - n) * _HOUR for n in range(_HOURS)]
    late = [(at, *_percentiles(by_hour.get(at))) for at in each]
    return Figures(
        concerns=attention.concerns(now=now, queues=seen, dead=dead),
        fires=sum(hour.fires for hour in hours),
        success_percent=100 * ended["SUCCEEDED"] / sum(ended.values()) if sum(ended.values()) else None,
        lateness_p95=hourly.lateness(start=each[0], end=now).p95,
        running=Execution.objects.running().count(),
        dead=dead,
        executions=charts.stacked([(at, by_hour[at].counts if at in by_hour else {}) for at in each]),
        lateness=charts.lateness(late) if any(row[1] is not None for row in late) else None,
        upcoming=_upcoming(now),
        queues=seen[:_BUSIEST],
        forecast=charts.bars(slots) if slots else None,
        is_estimate=forecast is not None and forecast.is_estimate,
        piles=[Pile(*pile) for pile in piles],
    )


def _slots(forecast: Forecast, now: datetime) -> list[tuple[datetime, int]]:
    """Those that are not over: it was made a little ago."""
    slots = [(forecast.start + place * SLOT, number) for place, number in enumerate(forecast.counts)]
    return [slot for slot in slots if slot[0] + SLOT > now]


def _start(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _hours(now: datetime) -> list[Hour]:
    return hourly.hours(start=_start(now) - (_HOURS - 1) * _HOUR, end=now)


def _percentiles(hour: Hour | None) -> tuple[float | None, float | None]:
    return (None, None) if hour is None else (hour.lateness.p50, hour.lateness.p95)


def _upcoming(now: datetime) -> list[Upcoming]:
    rows = Schedule.objects.filter(is_active=True, next_fire_at__gt=now).order_by("next_fire_at", "pk")
    return [Upcoming(row, row.next_fire_at) for row in rows.select_related("job")[:_UPCOMING] if row.next_fire_at]
