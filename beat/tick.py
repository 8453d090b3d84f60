"""One tick: plan what is nearly due, publish what is due now.

Apart from the loop that calls it, and given the moment, so that it can be tried without waiting. Its cost depends on
what is due, never on how many schedules are stored.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Min

from beat.lease import Leases, execution_key
from beat.planning import Planner
from executions import events, lifecycle
from executions.dispatch import Publisher
from executions.models import Execution

# What its queue did not take is tried again after this long: somebody may be mending the queue at this very moment.
_HELD_PAUSE = timedelta(seconds=5)


@dataclass(frozen=True)
class TickReport:
    planned: int
    published: int
    has_more: bool
    next_available_at: datetime | None


@dataclass
class Ticker:
    """What a beat keeps from tick to tick."""

    planner: Planner
    leases: Leases
    publisher: Publisher
    batch_size: int
    is_broker_away: bool = False

    def tick(self, now: datetime) -> TickReport:
        planned = self.planner.plan_due(now=now)
        due, published = self._publish_due(now)
        # Only a tick that got something done is followed at once by another: one that is held up would spin.
        has_more = (planned > 0 or published > 0) and max(planned, due) >= self.batch_size
        return TickReport(planned, published, has_more, _next_available_at(now))

    def _publish_due(self, now: datetime) -> tuple[int, int]:
        """How many were due (at most a batch) and how many of them are QUEUED now."""
        with transaction.atomic():
            # Those that an app holds are passed by, so that they neither fill the batch nor are published for nothing.
            free = Execution.objects.due(now).by_urgency().select_related("job")
            due = list(free.select_for_update(skip_locked=True, of=("self",))[: self.batch_size])
        taken = self.leases.take([execution_key(execution) for execution in due])
        ours = [execution for execution, is_ours in zip(due, taken, strict=True) if is_ours]
        if not ours:
            return len(due), 0
        report = self.publisher.publish(ours)
        queued = lifecycle.mark_queued(report.confirmed, now=now)
        for reason, held in report.held.items():
            lifecycle.hold(held, reason=reason, until=now + _HELD_PAUSE)
            events.warn("executions are held back", reason=reason, count=len(held))
        self._say_how_the_broker_is(report.error, waiting=len(report.unknown))
        return len(due), queued

    def _say_how_the_broker_is(self, error: str, *, waiting: int) -> None:
        if error and not self.is_broker_away:
            events.warn("the broker is away: executions wait in the database", waiting=waiting, error=error)
        if not error and self.is_broker_away:
            events.emit("the broker is back: waiting executions are published")
        self.is_broker_away = bool(error)


def _next_available_at(now: datetime) -> datetime | None:
    """When the next planned execution is due. What is due and could not be published waits for the next poll."""
    moment: datetime | None = (
        Execution.objects.scheduled().filter(available_at__gt=now).aggregate(first=Min("available_at"))["first"]
    )
    return moment
