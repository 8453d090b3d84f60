"""A project as users of django-celery-beat have it: the one that somebody moves away from.

It is no part of the platform and loads nothing of it. Its tables are in a database of its own.
"""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.acceptance.old_beat.settings")

app = Celery("old_beat")
app.config_from_object("django.conf:settings", namespace="CELERY")
