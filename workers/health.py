"""Whether somebody takes work. Not vital: the platform still plans, accepts and queues without workers."""

from datetime import datetime, timedelta

from django.conf import settings

from executions.health import Finding
from workers.models import Worker


def beating(now: datetime) -> Finding:
    since = now - timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
    count = Worker.objects.alive_since(since).count()
    if count:
        return Finding(is_well=True, says=f"{count} alive", is_vital=False)
    return Finding(
        is_well=False, says="no worker is alive: what is queued waits; start one with `./onbeat worker`", is_vital=False
    )
