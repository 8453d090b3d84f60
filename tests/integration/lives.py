"""The model of the stateful test: the last look at the rows, what must have changed since, and what always holds.

Messages are kept apart from rows, as in a broker: they come late, twice, or after their run was held back.
"""

import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, TypeVar

from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from executions import lifecycle
from executions.models import Attempt, Execution
from executions.outcomes import Claim, Finish
from executions.retry import Backoff, RetryPolicy
from executions.states import FINAL, FIRE_TRIGGERS, OPEN, Outcome, Overlap, State, is_allowed
from jobs.models import Job
from tests.making import asked_for

T = TypeVar("T")

MOMENT = timedelta(milliseconds=1)
DEFAULT = RetryPolicy(max_attempts=2)
STUBBORN = RetryPolicy(max_attempts=4, backoff=Backoff.FIXED, initial_seconds=2, jitter=0.5)
CHOOSY = RetryPolicy(max_attempts=3, backoff=Backoff.LINEAR, retry_on=("OSError",), give_up_on=("TimeoutError",))
JOBS: list[dict[str, Any]] = [
    {"retry": DEFAULT},
    {"retry": CHOOSY, "max_lost": 1},
    *(
        {"overlap": overlap, "max_concurrency": limit, "retry": STUBBORN if limit == 1 else CHOOSY, "max_lost": 2}
        for overlap in Overlap
        for limit in (1, 2)
    ),
]


def one_of(things: Sequence[T], which: int) -> T:
    return things[which % len(things)]


@dataclass(frozen=True)
class Row:
    """What is looked at of an execution after each step."""

    pk: uuid.UUID
    job_id: int
    fire_time: datetime
    trigger: str
    priority: int
    state: State
    reason: str
    run_key: str
    available_at: datetime
    attempt: int
    lost: int
    max_lost: int
    is_waiting: bool
    heartbeat_at: datetime | None
    cancel_requested_at: datetime | None
    handled_at: datetime | None
    skipped_until: datetime | None


FIELDS = list(Row.__dataclass_fields__)


@dataclass(frozen=True)
class Batch:
    """What a beat has read and published, and not marked yet."""

    rows: list[Execution]
    read_at: datetime


def look() -> dict[uuid.UUID, Row]:
    rows = (Row(**values) for values in Execution.objects.order_by("created_at", "pk").values(*FIELDS))
    return {row.pk: replace(row, state=State(row.state)) for row in rows}


