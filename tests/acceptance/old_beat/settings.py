"""Settings of the old project. Where its database is, `OLD_DATABASE_URL` says."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from celery.schedules import crontab, schedule, solar

_database = urlsplit(os.environ.get("OLD_DATABASE_URL", "sqlite:////nowhere"))
_sqlite: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": unquote(_database.path)}
_postgresql: dict[str, Any] = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": unquote(_database.path[1:]),
    "USER": unquote(_database.username or ""),
    "PASSWORD": unquote(_database.password or ""),
    "HOST": _database.hostname,
    "PORT": str(_database.port or 5432),
}

SECRET_KEY = "only for a test"
INSTALLED_APPS = ["django.contrib.contenttypes", "django_celery_beat"]
DATABASES = {"default": _sqlite if _database.scheme == "sqlite" else _postgresql}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

CELERY_BROKER_URL = "memory://"
CELERY_TIMEZONE = "Europe/Berlin"


class Tides(schedule):
    """A schedule of the project's own."""


_sunset: Any = solar.__new__(solar)  # to make one needs a package that this test does without
_sunset.event = "sunset"

CELERY_BEAT_SCHEDULE = {
    "every-ten-minutes": {"task": "onbeat.echo", "schedule": 600.0, "kwargs": {"message": "ten"}},
    "hourly": {"task": "onbeat.echo", "schedule": timedelta(hours=1), "options": {"queue": "mail", "priority": 7}},
    "on-the-hour": {"task": "onbeat.echo", "schedule": timedelta(hours=1), "relative": True},
    "breakfast": {"task": "onbeat.echo", "schedule": crontab(minute=30, hour=7, day_of_week="mon-fri"), "args": ("x",)},
    "some-minutes": {"task": "onbeat.echo", "schedule": crontab(minute=[5, 20], hour={12})},
    "sunset": {"task": "onbeat.echo", "schedule": _sunset},
    "tides": {"task": "onbeat.echo", "schedule": Tides(3600)},
    "own-clock": {"task": "onbeat.echo", "schedule": crontab(minute=0, nowfun=lambda: datetime.now(UTC))},
    "half-a-second": {"task": "onbeat.echo", "schedule": 0.5},
    "not json": {"task": "onbeat.echo", "schedule": 60.0, "kwargs": {"of": object()}},
    "countdown": {"task": "onbeat.echo", "schedule": 60.0, "options": {"countdown": 5, "expires": 30}},
}
