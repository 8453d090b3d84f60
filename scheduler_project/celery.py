"""The Celery app: `celery -A scheduler_project worker` finds it here."""

import os

from celery import Celery

from workers.celery_app import install

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

app = Celery("scheduler_project")
app.config_from_object("django.conf:settings", namespace="CELERY")
install(app)
app.autodiscover_tasks()
