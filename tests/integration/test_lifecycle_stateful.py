"""Random lives: any verb on any execution at any time, against a model that says what must come of it."""

import os
import uuid
from collections.abc import Callable
from datetime import datetime
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from executions import lifecycle
from executions.models import Execution
from executions.outcomes import Cancelled, Claim, Finish, Held
from executions.replay import replay, settle
from executions.retry import RetryPolicy
from executions.states import CLAIMABLE, FINAL, FIRE_TRIGGERS, OPEN, Outcome, Overlap, State, Trigger
from jobs import definitions, runs
from jobs.models import Job
from jobs.runs import Wanted
from tests.integration.lives import JOBS, Batch, Model, Row, one_of
from tests.making import a_job, seconds

pytestmark = pytest.mark.django_db

LONG_RUN = os.environ.get("TEST_EXAMPLES")  # see CONTRIBUTING.md
KEYS = ["", "order-7", "order-8"]
KINDS = [(), ("OSError",), ("TimeoutError", "OSError"), ("ValueError",)]
ANY = st.integers(0, 50)  # one of however many there are, counted round and round
SHORTLY = [seconds(0.1), seconds(0.2)]  # not both at once: then nobody could say which of them is woken first
SOME = st.lists(ANY, min_size=1, max_size=2)


class Lives(Model):
    # ── What is asked for ────────────────────────────────────────────────────────────────────────────────────────

    @rule(job=ANY, ahead=st.integers(0, 3), trigger=st.sampled_from(FIRE_TRIGGERS), is_stretch=st.booleans())
    def plan(self, job: int, ahead: int, trigger: Trigger, is_stretch: bool) -> None:
        """A fire on a grid of five seconds, so that some are planned twice."""
        self._begin()
        fire_time = self.now.replace(second=self.now.second // 5 * 5, microsecond=0) + seconds(5 * ahead)
        its_job = one_of(self.jobs, job)
        row = its_job.new_execution(fire_time, trigger=trigger, now=self.now)
        is_new = not any((r.job_id, r.fire_time) == (its_job.pk, fire_time) for r in self._rows(trigger=FIRE_TRIGGERS))
        if is_stretch:
            row.skipped_until, row.reason = fire_time + seconds(1), "misfire"
            lifecycle.record_skipped([row], now=self.now)
        else:
            lifecycle.plan([row])
        if is_new:
            self.expected[row.pk] = (State.SKIPPED if is_stretch else State.SCHEDULED, 1)

    @rule(job=ANY, delay=st.integers(0, 20), key=st.sampled_from(KEYS), priority=st.sampled_from([None, 9]))
    def ask(self, job: int, delay: int, key: str, priority: int | None) -> None:
        """For one run that may have a key, and for two more without."""
        self._begin()
        its_job = one_of(self.jobs, job)
        holders = [r.pk for r in self._rows(state=OPEN, job_id=[its_job.pk]) if key and r.run_key == key]
        wanted = [Wanted(delay=seconds(delay), run_key=key, priority=priority), *(Wanted(delay=s) for s in SHORTLY)]
        answers = runs.run_many(its_job, wanted, now=self.now)
        assert [answer.is_new for answer in answers] == [not holders, True, True]
        if holders:
            assert answers[0].execution_id == holders[0]
        self.expected.update({answer.execution_id: (State.SCHEDULED, 1) for answer in answers if answer.is_new})

    @precondition(lambda self: self._is_any(state=FINAL | {State.SKIPPED}))
    @rule(which=ANY, is_edited=st.booleans())
    def replay(self, which: int, is_edited: bool) -> None:
        self._begin()
        row = self._any(which)
        is_over = row.state in FINAL | {State.SKIPPED} and row.skipped_until is None
        made = replay([row.pk], kwargs={"again": True} if is_edited else None, now=self.now)
        assert [each.replay_of for each in made] == [row.pk] * is_over
        self.expected.update({each.pk: (State.SCHEDULED, 1) for each in made})

    @precondition(lambda self: self._is_any(is_waiting=[True]))
    @rule(job=ANY)
    def raise_limit(self, job: int) -> None:
        self._begin()
        its_job = one_of(self.jobs, job)
        limit = self.limits.get(its_job.pk, 9)
        if limit < 3:
            version = Job.objects.get(pk=its_job.pk).version
            definitions.change(its_job, version=version, max_concurrency=limit + 1, now=self.now)
            self.limits[its_job.pk] = limit + 1

    # ── What beats do ────────────────────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: any(r.available_at <= self.now for r in self._rows(state=[State.SCHEDULED])))
    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        self._begin()
        rows = list(Execution.objects.due(self.now).order_by("-priority", "available_at", "pk")[:count])
        self.messages += [(row.pk, row.attempt) for row in rows]
        if rows:
            self.batches.append(Batch(rows, self.now))

    @precondition(lambda self: self.batches)
    @rule(which=ANY, is_again=st.booleans())
    def confirm(self, which: int, is_again: bool) -> None:
        self._begin()
        batch = one_of(self.batches, which)
        if not is_again:
            self.batches.remove(batch)
        marked = [read for read in batch.rows if self._is_as_read(read)]
        assert lifecycle.mark_queued(batch.rows, now=batch.read_at) == len(marked)
        self.expected.update({read.pk: (State.QUEUED, read.attempt) for read in marked})

    @precondition(lambda self: self._is_any(state=CLAIMABLE))
    @rule(which=SOME, delay=st.integers(1, 5))
    def hold(self, which: list[int], delay: int) -> None:
        self._begin()
        chosen = Execution.objects.with_ids([r.pk for r in self._some(which)])
        held = [r for r in self._some(which) if r.state in (State.SCHEDULED, State.QUEUED)]
        assert lifecycle.hold(chosen, reason="no queue", until=self.now + seconds(delay)) == len(held)
        self.expected.update({r.pk: (State.SCHEDULED, r.attempt) for r in held})

    @precondition(lambda self: self._is_any(state=[State.RUNNING]))
    @rule(gap=st.sampled_from([0, 5, 20]))
    def rescue(self, gap: int) -> None:
        self._begin()
        silent_since = self.now - seconds(gap)
        lost = [r for r in self._rows(state=[State.RUNNING]) if r.heartbeat_at and r.heartbeat_at < silent_since]
        rescued = lifecycle.rescue(silent_since=silent_since, now=self.now)
        assert {(each.execution_id, each.attempt) for each in rescued} == {(r.pk, r.attempt) for r in lost}
        for r in lost:
            self.ends[r.job_id] += 1
            self.ended[r.pk, r.attempt] = Outcome.WORKER_LOST
            if r.cancel_requested_at is not None:
                self.expected[r.pk] = (State.CANCELLED, r.attempt)
            elif r.lost + 1 >= r.max_lost:
                self.expected[r.pk] = (State.DEAD, r.attempt)
            else:
                self.expected[r.pk] = (State.SCHEDULED, r.attempt + 1)

    # ── What workers do ──────────────────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.messages)
    @rule(which=ANY, worker=st.sampled_from("abc"), comes_again=st.booleans())
    def deliver(self, which: int, worker: str, comes_again: bool) -> None:
        self._begin()
        message = one_of(self.messages, which)
        if not comes_again:
            self.messages.remove(message)
        self._claim(*message, worker=worker)

    @precondition(lambda self: self._is_any(state=CLAIMABLE))
    @rule(which=ANY, shift=st.sampled_from([0, 0, 0, -1, 1]))
    def claim(self, which: int, shift: int) -> None:
        """By a message that was sent long ago, or by nobody: before its time, or of another attempt."""
        self._begin()
        row = self._any(which)
        self._claim(row.pk, row.attempt + shift, worker="z")

    @precondition(lambda self: self._is_any(state=CLAIMABLE))
    @rule(which=st.lists(ANY, min_size=2, max_size=5))
    def claim_several(self, which: list[int]) -> None:
        """One after the other, so that those without a limit pile up and the others meet theirs."""
        for each in which:
            if claimable := self._rows(state=CLAIMABLE):
                self._begin()
                row = one_of(claimable, each)
                self._claim(row.pk, row.attempt, worker="y")
                self.changes_are_those_of_the_step()

    def _claim(self, pk: uuid.UUID, attempt: int, *, worker: str) -> None:
        row = self.rows.get(pk)
        answer = lifecycle.claim(pk, attempt, worker=worker, now=self.now)
        is_moved = row and row.state is State.SCHEDULED and row.available_at > self.now + lifecycle.MOVED
        if row is None or row.state not in CLAIMABLE or row.attempt != attempt or is_moved:
            assert answer is None
            return
        running = self._rows(job_id=[row.job_id], state=[State.RUNNING])
        if row.job_id not in self.limits or len(running) < self.limits[row.job_id]:
            assert isinstance(answer, Claim)
            self.claims.append(answer)
            self.expected[pk] = (State.RUNNING, attempt)
            return
        assert isinstance(answer, Held)
        others_wait = any(r.is_waiting and r.pk != pk for r in self._rows(job_id=[row.job_id]))
        overlap = self.overlaps[row.job_id]
        is_begun = attempt > 1 or row.is_waiting
        may_skip = not is_begun and (overlap is Overlap.SKIP or (overlap is Overlap.QUEUE and others_wait))
        assert answer.state is (State.SKIPPED if may_skip else State.SCHEDULED)
        self.expected[pk] = (answer.state, attempt)
        if overlap is Overlap.CANCEL_PREVIOUS and not any(r.cancel_requested_at for r in running):
            previous = sorted((r for r in running if r.fire_time < row.fire_time), key=lambda r: r.fire_time)
            self.asked.update(r.pk for r in previous[:1])

    @precondition(lambda self: self.claims)
    @rule(which=ANY, is_other=st.booleans())
    def heartbeat(self, which: int, is_other: bool) -> None:
        self._begin()
        claim = self._any_claim(which)
        worker = "nobody" if is_other else claim.worker
        said = lifecycle.heartbeat([(claim.execution_id, claim.attempt)], worker=worker, now=self.now)
        assert said == (not is_other and self._held_by(claim) is not None)

    @precondition(lambda self: self.claims)
    @rule(which=ANY)
    def succeed(self, which: int) -> None:
        self._begin()
        self._finish(
            self._any_claim(which), lambda claim: lifecycle.succeed(claim, result=1, now=self.now), self._success
        )

    @precondition(lambda self: self.claims)
    @rule(which=ANY, kinds=st.sampled_from(KINDS), outcome=st.sampled_from([Outcome.FAILED, Outcome.TIMED_OUT]))
    def fail(self, which: int, kinds: tuple[str, ...], outcome: Outcome) -> None:
        self._begin()
        self._finish(
            self._any_claim(which),
            lambda claim: lifecycle.fail(claim, error="boom", kinds=kinds, outcome=outcome, now=self.now),
            lambda row: self._failure(row, kinds, outcome),
        )

    @precondition(lambda self: self.claims)
    @rule(which=ANY)
    def stop(self, which: int) -> None:
        self._begin()
        self._finish(self._any_claim(which), lambda claim: lifecycle.stop(claim, now=self.now), self._stopped)

    @precondition(lambda self: self.claims)
    @rule(which=ANY)
    def lose(self, which: int) -> None:
        self._begin()
        self._finish(
            self._any_claim(which), lambda claim: lifecycle.lose(claim, error="killed", now=self.now), self._lost
        )

    def _finish(
        self,
        claim: Claim,
        act: Callable[[Claim], Finish],
        outcome: Callable[[Row], tuple[Finish, State, Outcome] | None],
    ) -> None:
        """Also of claims that ended long ago: their worker comes late, and is refused."""
        row = self._held_by(claim)
        due = outcome(row) if row is not None else None
        answer = act(claim)
        if row is None or due is None:
            assert answer is Finish.REFUSED
            return
        finish, state, recorded = due
        assert answer is finish
        self.expected[row.pk] = (state, row.attempt + (finish is Finish.RETRY))
        self.ended[row.pk, row.attempt] = recorded
        self.ends[row.job_id] += 1

    def _success(self, _row: Row) -> tuple[Finish, State, Outcome]:
        return Finish.SUCCEEDED, State.SUCCEEDED, Outcome.SUCCEEDED

    def _failure(self, row: Row, kinds: tuple[str, ...], outcome: Outcome) -> tuple[Finish, State, Outcome]:
        policy: RetryPolicy = self.policies[row.job_id]
        if row.cancel_requested_at is not None:
            return Finish.CANCELLED, State.CANCELLED, outcome
        if row.attempt - row.lost < policy.max_attempts and policy.deserves_retry(kinds):
            return Finish.RETRY, State.SCHEDULED, outcome
        return Finish.DEAD, State.DEAD, outcome

    def _lost(self, row: Row) -> tuple[Finish, State, Outcome]:
        if row.cancel_requested_at is not None:
            return Finish.CANCELLED, State.CANCELLED, Outcome.WORKER_LOST
        if row.lost + 1 >= row.max_lost:
            return Finish.DEAD, State.DEAD, Outcome.WORKER_LOST
        return Finish.RETRY, State.SCHEDULED, Outcome.WORKER_LOST

    def _stopped(self, row: Row) -> tuple[Finish, State, Outcome] | None:
        return (Finish.CANCELLED, State.CANCELLED, Outcome.CANCELLED) if row.cancel_requested_at else None

    # ── What people do ───────────────────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self._is_any(state=OPEN))
    @rule(which=SOME)
    def cancel(self, which: list[int]) -> None:
        self._begin()
        ids = [r.pk for r in self._some(which)]
        waiting = [r for r in self._some(which) if r.state in (State.SCHEDULED, State.QUEUED)]
        running = [r for r in self._some(which) if r.state is State.RUNNING]
        answer = lifecycle.cancel(ids, reason="not wanted", now=self.now)
        assert answer == Cancelled(sorted(r.pk for r in waiting), sorted(r.pk for r in running))
        self.expected.update({r.pk: (State.CANCELLED, r.attempt) for r in waiting})
        self.asked.update(r.pk for r in running)
        self.ends.update(r.job_id for r in waiting if r.is_waiting)  # they leave the place they were woken for

    @precondition(lambda self: self._is_any(state=[State.SCHEDULED]))
    @rule(which=ANY)
    def skip(self, which: int) -> None:
        self._begin()
        row = self._any(which)
        is_skipped = row.state is State.SCHEDULED
        assert lifecycle.skip([row.pk], reason="expired", now=self.now) == is_skipped
        if is_skipped:
            self.expected[row.pk] = (State.SKIPPED, row.attempt)

    @precondition(lambda self: self._is_any(state=[State.SKIPPED]))
    @rule(which=SOME)
    def revive(self, which: list[int]) -> None:
        """Fires come back; what somebody asked for can be asked for again."""
        self._begin()
        skipped = [one_of(self._rows(state=[State.SKIPPED]), each) for each in which]
        skipped = [r for r in skipped if r.job_id == skipped[0].job_id]
        fires = {r.pk: r for r in skipped if r.skipped_until in (None, r.fire_time) and r.trigger in FIRE_TRIGGERS}
        rows = list(Execution.objects.with_ids({r.pk for r in skipped}))
        for row in rows:
            row.available_at, row.reason = self.now, "backfill"
        assert lifecycle.revive(rows) == len(fires)
        self.expected.update({r.pk: (State.SCHEDULED, r.attempt) for r in fires.values()})

    @precondition(lambda self: self._is_any(state=[State.SCHEDULED]))
    @rule(which=ANY, delay=st.integers(0, 10))
    def move(self, which: int, delay: int) -> None:
        self._begin()
        row = self._any(which)
        may_move = row.state is State.SCHEDULED and row.attempt == 1 and not row.is_waiting
        may_move = may_move and row.available_at > self.now + lifecycle.SETTLED
        assert lifecycle.move(row.pk, to=self.now + seconds(delay), now=self.now) == may_move

    @precondition(lambda self: self._is_any(state=[State.SCHEDULED]))
    @rule(which=SOME)
    def hurry(self, which: list[int]) -> None:
        self._begin()
        retries = [r for r in self._some(which) if r.state is State.SCHEDULED and r.attempt > 1 and not r.is_waiting]
        late = [r for r in retries if r.available_at > self.now]
        assert lifecycle.hurry([r.pk for r in self._some(which)], now=self.now) == len(late)

    @precondition(lambda self: self._is_any(state=[State.SCHEDULED], trigger=[Trigger.SCHEDULE]))
    @rule(job=ANY)
    def unplan(self, job: int) -> None:
        self._begin()
        job_id = one_of(self.jobs, job).pk
        planned = [
            r
            for r in self._rows(job_id=[job_id], state=[State.SCHEDULED], trigger=[Trigger.SCHEDULE])
            if r.attempt == 1 and not r.is_waiting and not r.reason
        ]
        coming = [r for r in planned if r.fire_time > self.now]
        answer = lifecycle.unplan(job_id, reason="paused", now=self.now)
        assert (answer.removed, answer.skipped) == (sorted(r.fire_time for r in coming), len(planned) - len(coming))
        self.expected.update({r.pk: None if r in coming else (State.SKIPPED, 1) for r in planned})

    @precondition(lambda self: self._is_any(state=[State.DEAD]))
    @rule(which=SOME)
    def settle(self, which: list[int]) -> None:
        self._begin()
        dead = [r for r in self._some(which) if r.state is State.DEAD and r.handled_at is None]
        assert settle([r.pk for r in self._some(which)], note="known", now=self.now) == len(dead)

    @precondition(lambda self: self._is_any(is_waiting=[True]))
    @rule(job=ANY, count=st.integers(1, 2))
    def wake(self, job: int, count: int) -> None:
        self._begin()
        waiting = [r for r in self._rows(job_id=[one_of(self.jobs, job).pk], state=[State.SCHEDULED]) if r.is_waiting]
        asleep = [r for r in waiting if r.available_at > self.now]
        assert lifecycle.wake(one_of(self.jobs, job).pk, now=self.now, count=count) == min(count, len(asleep))

    @precondition(lambda self: self._is_any(state=OPEN))
    @rule(by=st.sampled_from([1, 5, 30]))
    def let_time_pass(self, by: int) -> None:
        self._begin()
        self.now += seconds(by)


def test_whatever_happens_to_executions_every_step_is_one_that_the_model_allows(
    noon: datetime, is_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same ids each time: rows are chosen by their order, and an example must be the same when it is run again.
    chance = Random()
    monkeypatch.setattr("executions.identity.secrets", SimpleNamespace(token_bytes=chance.randbytes))
    jobs = [a_job(now=noon, **policy) for policy in JOBS]
    profile = settings(
        max_examples=int(LONG_RUN or (30 if is_full else 60)),  # half as many where each takes twice as long
        stateful_step_count=50,
        derandomize=not LONG_RUN,
        deadline=None,
        database=None,
        # A failure is shown as it was found. Making it short takes minutes, which the long run has.
        phases=[Phase.generate, Phase.shrink] if LONG_RUN else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def a_machine() -> Lives:
        chance.seed(0)
        return Lives(jobs, now=noon)

    run_state_machine_as_test(a_machine, settings=profile)
