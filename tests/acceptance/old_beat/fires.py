"""When the tasks of the old project fire, by its own code: `python -m tests.acceptance.old_beat.fires`.

Reads a list of {"name", "start", "end", "last_run_at"} and prints the moments of each. django-celery-beat's entries and
schedules decide, from one fire to the next; only their clock is ours.
"""

import datetime as real
import json
import sys
from types import SimpleNamespace
from typing import Any

import django


class Clock:
    now = real.datetime(2000, 1, 1, tzinfo=real.UTC)


class Controlled(real.datetime):
    @classmethod
    def now(cls, tz: real.tzinfo | None = None) -> real.datetime:  # type: ignore[override]
        return Clock.now.astimezone(tz)


def main() -> None:
    django.setup()
    from celery import Celery
    from django.db import transaction
    from django.utils import timezone
    from django_celery_beat import schedulers, tzcrontab

    tzcrontab.datetime = Controlled
    schedulers.datetime = SimpleNamespace(datetime=Controlled, timedelta=real.timedelta)
    timezone.now = lambda: Clock.now
    Celery.now = lambda app: Clock.now.astimezone(app.timezone)  # type: ignore[method-assign]
    with transaction.atomic():
        json.dump([_fires(**asked) for asked in json.load(sys.stdin)], sys.stdout)
        transaction.set_rollback(True)  # what is over is switched off there


def _fires(name: str, start: str, end: str, last_run_at: str | None) -> list[str]:
    from django_celery_beat.models import PeriodicTask
    from django_celery_beat.schedulers import ModelEntry

    from tests.acceptance.old_beat import app

    Clock.now, stop = (real.datetime.fromisoformat(text) for text in (start, end))
    model: Any = PeriodicTask.objects.get(name=name)
    if last_run_at is not None:
        model.last_run_at = real.datetime.fromisoformat(last_run_at)
    entry, found = ModelEntry(model, app=app), []
    while Clock.now <= stop:
        is_due, seconds = entry.is_due()
        if is_due:
            found.append(Clock.now.astimezone(real.UTC).isoformat())
            entry = next(entry)
        Clock.now += real.timedelta(seconds=float(seconds))
    return found


if __name__ == "__main__":
    main()
