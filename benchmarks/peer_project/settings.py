"""The peer's settings. Where it runs, `benchmarks/peers.py` tells it."""

import os

from benchmarks import peer_database

SECRET_KEY = "only for a benchmark"
INSTALLED_APPS = ["django.contrib.contenttypes", "django_celery_beat"]
DATABASES = {
    "default": peer_database.from_url(
        os.environ["DATABASE_URL"], keeps_connection=bool(os.environ.get("PEER_KEEPS_CONNECTION"))
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

CELERY_BROKER_URL = os.environ["CELERY_BROKER_URL"]
CELERY_TASK_DEFAULT_QUEUE = os.environ["PEER_QUEUE"]
