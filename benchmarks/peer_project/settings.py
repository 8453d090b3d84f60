"""The peer's settings. Where it runs, `benchmarks/peers.py` tells it."""

import os
from urllib.parse import parse_qsl, unquote, urlsplit

_database = urlsplit(os.environ["DATABASE_URL"])

SECRET_KEY = "only for a benchmark"
INSTALLED_APPS = ["django.contrib.contenttypes", "django_celery_beat"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(_database.path[1:]),
        "USER": unquote(_database.username or ""),
        "PASSWORD": unquote(_database.password or ""),
        "HOST": _database.hostname,
        "PORT": str(_database.port or 5432),
        "CONN_MAX_AGE": None if os.environ.get("PEER_KEEPS_CONNECTION") else 0,
        "OPTIONS": dict(parse_qsl(_database.query)),
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

CELERY_BROKER_URL = os.environ["CELERY_BROKER_URL"]
CELERY_TASK_DEFAULT_QUEUE = os.environ["PEER_QUEUE"]
