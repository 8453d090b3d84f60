"""One tick: plan what is nearly due, publish what is due now.

Apart from the loop that calls it, and given the moment, so that it can be tried without waiting. Its cost depends on
what is due, never on how many schedules are stored.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from beat.aside import Aside, AtOnce
from beat.heartbeat import Progress
from beat.held_queues import PAUSE, HeldQueues
from beat.lease import Leases, execution_key
from beat.planning import LEFT_LYING, OTHERS_AT_ONCE, Planned, Planner
from beat.shards import ALL, Shards, part
from executions import events, lifecycle, outbox
from executions.confirms import Report
from executions.dispatch import Publisher, Sent
from executions.models import Execution
from executions.outgoing import Due

_NEAR = timedelta(seconds=10)
# How long a tick goes on if there is that much to do. First it plans for a moment, so that what is published next is
# the most urgent of all that is due.
_PLAN_FIRST_SECONDS = 0.15
_PATIENCE_SECONDS = 1.0
_BATCHES_PER_LOOK = 10


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
    aside: Aside = field(default_factory=AtOnce)
    is_stopping: Callable[[], bool] = lambda: False
    is_broker_away: bool = False
    held_queues: HeldQueues = field(default_factory=HeldQueues)
    plan_every: timedelta = timedelta(0)
    _began: float = 0.0
    _planned_at: datetime | None = None
    _planned_for: frozenset[int] = ALL
    _has_more_to_plan: bool = False
    _looked_around_at: datetime | None = None

    def tick(self, now: datetime) -> TickReport:
        self._began = time.monotonic()
        # In the middle of a burst it goes on aside: what is most urgent of all was found out when it began.
        is_under_way = self._has_more_to_plan and not self.is_broker_away
        planned = Planned(has_more=is_under_way)
        if not is_under_way and self._is_time_to_plan(now):
            planned = self._plan_due(now)
        planned, published = self._publish_due(now, planned, is_under_way=is_under_way)
        self._has_more_to_plan = planned.has_more
        # What is due and could not be published waits for the next poll.
        coming = outbox.next_at(now, until=now + _NEAR, part=part(self.shards.publishing))
        # Only who got something done goes on at once: one that is held up would spin.
        has_more = planned.has_more or (published.has_more and not published.is_stuck)
        return TickReport(planned.fires, published.count, has_more, coming, published.oldest)

    def _is_time_to_plan(self, now: datetime) -> bool:
        """Fires are planned seconds ahead: in a busy time not each tick has to look for more, unless shards are new."""
        is_fresh = self._is_fresh(self._planned_at, now) and self._planned_for == self.shards.planning
        return not is_fresh or self._has_more_to_plan

    def _plan_due(self, now: datetime) -> Planned:
        self._planned_at, self._planned_for = now, self.shards.planning
        deadline = time.monotonic() + _PLAN_FIRST_SECONDS
        total = Planned()
        while True:
            self.progress.made()
            total = total.and_then(self._plan_batch(now))
            if not total.has_more or self._must_end(deadline):
                return total

    def _go_on_with(self, planning: "_Planning", now: datetime) -> None:
        planning.go_on(lambda: self.aside.submit(self._plan_batch, now))

    def _plan_batch(self, now: datetime) -> Planned:
        return self.planner.plan_due(now=now, among=self.shards.planning)

    def _must_end(self, deadline: float) -> bool:
        return self.is_stopping() or time.monotonic() > deadline

    def _publish_due(self, now: datetime, planned: Planned, *, is_under_way: bool) -> tuple[Planned, "_Published"]:
        """Look after look, each at the most urgent of all that is due then. What is left to plan is planned aside."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        total = _Published()
        self.progress.made()
        if self.is_broker_away and not self.publisher.reaches():
            return planned, total  # a long backlog need not be read for that
        self._say_how_the_broker_is("", waiting=0)  # it answered above, or nobody doubts it
        planning = _Planning(planned)
        if is_under_way:
            self._go_on_with(planning, now)
        try:
            while True:
                self.progress.made()
                due = self._find_due(now, total.denied)
                total = total.and_then(self._publish(due, now, deadline, planning))
                is_all = len(due) < self._look_size
                if total.is_stuck or self._must_end(deadline) or (is_all and not planning.brought_more()):
                    return planning.end(), replace(total, has_more=total.has_more or not is_all)
        finally:
            planning.wait()

    def _publish(self, due: Sequence[Due], now: datetime, deadline: float, planning: "_Planning") -> "_Published":
        """Batch after batch. While the broker takes one in, the next is read and sent, and the one before written down.

        At the end all are written down: what is still due then was not published.
        """
        total, is_cut_short = _Published(), False
        on_its_way: _Batch | None = None
        written: list[Future[_Published]] = []
        try:
            for start in range(0, len(due), self.batch_size):
                is_cut_short = bool(start) and (total.is_stuck or self._must_end(deadline))
                if is_cut_short:
                    break
                if not self._must_end(deadline):
                    self._go_on_with(planning, now)
                batch = self._send(due[start : start + self.batch_size], now)
                if on_its_way is not None:
                    written.append(self._settle(on_its_way, now))
                on_its_way = batch
                while len(written) > 1:
                    total = total.and_then(written.pop(0).result())
            if on_its_way is not None:
                written.append(self._settle(on_its_way, now))
            for one in written:
                total = total.and_then(one.result())
        except Exception:
            self.publisher.drop()  # what is on its way is unknown, and the next tick begins anew
            wait(written)
            raise
        return replace(total, has_more=is_cut_short)

    def _send(self, due: Sequence[Due], now: datetime) -> "_Batch":
        """What to send is read under the leases: who had one before marked what it sent before it gave it back."""
        self.progress.made()
        keys = [execution_key(one) for one in due]
        taken = self.leases.take(keys)
        ids = [one.pk for one, is_ours in zip(due, taken, strict=True) if is_ours]
        rows = outbox.outgoing(ids, due_by=now, without=self.held_queues.closed(now))
        self.progress.made()
        return _Batch(
            sent=self.publisher.send(rows) if rows else None,
            keys=[key for key, is_ours in zip(keys, taken, strict=True) if is_ours],
            denied=len(due) - len(ids),
        )

    def _settle(self, batch: "_Batch", now: datetime) -> "Future[_Published]":
        """Hear what the broker says of a batch, and let it be written down."""
        if batch.sent is None:
            return self.aside.submit(self._give_back, batch)
        self.progress.made()
        report = self.publisher.settle(batch.sent)
        self.progress.made()
        # A burst takes seconds, and each batch bears the moment at which the broker had confirmed it.
        confirmed_at = now + timedelta(seconds=time.monotonic() - self._began)
        for queue, reason in self.held_queues.learn_from(report, now=now).items():
            lifecycle.explain(Execution.objects.due(now).filter(queue=queue), reason=reason)
        self._say_how_the_broker_is(report.error, waiting=len(report.unknown))
        return self.aside.submit(self._write_down, batch, report, now, confirmed_at)

    def _give_back(self, batch: "_Batch") -> "_Published":
        self.leases.release(batch.keys)
        return _Published(denied=batch.denied)

    def _write_down(self, batch: "_Batch", report: Report, now: datetime, confirmed_at: datetime) -> "_Published":
        """Record what the broker said."""
        count = lifecycle.mark_queued(report.confirmed, now=now, confirmed_at=confirmed_at)
        for reason, held in report.held.items():
            lifecycle.hold(held, reason=reason, until=now + PAUSE)
        self.leases.release(batch.keys)
        oldest = min((row.available_at for row in report.confirmed), default=None)
        # Not by the count: fast workers may have begun with all of them.
        return _Published(count, oldest, batch.denied, is_stuck=not report.confirmed and not report.held)

    @property
    def _look_size(self) -> int:
        """How many a look finds at most. At its end all has to be written down, so it is worth more than one batch."""
        return _BATCHES_PER_LOOK * self.batch_size

    def _find_due(self, now: datetime, beyond: int) -> list[Due]:
        """What is due, beyond so many that others hold: those of our shards, the most urgent first; if there is room,
        what others should have published.

        What an app holds is passed by: it would be published for nothing. Only what names a lease: who is frozen while
        it is sent a long answer keeps its locks.
        """
        closed, ours, most = self.held_queues.closed(now), self.shards.publishing, self._look_size
        due = outbox.most_urgent(now, part=part(ours), without=closed, most=most, beyond=beyond)
        if ours != ALL and not beyond and len(due) < most and self._is_time_to_look_around(now):
            lying, room = now - LEFT_LYING, min(most - len(due), OTHERS_AT_ONCE)
            due += outbox.most_urgent(lying, part=part(ALL - ours), without=closed, most=room)
        return due

    def _is_time_to_look_around(self, now: datetime) -> bool:
        """What others leave lying has seconds of time: not each tick has to look for it."""
        if self._is_fresh(self._looked_around_at, now):
            return False
        self._looked_around_at = now
        return True

    def _is_fresh(self, moment: datetime | None, now: datetime) -> bool:
        return moment is not None and timedelta(0) <= now - moment < self.plan_every

    def _say_how_the_broker_is(self, error: str, *, waiting: int) -> None:
        if error and not self.is_broker_away:
            events.warn("the broker is away: executions wait in the database", waiting=waiting, error=error)
        if not error and self.is_broker_away:
            events.emit("the broker is back: waiting executions are published")
        self.is_broker_away = bool(error)


