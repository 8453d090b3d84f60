"""A project that is made as django-celery-beat tells its users to, so that a benchmark has a peer to stand beside.

`celery -A benchmarks.peer_project beat` runs it. It is no part of the platform and loads nothing of it. Settings that a
user need not make have their defaults: the broker's confirms are off, and there is no result backend.
"""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.peer_project.settings")

app = Celery("peer_project")
app.config_from_object("django.conf:settings", namespace="CELERY")
