"""Three small jobs for a first look, made once."""

from datetime import datetime

from django.db import transaction

from jobs import definitions
from jobs.models import Job
from jobs.recurrence import Cron


def seed(*, now: datetime) -> list[Job]:
    """Make the demo jobs if no job was ever made here; a person who removed them does not get them back."""
    if Job.objects.exists():
        return []
    with transaction.atomic():
        return _make(now)


def _make(now: datetime) -> list[Job]:
    return [
        definitions.create(
            key="demo.pulse",
            task="onbeat.echo",
            schedule=Cron("*/5 * * * * *"),
            kwargs={"message": "still here"},
            now=now,
        ),
        definitions.create(
            key="demo.report", task="onbeat.sleep", schedule=Cron("* * * * *"), kwargs={"seconds": 3}, now=now
        ),
        definitions.create(
            key="demo.flaky",
            task="onbeat.fail_until",
            schedule=Cron("*/10 * * * *"),
            kwargs={"attempt": 2},
            priority=7,
            now=now,
        ),
    ]
