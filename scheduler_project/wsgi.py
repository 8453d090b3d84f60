"""The web process's entry point."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from executions import database_line, metrics

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

application = get_wsgi_application()
database_line.hurry_always()
metrics.begin_at_zero()  # the first scrape finds all loaded
_ = get_resolver().url_patterns  # every page is loaded now, and not while the first visitor waits
