"""What is shown of workers to who scrapes: of one by itself, and of all from their registry."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from executions.metrics import Gauge
from workers.models import Worker

HEARTBEAT_AGE = Gauge("onbeat_worker_heartbeat_age_seconds", "Since this worker last wrote its signs of life.")
RUNNING = Gauge("onbeat_worker_running", "Executions that its processes or threads run at this moment.")
_TOLD_OF = timedelta(hours=1)  # the registry keeps who is gone for a day, for whoever asks what happened
WORKERS = Gauge(
    "onbeat_workers",
    "Registered workers: alive; silent for up to an hour, gone without signing off or cut off.",
    {"state": ("alive", "silent")},
)
OLDEST_HEARTBEAT = Gauge(
    "onbeat_workers_heartbeat_age_seconds", "Since the worker was heard of that was heard of longest ago in an hour."
)


def of_one(*, heartbeat_age_seconds: float, running: int) -> Iterator[Any]:
    yield HEARTBEAT_AGE.of(heartbeat_age_seconds)
    yield RUNNING.of(running)


def of_all(now: datetime) -> Iterator[Any]:
    """In one statement."""
    lost = timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
    heard = Worker.objects.alive_since(now - _TOLD_OF).values_list("heartbeat_at", flat=True)
    ages = [now - heartbeat_at for heartbeat_at in heard]
    yield WORKERS.of({"alive": sum(age < lost for age in ages), "silent": sum(age >= lost for age in ages)})
    yield OLDEST_HEARTBEAT.of(max(0.0, max(ages).total_seconds()) if ages else 0.0)
