"""What another beat has stored about its tasks, as it was read there. Pure: no Django, no Celery.

Owns the form in which readers hand tasks on. Nothing is judged here: texts are as they were found, also where they mean
nothing, and moments have their offset.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Source:
    """Where tasks come from."""

    name: str
    tag: str  # of jobs that fire there
    tag_if_disabled: str  # of jobs that did not: so that all others can be resumed by one word
    is_live: bool  # whether it knows when its tasks ran last


DJANGO_CELERY_BEAT = Source(
    "django-celery-beat", "from-django-celery-beat", "disabled-in-django-celery-beat", is_live=True
)
BEAT_SCHEDULE = Source("Celery's beat_schedule", "from-beat-schedule", "disabled-in-beat-schedule", is_live=False)


@dataclass(frozen=True)
class Crontab:
    minute: str
    hour: str
    day_of_month: str
    month_of_year: str
    day_of_week: str
    timezone: str


@dataclass(frozen=True)
class Interval:
    microseconds: int
    is_rounded: bool = False  # `relative=True`: to the start of its day, hour or minute
    timezone: str = "UTC"  # in which that start is meant


@dataclass(frozen=True)
class Clocked:
    at: datetime


@dataclass(frozen=True)
class NoSchedule:
    """One that cannot be here, or cannot be read."""

    why: str
    remedy: str


Pattern = Crontab | Interval | Clocked | NoSchedule


@dataclass(frozen=True)
class Task:
    name: str
    task: str
    pattern: Pattern
    args: str = "[]"
    kwargs: str = "{}"
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    headers: str = ""
    priority: int | None = None
    expires: datetime | None = None
    expire_seconds: float | None = None
    is_one_off: bool = False
    start_time: datetime | None = None
    is_enabled: bool = True
    last_run_at: datetime | None = None
    total_run_count: int = 0
    changed_at: datetime | None = None
    description: str = ""
    starting_deadline_seconds: int | None = None
    other_options: Sequence[str] = ()