class Model(RuleBasedStateMachine):
    """What the rules of a machine change and what is looked at after each. There is one job for each of JOBS."""

    def __init__(self, jobs: Sequence[Job], *, now: datetime) -> None:
        super().__init__()
        self.jobs = jobs
        self.policies = {job.pk: policy["retry"] for job, policy in zip(jobs, JOBS, strict=True)}
        self.overlaps = {job.pk: Overlap(job.overlap) for job in jobs}
        self.limits = {job.pk: job.max_concurrency for job in jobs if job.max_concurrency is not None}
        self.now = now + 500 * MOMENT  # fires fall on whole seconds, and no two rows on one instant
        # Rolled back in the end, so that each example begins without a row. Sound, since all steps are on this one
        # connection: a verb's own transaction is a savepoint then, sees the same rows, and its locks are ours already.
        self.example = transaction.atomic()
        self.example.__enter__()
        self.rows: dict[uuid.UUID, Row] = {}
        self.expected: dict[uuid.UUID, tuple[State, int] | None] = {}  # None: the row goes
        self.messages: list[tuple[uuid.UUID, int]] = []
        self.batches: list[Batch] = []
        self.claims: list[Claim] = []
        self.ended: dict[tuple[uuid.UUID, int], Outcome] = {}
        self.asked: set[uuid.UUID] = set()  # to stop
        self.ends: Counter[int] = Counter()  # by job, of this step: each wakes one
        self.is_sound = True

    @initialize(which=st.lists(st.sampled_from(range(len(JOBS))), min_size=1, max_size=2, unique=True))
    def choose_jobs(self, which: list[int]) -> None:
        """Few, so that their runs meet; and each has some, so that something can come of the first steps."""
        self.jobs = [self.jobs[each] for each in which]
        for job in self.jobs:
            rows = asked_for(job, 3, now=self.now)
            self.expected.update({row.pk: (State.SCHEDULED, 1) for row in rows})

    # ── What must hold ───────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def changes_are_those_of_the_step(self) -> None:
        before, after = self.rows, look()
        expected = {pk: (r.state, r.attempt) for pk, r in before.items()} | self.expected
        assert {pk: (r.state, r.attempt) for pk, r in after.items()} == {pk: e for pk, e in expected.items() if e}
        for pk in before.keys() & after.keys():
            self._check_change(before[pk], after[pk])
        self._check_rows(after)
        self._check_woken(before, after)
        self.rows, self.expected, self.is_sound = after, {}, True
        self.ends.clear()

    def _check_change(self, old: Row, new: Row) -> None:
        if (old.state, old.attempt) == (new.state, new.attempt):
            return
        assert old.state not in FINAL
        is_retry = (old.state, new.state) == (State.RUNNING, State.SCHEDULED)
        # One that is held back and then left out takes both steps in one transaction.
        steps = [old.state, State.SCHEDULED, new.state] if new.state is State.SKIPPED else [old.state, new.state]
        assert all(source is target or is_allowed(source, target) for source, target in pairwise(steps))
        assert new.attempt == old.attempt + is_retry
        if is_retry:
            assert old.cancel_requested_at is None
            assert new.available_at > self.now or new.lost > old.lost

    def _check_rows(self, rows: dict[uuid.UUID, Row]) -> None:
        fires = Counter((r.job_id, r.fire_time) for r in rows.values() if r.trigger in FIRE_TRIGGERS)
        assert all(count == 1 for count in fires.values())
        keys = Counter((r.job_id, r.run_key) for r in rows.values() if r.run_key and r.state in OPEN)
        assert all(count == 1 for count in keys.values())
        assert all(r.state in (State.SCHEDULED, State.QUEUED) for r in rows.values() if r.is_waiting)
        running = {(r.pk, r.attempt) for r in rows.values() if r.state is State.RUNNING}
        held = [pair for claim in self.claims if (pair := (claim.execution_id, claim.attempt)) not in self.ended]
        assert sorted(held) == sorted(running)
        by_job = Counter(r.job_id for r in rows.values() if r.state is State.RUNNING)
        assert all(by_job[job_id] <= limit for job_id, limit in self.limits.items())
        asleep = [r for r in rows.values() if r.is_waiting and r.state is State.SCHEDULED]
        jobs = Counter(r.job_id for r in rows.values())
        assert all(r.available_at <= self.now + self._longest_sleep(r.job_id, jobs[r.job_id]) for r in asleep)
        assert all(rows[pk].cancel_requested_at is not None for pk in self.asked)
        recorded = Attempt.objects.values_list("execution_id", "number", "outcome")
        assert sorted(recorded) == sorted((*pair, outcome) for pair, outcome in self.ended.items())

    def _longest_sleep(self, job_id: int, most_in_line: int) -> timedelta:
        """Until one that is held back looks again: the longer the line, the more seldom."""
        return lifecycle.LOOK_AGAIN_AFTER * (1 + most_in_line // (10 * self.limits.get(job_id, 1)))

    def _check_woken(self, before: dict[uuid.UUID, Row], after: dict[uuid.UUID, Row]) -> None:
        """Each end wakes the most urgent of those that are still asleep."""
        for job_id, count in self.ends.items():
            asleep = [r for r in before.values() if r.job_id == job_id and r.is_waiting and r.available_at > self.now]
            asleep = [r for r in asleep if r.state is State.SCHEDULED and after[r.pk].state is State.SCHEDULED]
            asleep.sort(key=lambda r: (-r.priority, r.fire_time))
            woken = {r.pk for r in asleep if after[r.pk].available_at == self.now}
            assert woken == {r.pk for r in asleep[:count]}

    def teardown(self) -> None:
        try:
            if self.is_sound:
                self._no_waiter_is_forgotten()
        finally:
            transaction.set_rollback(True)
            self.example.__exit__(None, None, None)

    def _no_waiter_is_forgotten(self) -> None:
        """With time, and workers that succeed, everything that is open comes to its end."""
        for claim in self.claims:
            lifecycle.succeed(claim, result=1, now=self.now)
        for _ in range(3 * len(self.rows) + 3):
            if not Execution.objects.open().exists():
                break
            due = list(Execution.objects.due(self.now).order_by("-priority", "available_at"))
            lifecycle.mark_queued(due, now=self.now)
            self.messages += [(row.pk, row.attempt) for row in due]
            while self.messages:
                answer = lifecycle.claim(*self.messages.pop(), worker="last", now=self.now)
                if isinstance(answer, Claim):
                    assert lifecycle.succeed(answer, result=1, now=self.now) is Finish.SUCCEEDED
            coming = Execution.objects.scheduled().order_by("available_at").values_list("available_at", flat=True)
            self.now = max(self.now + MOMENT, coming.first() or self.now)
        assert not Execution.objects.open().exists()

    # ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        """No two steps fall on one instant."""
        self.now += MOMENT
        self.is_sound = False

    def _rows(self, **values: Collection[Any]) -> list[Row]:
        return [r for r in self.rows.values() if all(getattr(r, name) in among for name, among in values.items())]

    def _is_any(self, **values: Collection[Any]) -> bool:
        return bool(self._rows(**values))

    def _any(self, which: int) -> Row:
        """Often one that is open: more can come of it."""
        return one_of([*self._rows(state=OPEN) * 3, *self.rows.values()], which)

    def _some(self, which: list[int]) -> list[Row]:
        return list({row.pk: row for row in map(self._any, which)}.values()) if self.rows else []

    def _any_claim(self, which: int) -> Claim:
        """Often one that still holds; the others come late."""
        return one_of([*(claim for claim in self.claims if self._held_by(claim)), *self.claims[-4:]], which)

    def _held_by(self, claim: Claim) -> Row | None:
        row = self.rows.get(claim.execution_id)
        return row if row and (row.state, row.attempt) == (State.RUNNING, claim.attempt) else None

    def _is_as_read(self, read: Execution) -> bool:
        """Nobody has claimed it, held it back or moved it since: its message is still there."""
        row = self.rows.get(read.pk)
        return row is not None and (row.state, row.attempt, row.available_at) == (
            State.SCHEDULED,
            read.attempt,
            read.available_at,
        )
