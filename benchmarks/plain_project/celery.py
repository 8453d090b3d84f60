"""The peers' app and its task. Celery looks for `DJANGO_SETTINGS_MODULE`, and without it leaves Django alone."""

import os

from celery import Celery

app = Celery("plain_project")
app.config_from_object("benchmarks.plain_project.settings", namespace="CELERY")
if os.environ.get("PEER_KEEPS_CONNECTION"):
    # Celery closes the database connection before and after each task whatever `CONN_MAX_AGE` says; not so with this.
    app.add_defaults({"CELERY_DB_REUSE_MAX": 2**31})


@app.task(name="plain.echo")
def echo(message: str = "") -> str:
    """What `onbeat.echo` does."""
    return message
