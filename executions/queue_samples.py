"""How many executions waited, queue by queue and minute by minute: whether a queue grows.

Owns the table of samples. Invariant: a minute has one sample of a queue, whoever takes it and however many do, and a
queue without a sample in a minute had nothing waiting when the others were taken. So a queue in which nothing waits
costs no rows: the first sample of nothing ends its series.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Max

from executions import backlog
from executions.models import QueueSample

KEPT = timedelta(hours=24)
# A queue grows if there wait at least so many more, and so many times as many, as this long ago.
GROWS_WITHIN = timedelta(minutes=10)
GROWS_BY = 20
GROWS_TIMES = 1.5

Sample = tuple[datetime, int]  # when, and how many waited


def sample(now: datetime) -> int:
    """Note what waits at this moment, due or queued; returns how many queues were noted."""
    waiting = {queue: found for queue, found in backlog.by_queue(now=now).items() if found.waiting}
    ended = _waited_last() - waiting.keys()
    at = now.replace(second=0, microsecond=0)
    rows = [
        QueueSample(at=at, queue=queue, waiting=found.waiting, oldest_seconds=found.oldest_seconds(now))
        for queue, found in waiting.items()
    ]
    rows += [QueueSample(at=at, queue=queue, waiting=0) for queue in sorted(ended)]
    QueueSample.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _waited_last() -> set[str]:
    """The queues of whose samples the last one is of something."""
    last = dict(QueueSample.objects.order_by().values_list("queue").annotate(Max("at")))
    samples = QueueSample.objects.filter(at__in=set(last.values()), waiting__gt=0).values_list("queue", "at")
    return {queue for queue, at in samples if at == last[queue]}


def forget(now: datetime) -> int:
    """Delete samples that are past their time; returns how many."""
    gone, _ = QueueSample.objects.filter(at__lt=now - KEPT).delete()
    return gone


def history(since: datetime) -> dict[str, list[Sample]]:
    """The samples from a moment on, by queue, oldest first. One query."""
    found: defaultdict[str, list[Sample]] = defaultdict(list)
    for queue, at, waiting in (
        QueueSample.objects.filter(at__gte=since).order_by("at").values_list("queue", "at", "waiting")
    ):
        found[queue].append((at, waiting))
    return dict(found)


def is_growing(samples: Sequence[Sample], waiting_now: int, *, now: datetime) -> bool:
    """Whether noticeably more wait now than ten minutes ago: at least 20 more, and at least 1.5 times as many.

    What waited then is told by the last of the samples, oldest first, that is that old. If there is none nothing did;
    so give it a history of more than ten minutes. In the first ten minutes of an installation all that waits is new.
    """
    before = next((waiting for at, waiting in reversed(samples) if at <= now - GROWS_WITHIN), 0)
    return waiting_now >= before + GROWS_BY and waiting_now >= before * GROWS_TIMES
