"""Two days of executions: by the schedules, and by what an app asked for as a day goes.

Invariant: drawn from a seed, so the same moment gives the same history, but for the ids. What would end after this
moment runs at this moment.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from examples.lively_demo import errors
from examples.lively_demo.company import BERLIN, CONTACTS, EXPORTS, INDEX, STOCK, WAREHOUSE, Work, machines_of
from executions import lifecycle
from executions.fingerprint import of_error
from executions.models import Attempt, Execution
from executions.states import Outcome, State, Trigger
from jobs.models import Job

SPAN = timedelta(hours=49)
FAILS_SINCE = timedelta(hours=7)
PAUSED_SINCE = timedelta(hours=5)
_BAD_HOUR = timedelta(hours=10), timedelta(hours=9)  # ago: everything began late
_SEED = 8
_AT_ONCE = 2000
_RETRY = timedelta(minutes=10)
_TRIED_TWICE = 0.006  # the share of runs whose first attempt fails
_OVERLAPS = 0.07
_ODD_ACCOUNTS = 0.3  # the share of the failing exports that fail in the other way


@dataclass
class History:
    executions: list[Execution] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)

    def store(self) -> None:
        for first in range(0, len(self.executions), _AT_ONCE):
            lifecycle.plan(self.executions[first : first + _AT_ONCE])
        Attempt.objects.bulk_create(self.attempts, batch_size=_AT_ONCE)


def of(work: Work, job: Job, *, now: datetime) -> History:
    """What this job did until now."""
    random = Random(f"{_SEED} {work.key}")
    past = _Past(work, job, random, now, History())
    until = now - PAUSED_SINCE if work is WAREHOUSE else now
    for moment in _fires(work, until) if work.schedule else _asked(work, random, until):
        past.add(moment)
    return past.history


def _fires(work: Work, now: datetime) -> Iterator[datetime]:
    assert work.schedule is not None
    moment = work.schedule.next_after(now - SPAN)
    while moment is not None and moment <= now:
        yield moment
        moment = work.schedule.next_after(moment)


def _asked(work: Work, random: Random, now: datetime) -> Iterator[datetime]:
    """One after the other, the closer the busier the hour."""
    moment = now - SPAN
    while True:
        moment += timedelta(hours=random.expovariate(work.per_hour * busyness(moment)))
        if moment > now:
            return
        yield moment


def busyness(moment: datetime) -> float:
    """Of a company in Europe whose customers are also in America: 0 to 1, by the clocks of Berlin."""
    wall = moment.astimezone(ZoneInfo(BERLIN))
    hour = wall.hour + wall.minute / 60
    morning, afternoon, overseas = (math.exp(-(((hour - peak) / wide) ** 2)) for peak, wide in _PEAKS)
    return min(1.0, 0.06 + 0.8 * morning + 0.75 * afternoon + 0.4 * overseas)


_PEAKS = ((10.0, 2.2), (15.0, 2.4), (20.5, 2.5))


@dataclass
class _Past:
    work: Work
    job: Job
    random: Random
    now: datetime
    history: History

    def add(self, fire_time: datetime) -> None:
        trigger = Trigger.SCHEDULE if self.work.schedule else Trigger.MANUAL
        row = self.job.new_execution(fire_time, trigger=trigger, now=fire_time - timedelta(seconds=4))
        if trigger is Trigger.MANUAL:
            row.created_at = fire_time
            row.kwargs = {**row.kwargs, "order": self.random.randint(80_000, 99_999)}
        self.history.executions.append(row)
        if self.work is CONTACTS and self.random.random() < _OVERLAPS:
            row.state, row.reason = State.SKIPPED, "overlap SKIP: the previous one still ran"
            row.queued_at, row.finished_at = fire_time, fire_time + self._late()
            return
        if self.work is EXPORTS and fire_time > self.now - FAILS_SINCE:
            self._fail(row)
        elif self.work is STOCK and timedelta(hours=30) < self.now - fire_time < timedelta(hours=30, minutes=15):
            self._try(row, 1, fire_time, Outcome.FAILED, errors.REFUSED)
            row.state = State.DEAD
            row.handled_at = fire_time + timedelta(hours=2)
            row.handled_note = "their key had expired; stock was sent by hand"
        elif self.random.random() < _TRIED_TWICE:
            self._try(row, 1, fire_time, Outcome.FAILED, errors.LOCKED)
            self._succeed(row, 2, fire_time + timedelta(seconds=30))
        else:
            self._succeed(row, 1, fire_time)

    def _late(self) -> timedelta:
        """How long after it was due an attempt began."""
        return timedelta(milliseconds=min(30 * self.random.lognormvariate(0, 0.5), 400))

    def _begin(self, row: Execution, number: int, due_at: datetime) -> None:
        late = self._late()
        first, last = (self.now - ago for ago in _BAD_HOUR)
        if first <= due_at < last:
            late *= 45
        row.attempt, row.available_at, row.queued_at = number, due_at, due_at + late / 3
        row.started_at = row.heartbeat_at = due_at + late
        row.worker = self.random.choice(machines_of(row.queue))

    def _took(self) -> timedelta:
        return timedelta(seconds=self.work.seconds * self.random.lognormvariate(0, 0.22))

    def _try(self, row: Execution, number: int, due_at: datetime, outcome: Outcome, error: str = "") -> None:
        """An attempt that has ended by now, or runs."""
        self._begin(row, number, due_at)
        assert row.started_at is not None
        end = row.started_at + (self._took() if not error else timedelta(seconds=20.4 * self.random.uniform(0.9, 1.1)))
        if end > self.now:
            row.state = State.RUNNING
            return
        row.finished_at = row.heartbeat_at = end
        row.error, row.fingerprint = error, of_error(error)
        self.history.attempts.append(
            Attempt.ended(row.pk, number, outcome, row.worker, row.started_at, end, error, self._response(error))
        )

    def _succeed(self, row: Execution, number: int, due_at: datetime) -> None:
        self._try(row, number, due_at, Outcome.SUCCEEDED)
        if row.state != State.RUNNING:
            row.state, row.result = State.SUCCEEDED, self._result()
            row.error = row.fingerprint = ""

    def _fail(self, row: Execution) -> None:
        """Three attempts, as many as have passed by now."""
        is_odd = self.random.random() < _ODD_ACCOUNTS
        error = errors.odd_account(self.random.choice(["5.5", "10.7", "19.5"])) if is_odd else errors.unanswered()
        due_at = row.fire_time
        for number in range(1, row.max_attempts + 1):
            if due_at > self.now:
                row.state, row.attempt, row.available_at = State.SCHEDULED, number, due_at
                row.reason, row.finished_at = "waits for its retry", None
                return
            self._try(row, number, due_at, Outcome.FAILED, error)
            if row.state == State.RUNNING:
                return
            assert row.finished_at is not None
            due_at = row.finished_at + _RETRY
        row.state = State.DEAD

    def _result(self) -> Any:
        if self.work is STOCK:
            return None
        return {self.work.counts: self.random.randint(40, 900)} if self.work.counts else "done"

    def _response(self, error: str) -> Any:
        if self.work is not STOCK:
            return None
        return {
            "request": "POST https://hooks.northwind.example/v2/stock",
            "status": 403 if error else 204,
            "seconds": round(self.work.seconds, 3),
            "headers": {"content-type": "application/json", "x-request-id": f"{self.random.randrange(16**12):012x}"},
            "body": '{"error": "key expired"}' if error else "",
            "is_cut": False,
        }


def store(jobs: Sequence[tuple[Work, Job]], *, now: datetime) -> None:
    for work, job in jobs:
        of(work, job, now=now).store()
    _cancel_one(next(job for work, job in jobs if work is INDEX))


def _cancel_one(job: Job) -> None:
    """The latest scheduled run but one that succeeded was stopped by a person half-way."""
    row = Execution.objects.filter(job=job, state=State.SUCCEEDED).order_by("-fire_time")[1]
    assert row.started_at is not None
    asked_at = row.started_at + timedelta(minutes=12, seconds=41)
    Execution.objects.filter(pk=row.pk).update(
        state=State.CANCELLED,
        result=None,
        reason="shards were being moved; jonas.weber",
        cancel_requested_at=asked_at,
        finished_at=asked_at + timedelta(seconds=1.2),
        checkpoint={"shard": 3, "document": 361_204},
        progress={"done": 361, "total": 1000, "note": "shard 3 of 8"},
    )
    Attempt.objects.filter(execution_id=row.pk).update(
        outcome=Outcome.CANCELLED, finished_at=asked_at + timedelta(seconds=1.2)
    )
