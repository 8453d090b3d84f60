"""What several areas want to know of the installation, asked once.

Invariant: a fixed number of small statements, made when the first area asks; the database's clock is read once.
"""

from datetime import datetime, timedelta
from functools import cached_property

from django.conf import settings

from beat.models import Beat
from executions import queues
from executions.clock import database_now
from executions.health import unapplied_migrations
from executions.outages import why_unreachable
from workers.models import Worker


class Visit:
    """One look at the installation."""

    @cached_property
    def why_no_database(self) -> str:
        """What keeps it from answering; empty if it does."""
        return why_unreachable()

    @cached_property
    def unapplied(self) -> list[str]:
        """The migrations that are missing."""
        return unapplied_migrations()

    @property
    def is_database_sound(self) -> bool:
        """It answers, and has all tables."""
        return not self.why_no_database and not self.unapplied

    @cached_property
    def now(self) -> datetime:
        return database_now()

    @cached_property
    def ticking(self) -> list[Beat]:
        within = timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
        return list(Beat.objects.ticking(self.now, within=within).order_by("name"))

    @cached_property
    def workers(self) -> list[Worker]:
        return list(Worker.objects.order_by("name"))

    @cached_property
    def alive(self) -> list[Worker]:
        since = self.now - timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
        return [worker for worker in self.workers if worker.heartbeat_at >= since]

    @cached_property
    def consumed(self) -> frozenset[str]:
        """The jobs' names of the queues that somebody takes from."""
        names = (queues.job_queue_name(name) for worker in self.alive for name in worker.queues)
        return frozenset(name for name in names if name)

    def is_ticking_for(self, minutes: float) -> bool:
        """Whether a beat works that had so much time to do what it finds undone."""
        return any(beat.started_at <= self.now - timedelta(minutes=minutes) for beat in self.ticking)