@dataclass
class _Planning:
    """What was planned in a tick, and goes on aside."""

    total: Planned
    _batch: "Future[Planned] | None" = None

    def go_on(self, plan: "Callable[[], Future[Planned]]") -> None:
        """With the next batch, if there is one and the last is done."""
        if self._batch is not None and self._batch.done():
            self.end()
        if self._batch is None and self.total.has_more:
            self._batch = plan()

    def brought_more(self) -> bool:
        """Whether fires came of the batch that was being planned."""
        before = self.total.fires
        return self.end().fires > before

    def wait(self) -> None:
        if self._batch is not None:
            wait([self._batch])

    def end(self) -> Planned:
        if self._batch is not None:
            batch, self._batch = self._batch, None
            self.total = self.total.and_then(batch.result())
        return self.total


@dataclass(frozen=True)
class _Batch:
    """What was sent together."""

    sent: Sent | None
    keys: list[str]  # of their leases
    denied: int  # due, and under the lease of another beat


@dataclass(frozen=True)
class _Published:
    count: int = 0
    oldest: datetime | None = None
    denied: int = 0
    has_more: bool = False
    is_stuck: bool = False  # of the last the broker took nothing: who goes on at once would spin

    def and_then(self, following: "_Published") -> "_Published":
        oldest = min(filter(None, [self.oldest, following.oldest]), default=None)
        return replace(
            following, count=self.count + following.count, oldest=oldest, denied=self.denied + following.denied
        )
