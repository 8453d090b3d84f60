"""What is shown of workers to who scrapes: of one by itself, and of all from their registry."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from executions.metrics import Gauge
from workers.models import Worker

HEARTBEAT_AGE = Gauge("onbeat_worker_heartbeat_age_seconds", "Since this worker last wrote its signs of life.")
RUNNING = Gauge("onbeat_worker_running", "Executions that its processes or threads run at this moment.")
WORKERS = Gauge(
    "onbeat_workers",
    "Registered workers: alive; silent, gone without signing off or cut off.",
    {"state": ("alive", "silent")},
)
OLDEST_HEARTBEAT = Gauge(
    "onbeat_workers_heartbeat_age_seconds", "Since the registered worker that was heard of longest ago was heard of."
)


def of_one(*, heartbeat_age_seconds: float, running: int) -> Iterator[Any]:
    yield HEARTBEAT_AGE.of(heartbeat_age_seconds)
    yield RUNNING.of(running)


def of_all(now: datetime) -> Iterator[Any]:
    """In one statement."""
    lost = timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
    ages = [now - heartbeat_at for heartbeat_at in Worker.objects.values_list("heartbeat_at", flat=True)]
    yield WORKERS.of({"alive": sum(age < lost for age in ages), "silent": sum(age >= lost for age in ages)})
    yield OLDEST_HEARTBEAT.of(max(0.0, max(ages).total_seconds()) if ages else 0.0)
