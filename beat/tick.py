"""One tick: plan what is nearly due, publish what is due now.

Apart from the loop that calls it, and given the moment, so that it can be tried without waiting. Its cost depends on
what is due, never on how many schedules are stored.
"""

import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from beat.aside import Aside, AtOnce
from beat.heartbeat import Progress
from beat.held_queues import PAUSE, HeldQueues
from beat.lease import Leases, execution_key
from beat.planning import LEFT_LYING, OTHERS_AT_ONCE, Planned, Planner
from beat.shards import ALL, Shards, part
from executions import events, lifecycle, metrics, outbox
from executions.confirms import Report
from executions.dispatch import Publisher, Sent
from executions.models import Execution
from executions.outgoing import Due, Outgoing

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_NEAR = timedelta(seconds=10)
# How long a tick goes on if there is that much to do. First it plans for a moment, so that what is published next is
# the most urgent of all that is due. Aside it goes on for as long at a time.
_PLAN_FOR_SECONDS = 0.15
_PATIENCE_SECONDS = 2.0
_BATCHES_PER_LOOK = 10
# A broker confirms what it has written to disk, many batches at a time: who waits for each has nothing under way.
_BATCHES_ON_THEIR_WAY = 3
_MOMENT_SECONDS = 0.02


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
    _tick_at: datetime = _LONG_AGO
    _began: float = 0.0
    _planned_at: datetime | None = None
    _planned_for: frozenset[int] = ALL
    _has_more_to_plan: bool = False
    _fires_planned: int = 0
    _looked_around_at: datetime | None = None

    def tick(self, now: datetime) -> TickReport:
        self._tick_at, self._began = now, time.monotonic()
        # In the middle of a burst it goes on aside: what is most urgent of all was found out when it began.
        is_under_way = self._has_more_to_plan and not self.is_broker_away
        planned = Planned(has_more=is_under_way)
        if not is_under_way and self._is_time_to_plan(now):
            planned = self._plan_due(now)
        planned, published = self._publish_due(planned, is_under_way=is_under_way)
        self._has_more_to_plan = planned.has_more
        # What is due and could not be published waits for the next poll.
        coming = outbox.next_at(now, until=now + _NEAR, part=part(self.shards.publishing))
        # Only who got something done goes on at once: one that is held up would spin.
        has_more = planned.has_more or (published.has_more and not published.is_stuck)
        return TickReport(planned.fires, published.count, has_more, coming, published.oldest)

    def _moment(self) -> datetime:
        """What time it is by now: a burst takes seconds, and what comes due meanwhile may be more urgent."""
        return self._tick_at + timedelta(seconds=time.monotonic() - self._began)

    def _is_time_to_plan(self, now: datetime) -> bool:
        """Fires are planned seconds ahead: in a busy time not each tick has to look for more, unless shards are new."""
        is_fresh = self._is_fresh(self._planned_at, now) and self._planned_for == self.shards.planning
        return not is_fresh or self._has_more_to_plan

    def _plan_due(self, now: datetime) -> Planned:
        self._planned_at, self._planned_for = now, self.shards.planning
        return self._plan_for_a_while(now)

    def _go_on_with(self, planning: "_Planning") -> None:
        planning.go_on(lambda: self.aside.submit(self._plan_for_a_while, self._moment()))

    def _plan_for_a_while(self, now: datetime) -> Planned:
        """Batch after batch, so that planning does not wait for whoever publishes."""
        deadline = time.monotonic() + _PLAN_FOR_SECONDS
        total = Planned()
        while True:
            total = total.and_then(self._plan_batch(now))
            if not total.has_more or self._must_end(deadline):
                return total

    def _plan_batch(self, now: datetime) -> Planned:
        self.progress.made()
        planned = self.planner.plan_due(now=now, among=self.shards.planning)
        self._fires_planned += planned.fires  # nobody else plans at the same time
        return planned

    def _must_end(self, deadline: float) -> bool:
        return self.is_stopping() or time.monotonic() > deadline

    def _publish_due(self, planned: Planned, *, is_under_way: bool) -> tuple[Planned, "_Flow"]:
        """Look after look, each at the most urgent of all that is due then. What is left to plan is planned aside."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        self.progress.made()
        if self.is_broker_away and not self.publisher.reaches():
            return planned, _Flow(is_stuck=True)  # a long backlog need not be read for that
        self._say_how_the_broker_is("", waiting=0)  # it answered above, or nobody doubts it
        flow, planning = _Flow(), _Planning(planned)
        if is_under_way:
            self._go_on_with(planning)
        try:
            while self._publish_more(flow, planning, deadline):
                self.progress.made()
            while flow.sent:
                self._settle_next(flow)
            flow.take_in(until_left=0)
            return planning.end(), flow
        except Exception:
            self.publisher.drop()  # what is on its way is unknown, and the next tick begins anew
            wait(flow.writing)
            raise
        finally:
            planning.wait()

    def _publish_more(self, flow: "_Flow", planning: "_Planning", deadline: float) -> bool:
        """One step: look for more and send it, or wait a moment for what is under way. False: that was all, for now."""
        if not self._must_end(deadline):
            self._go_on_with(planning)
        if flow.has_more or flow.fires_seen != self._fires_planned:
            self._send_most_urgent(flow, planning, deadline)
        elif not planning.is_under_way:
            return False
        elif flow.sent:
            self._hear(flow)
        else:
            planning.wait(_MOMENT_SECONDS)
        return not flow.is_stuck and not self._must_end(deadline)

    def _send_most_urgent(self, flow: "_Flow", planning: "_Planning", deadline: float) -> None:
        """One look, and what it finds, batch after batch."""
        flow.fires_seen = self._fires_planned
        now = self._moment()
        due = self._find_due(now, flow.passed_by)
        flow.has_more = len(due) == self._look_size
        for start in range(0, len(due), self.batch_size):
            if start and (flow.is_stuck or self._must_end(deadline)):
                flow.has_more = True
                return
            if start:
                self._go_on_with(planning)
            self._send(due[start : start + self.batch_size], flow, now)
            self._settle_answered(flow)
            while len(flow.sent) > _BATCHES_ON_THEIR_WAY:
                self._settle_next(flow)

    def _send(self, due: Sequence[Due], flow: "_Flow", now: datetime) -> None:
        """What to send is read under the leases: who had one before marked what it sent before it gave it back."""
        self.progress.made()
        keys = [execution_key(one) for one in due]
        taken = self.leases.take(keys)
        flow.passed_by.update(one.pk for one in due)
        ids = [one.pk for one, is_ours in zip(due, taken, strict=True) if is_ours]
        rows = outbox.outgoing(ids, due_by=now, without=self.held_queues.closed(now))
        self.progress.made()
        flow.sent.append(
            _Batch(
                sent=self.publisher.send(rows) if rows else None,
                keys=[key for key, is_ours in zip(keys, taken, strict=True) if is_ours],
            )
        )

    def _hear(self, flow: "_Flow") -> None:
        """Wait a moment for what the broker says of the batch that was sent first."""
        first = flow.sent[0].sent
        if first is not None:
            self.publisher.listen(first, seconds=_MOMENT_SECONDS)
        self._settle_answered(flow)

    def _settle_answered(self, flow: "_Flow") -> None:
        while flow.sent and flow.sent[0].is_answered:
            self._settle_next(flow)

    def _settle_next(self, flow: "_Flow") -> None:
        """Hear what the broker says of the batch that was sent first, and let it be written down."""
        batch = flow.sent.popleft()
        if batch.sent is None:
            flow.writing.append(self.aside.submit(self._give_back, batch))
            return
        self.progress.made()
        report = self.publisher.settle(batch.sent)
        self.progress.made()
        flow.is_stuck = not report.confirmed and not report.held
        now = self._moment()
        metrics.LATENESS.observe_all((now - row.available_at).total_seconds() for row in report.confirmed)
        for queue, reason in self.held_queues.learn_from(report, now=now).items():
            lifecycle.explain(Execution.objects.due(now).filter(queue=queue), reason=reason)
        self._say_how_the_broker_is(report.error, waiting=len(report.unknown))
        flow.writing.append(self.aside.submit(self._write_down, batch, report, now))
        flow.take_in(until_left=1)

    def _give_back(self, batch: "_Batch") -> "_Written":
        self.leases.release(batch.keys)
        return _Written()

    def _write_down(self, batch: "_Batch", report: Report, now: datetime) -> "_Written":
        """Record what the broker said by now."""
        count = lifecycle.mark_queued(report.confirmed, now=now)
        for reason, held in report.held.items():
            lifecycle.hold(held, reason=reason, until=now + PAUSE)
        self.leases.release(batch.keys)
        return _Written(count, report.confirmed)

    @property
    def _look_size(self) -> int:
        """How many a look finds at most: a look has its price, and what comes due meanwhile waits for the next one."""
        return _BATCHES_PER_LOOK * self.batch_size

    def _find_due(self, now: datetime, passed_by: Collection[uuid.UUID]) -> list[Due]:
        """What is due, but for some that are passed by: those of our shards, the most urgent first; if there is room,
        what others should have published.

        What an app holds is passed by: it would be published for nothing. Only what names a lease: who is frozen while
        it is sent a long answer keeps its locks.
        """
        closed, ours, most = self.held_queues.closed(now), self.shards.publishing, self._look_size
        due = outbox.most_urgent(now, part=part(ours), without=closed, passed_by=passed_by, most=most)
        if ours != ALL and len(due) < most and self._is_time_to_look_around(now):
            lying, room = now - LEFT_LYING, min(most - len(due), OTHERS_AT_ONCE)
            due += outbox.most_urgent(lying, part=part(ALL - ours), without=closed, passed_by=passed_by, most=room)
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
    _batches: "Future[Planned] | None" = None
    _is_in_vain: bool = False  # somebody holds what is left

    def go_on(self, plan: "Callable[[], Future[Planned]]") -> None:
        """With the next batches, if there are any and the last are done."""
        if self._batches is not None and self._batches.done():
            self.end()
        if self._batches is None and self.is_under_way:
            self._batches = plan()

    @property
    def is_under_way(self) -> bool:
        return self._batches is not None or (self.total.has_more and not self._is_in_vain)

    def wait(self, seconds: float | None = None) -> None:
        if self._batches is not None:
            wait([self._batches], timeout=seconds)

    def end(self) -> Planned:
        if self._batches is not None:
            batches, self._batches = self._batches, None
            brought = batches.result()
            self._is_in_vain = not brought.fires
            self.total = self.total.and_then(brought)
        return self.total


@dataclass(frozen=True)
class _Batch:
    """What was sent together."""

    sent: Sent | None
    keys: list[str]  # of their leases

    @property
    def is_answered(self) -> bool:
        """Whether nobody has to wait for the broker."""
        return self.sent is None or bool(self.sent.error) or not self.sent.confirms.outstanding


@dataclass(frozen=True)
class _Written:
    """What became of a batch."""

    count: int = 0
    confirmed: Sequence[Outgoing] = ()


@dataclass
class _Flow:
    """What a tick publishes: one batch is being sent while the broker takes in some that were sent before, and what it
    has confirmed is written down. At the end of a tick all is: what is still due then was not published."""

    sent: deque[_Batch] = field(default_factory=deque)
    writing: "deque[Future[_Written]]" = field(default_factory=deque)
    # Still SCHEDULED, and nothing for the next look: on their way, or under the lease of another beat.
    passed_by: set[uuid.UUID] = field(default_factory=set)
    count: int = 0
    oldest: datetime | None = None
    has_more: bool = True  # as long as nobody has looked
    fires_seen: int = 0  # when it last looked; there were no more than these
    is_stuck: bool = False  # of the last the broker took nothing: who goes on at once would spin

    def take_in(self, *, until_left: int) -> None:
        """What was written down. What was not, though it was confirmed, may be looked at again: somebody held it."""
        while len(self.writing) > until_left:
            written = self.writing.popleft().result()
            self.count += written.count
            self.passed_by.difference_update(row.pk for row in written.confirmed)
            first = min((row.available_at for row in written.confirmed), default=None)
            self.oldest = min(filter(None, [self.oldest, first]), default=None)
