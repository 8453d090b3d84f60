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
from executions.models import Execution

REASON = "its message was lost; it is published again"
_MOST = 1000


def return_lost_messages(now: datetime) -> int:
    before = now - timedelta(seconds=settings.ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS)
    queues = sorted(set(Execution.objects.queued_before(before).values_list("queue", flat=True)))
    returned = 0
    for queue, ready in depths.ready(queues).items():
        if ready == 0:
            lost = list(Execution.objects.queued_before(before).filter(queue=queue).order_by("queued_at")[:_MOST])
            count = lifecycle.hold(lost, reason=REASON, until=now)
            if count:
                events.warn("messages were lost: their executions are published again", queue=queue, count=count)
            returned += count
    return returned


DUTY = Duty(
    name="lost-messages",
    does="publishes executions again whose message the broker lost",
    every=timedelta(seconds=15),
    run=return_lost_messages,
)
