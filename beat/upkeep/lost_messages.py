"""Publish again what the broker lost.

A row that is QUEUED has a message, unless somebody purged or deleted the queue, or the broker lost its disk. Age alone
proves nothing: a long line is no loss, and to publish it again would double it. So a row comes back only if it has been
QUEUED for long and no message of its queue is waiting. If a worker held the message after all, the claim drops the
second copy.
"""

from datetime import datetime, timedelta

from django.conf import settings

from beat.upkeep.duty import Duty
from executions import depths, events, lifecycle
from executions.models import Execution, ExecutionQuerySet

REASON = "its message was lost; it is published again"
_AT_ONCE = 1000


def return_lost_messages(now: datetime) -> int:
    before = now - timedelta(seconds=settings.ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS)
    queues = Execution.objects.queued_before(before).order_by("queue").values_list("queue", flat=True).distinct()
    empty = [queue for queue, ready in depths.ready(queues).items() if ready == 0]
    return sum(_return_all(Execution.objects.queued_before(before).filter(queue=queue), queue, now) for queue in empty)


def _return_all(lost: ExecutionQuerySet, queue: str, now: datetime) -> int:
    """All were proved lost by the same look, so they all come back, the longest lost first."""
    returned = 0
    while rows := list(lost.order_by("queued_at").only("pk", "attempt")[:_AT_ONCE]):
        count = lifecycle.hold(rows, reason=REASON, until=now)
        returned += count
        if count < len(rows):
            break  # somebody holds some of them: the next look finds these
    if returned:
        events.warn("messages were lost: their executions are published again", queue=queue, count=returned)
    return returned


DUTY = Duty(
    name="lost-messages",
    does="publishes executions again whose message the broker lost",
    every=timedelta(seconds=15),
    run=return_lost_messages,
)
