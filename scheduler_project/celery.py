"""The Celery app: `celery -A scheduler_project worker` finds it here."""

import os

from celery import Celery

from workers.celery_app import install

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
# Celery would run all checks, which loads every page of the web process, and throw away what they say. Ours are run by
# the commands that start beats and workers.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("scheduler_project")
app.config_from_object("django.conf:settings", namespace="CELERY")
install(app)
app.autodiscover_tasks()
