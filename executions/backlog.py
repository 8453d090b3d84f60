"""What waits, queue by queue, as the database knows it. The broker's own count is in `executions/depths.py`.

Invariant: a constant number of statements; costs what is open, never what is over.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min

from executions.models import Execution


@dataclass
class Backlog:
    due: int = 0  # their time has come, and they are to be published
    queued: int = 0  # published, and taken by no worker yet
    running: int = 0
    oldest: datetime | None = None  # since when the oldest of the due and queued ones could have run

    @property
    def waiting(self) -> int:
        return self.due + self.queued

    def oldest_seconds(self, now: datetime) -> float | None:
        """How long the oldest of them waits. What was published ahead of its time does not yet."""
        return None if self.oldest is None else max(0.0, (now - self.oldest).total_seconds())


def by_queue(*, now: datetime) -> dict[str, Backlog]:
    found: dict[str, Backlog] = {}

    def of(queue: str) -> Backlog:
        return found.setdefault(queue, Backlog())

    due = Execution.objects.due(now).order_by().values_list("queue").annotate(Count("pk"), Min("available_at"))
    for queue, count, oldest in due:
        of(queue).due, of(queue).oldest = count, oldest
    queued = Execution.objects.filter(state="QUEUED").order_by().values_list("queue")
    for queue, count, oldest in queued.annotate(Count("pk"), Min("available_at")):
        of(queue).queued = count
        of(queue).oldest = min(filter(None, [oldest, of(queue).oldest]))
    for queue, count in Execution.objects.running().order_by().values_list("queue").annotate(Count("pk")):
        of(queue).running = count
    return found
