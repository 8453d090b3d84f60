"""One tick: plan what is nearly due, publish what is due now.

Apart from the loop that calls it, and given the moment, so that it can be tried without waiting. Its cost depends on
what is due, never on how many schedules are stored.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Min, Q

from beat.heartbeat import Progress
from beat.held_queues import PAUSE, HeldQueues
from beat.lease import Leases, execution_key
from beat.planning import LEFT_LYING, Planner
from beat.shards import ALL, Shards, within
from executions import events, lifecycle
from executions.confirms import Report
from executions.dispatch import Publisher, Sent
from executions.models import Execution, ExecutionQuerySet
from executions.outgoing import Due, Outgoing

_NEAR = timedelta(seconds=10)
# For each half of a tick, if there is that much to do: first to plan, so that what is published next is the most
# urgent of all that is due.
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True)
class TickReport:
    planned: int = 0
    published: int = 0
    has_more: bool = False
    next_available_at: datetime | None = None
    oldest_published: datetime | None = None  # when the one was due that waited longest


@dataclass
class Ticker:
    """What a beat keeps from tick to tick."""

    planner: Planner
    leases: Leases
    publisher: Publisher
    batch_size: int
    shards: Shards
    progress: Progress
    is_stopping: Callable[[], bool] = lambda: False
    is_broker_away: bool = False
    held_queues: HeldQueues = field(default_factory=HeldQueues)
    _began: float = 0.0

    def tick(self, now: datetime) -> TickReport:
        self._began = time.monotonic()
        planned, has_more_to_plan = self._plan_due(now)
        first = self._first_available(now, Execution.objects.scheduled())
        if (first is None or first > now) and not self.is_broker_away:
            return TickReport(planned, has_more=has_more_to_plan, next_available_at=first)
        published = self._publish_due(now)
        # What is due and could not be published waits for the next poll.
        coming = self._first_available(now, Execution.objects.scheduled().filter(available_at__gt=now))
        # Only who got something done goes on at once: one that is held up would spin.
        has_more = has_more_to_plan or (published.has_more and published.count > 0)
        return TickReport(planned, published.count, has_more, coming, published.oldest)

    def _plan_due(self, now: datetime) -> tuple[int, bool]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        total = 0
        while True:
            self.progress.made()
            batch = self.planner.plan_due(now=now, among=self.shards.planning)
            total += batch.fires
            if not batch.has_more or self._must_end(deadline):
                return total, batch.has_more

    def _must_end(self, deadline: float) -> bool:
        return self.is_stopping() or time.monotonic() > deadline

    def _publish_due(self, now: datetime) -> "_Published":
        """Batch after batch. While the broker takes one in, the next is read and sent."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        total = _Published()
        self.progress.made()
        if self.is_broker_away and not self.publisher.reaches():
            return total  # a long backlog need not be read for that
        try:
            first = self._send_batch(now)
            if first.sent is None:
                self._say_how_the_broker_is("", waiting=0)  # it answered above, or nobody doubts it
            batch: _Batch | None = first
            while batch is not None:
                may_follow = batch.is_full and not total.is_stuck and not self._must_end(deadline)
                beyond = total.denied + batch.denied
                following = self._send_batch(now, beyond=beyond, besides=batch) if may_follow else None
                total = total.and_then(self._settle(batch, now))
                batch = following
        except Exception:
            self.publisher.drop()  # what is on its way is unknown, and the next tick begins anew
            raise
        return total

    def _send_batch(self, now: datetime, *, beyond: int = 0, besides: "_Batch | None" = None) -> "_Batch":
        """The next of what is due: beyond so many that others hold, and besides those that are on their way.

        What to send is read under the leases: who had them before has marked what it sent before it gave them back.
        """
        self.progress.made()
        due = self._find_due(now, beyond, besides.ours if besides else [])
        keys = [execution_key(one) for one in due]
        taken = self.leases.take(keys)
        ids = [one.pk for one, is_ours in zip(due, taken, strict=True) if is_ours]
        ours = Execution.objects.with_ids(ids).due(now).by_urgency().to_publish()
        self.progress.made()
        return _Batch(
            ours=ours,
            sent=self.publisher.send(ours) if ours else None,
            keys=[key for key, is_ours in zip(keys, taken, strict=True) if is_ours],
            denied=len(due) - len(ids),
            is_full=len(due) == self.batch_size,
        )

    def _settle(self, batch: "_Batch", now: datetime) -> "_Published":
        if batch.sent is None:
            self.leases.release(batch.keys)
            return _Published(denied=batch.denied, has_more=batch.is_full)
        self.progress.made()
        report = self.publisher.settle(batch.sent)
        self.progress.made()
        count = self._write_down(report, now)
        self.leases.release(batch.keys)
        oldest = min((row.available_at for row in report.confirmed), default=None)
        # Only who got something done goes on at once: one that is held up would spin.
        is_stuck = count == 0 and not report.held
        return _Published(count, oldest, batch.denied, has_more=batch.is_full and not is_stuck, is_stuck=is_stuck)

    def _find_due(self, now: datetime, beyond: int, besides: Sequence[Outgoing]) -> list[Due]:
        """What is due, up to a batch: those of our shards, the most urgent first; if there is room, what others should
        have published.

        What an app holds is passed by: it would be published for nothing. Only what names a lease: who is frozen while
        it is sent a long answer keeps its locks.
        """
        rows = Execution.objects.due(now).exclude(pk__in=[execution.pk for execution in besides])
        rows = rows.exclude(queue__in=self.held_queues.closed(now)).by_urgency()
        ours = self.shards.publishing
        with transaction.atomic():
            free = rows.select_for_update(skip_locked=True)
            due = within(free, ours)[beyond : beyond + self.batch_size].to_lease()
            if ours != ALL and not beyond and len(due) < self.batch_size:
                lying = within(free.filter(available_at__lt=now - LEFT_LYING), ALL - ours)
                due += lying[: self.batch_size - len(due)].to_lease()
        return due

    def _write_down(self, report: Report, now: datetime) -> int:
        """Record what the broker said; returns how many are QUEUED now."""
        # A burst takes seconds, and each batch bears the moment at which the broker had confirmed it.
        confirmed_at = now + timedelta(seconds=time.monotonic() - self._began)
        queued = lifecycle.mark_queued(report.confirmed, now=now, confirmed_at=confirmed_at)
        for reason, held in report.held.items():
            lifecycle.hold(held, reason=reason, until=now + PAUSE)
        for queue, reason in self.held_queues.learn_from(report, now=now).items():
            lifecycle.explain(Execution.objects.due(now).filter(queue=queue), reason=reason)
        self._say_how_the_broker_is(report.error, waiting=len(report.unknown))
        return queued

    def _say_how_the_broker_is(self, error: str, *, waiting: int) -> None:
        if error and not self.is_broker_away:
            events.warn("the broker is away: executions wait in the database", waiting=waiting, error=error)
        if not error and self.is_broker_away:
            events.emit("the broker is back: waiting executions are published")
        self.is_broker_away = bool(error)

    def _first_available(self, now: datetime, rows: ExecutionQuerySet) -> datetime | None:
        """Of our shards, or of those that others left lying. What is far off is none of this tick's business."""
        near = rows.filter(available_at__lte=now + _NEAR)
        found = within(near, self.shards.publishing, or_if=Q(available_at__lt=now - LEFT_LYING))
        moment: datetime | None = found.aggregate(first=Min("available_at"))["first"]
        return moment


@dataclass(frozen=True)
class _Batch:
    """What was sent together."""

    ours: list[Outgoing]
    sent: Sent | None
    keys: list[str]  # of their leases
    denied: int  # due, and under the lease of another beat
    is_full: bool  # there may be more


@dataclass(frozen=True)
class _Published:
    count: int = 0
    oldest: datetime | None = None
    denied: int = 0
    has_more: bool = False
    is_stuck: bool = False

    def and_then(self, following: "_Published") -> "_Published":
        oldest = min(filter(None, [self.oldest, following.oldest]), default=None)
        return replace(
            following, count=self.count + following.count, oldest=oldest, denied=self.denied + following.denied
        )
