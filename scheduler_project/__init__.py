"""The Django project: settings, Celery app, URLs. The four apps never import it."""

from scheduler_project.celery import app as celery_app

__all__ = ["celery_app"]
