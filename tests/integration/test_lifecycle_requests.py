"""What people ask of executions: cancel, stop, skip, revive, move, replay, settle; and failures that meet a policy."""

from datetime import datetime, timedelta

import pytest

from executions import lifecycle
from executions.identity import fire_time_of
from executions.models import Execution
from executions.outcomes import Cancelled, Finish
from executions.replay import replay, settle
from executions.retry import Backoff, RetryPolicy, spread_of
from executions.states import Outcome, State, Trigger
from jobs.models import Job
from tests.making import a_job, asked_for, claimed, planned, seconds
from tests.rows import everything

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon, kwargs={"tenant": "acme"}, queue="batch", priority=7, max_attempts=2, max_lost=2)


@pytest.fixture
def execution(job: Job, noon: datetime) -> Execution:
    return planned(job, noon)


def cancel(*executions: Execution, now: datetime) -> Cancelled:
    return lifecycle.cancel([execution.pk for execution in executions], reason="not wanted", now=now)


def dead(execution: Execution, *, now: datetime) -> Execution:
    """The same, given up."""
    Execution.objects.filter(pk=execution.pk).update(max_attempts=1)
    assert lifecycle.fail(claimed(execution, now=now), error="boom", now=now) is Finish.DEAD
    execution.refresh_from_db()
    return execution


# ── Cancel and stop ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_queued", [False, True])
def test_what_has_not_begun_is_cancelled_at_once(execution: Execution, noon: datetime, is_queued: bool) -> None:
    if is_queued:
        lifecycle.mark_queued([execution], now=noon)
    assert cancel(execution, now=noon) == Cancelled([execution.pk], [])
    execution.refresh_from_db()
    assert (execution.state, execution.reason, execution.finished_at) == (State.CANCELLED, "not wanted", noon)
    assert lifecycle.claim(execution.pk, 1, worker="w", now=noon) is None
    assert not execution.attempts.exists()


def test_what_runs_is_asked_to_stop_once(execution: Execution, noon: datetime) -> None:
    claimed(execution, now=noon)
    assert cancel(execution, now=noon) == Cancelled([], [execution.pk])
    cancel(execution, now=noon + seconds(1))
    execution.refresh_from_db()
    assert (execution.state, execution.cancel_requested_at) == (State.RUNNING, noon)


def test_a_retry_that_waits_is_cancelled(execution: Execution, noon: datetime) -> None:
    lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon)
    assert cancel(execution, now=noon).before_run == [execution.pk]
    execution.refresh_from_db()
    assert (execution.state, execution.attempt, execution.error) == (State.CANCELLED, 2, "boom")


def test_what_is_over_is_left_as_it_is(job: Job, noon: datetime) -> None:
    done, given_up, skipped, cancelled = asked_for(job, 4, now=noon)
    lifecycle.succeed(claimed(done, now=noon), result=1, now=noon)
    dead(given_up, now=noon)
    lifecycle.skip([skipped.pk], reason="expired", now=noon)
    cancel(cancelled, now=noon)
    before = list(Execution.objects.order_by("pk").values())
    assert cancel(done, given_up, skipped, cancelled, now=noon + seconds(1)) == Cancelled([], [])
    assert list(Execution.objects.order_by("pk").values()) == before


def test_a_set_is_cancelled_each_as_it_is(job: Job, noon: datetime) -> None:
    rows = asked_for(job, 4, now=noon)
    claimed(rows[1], now=noon)
    lifecycle.mark_queued([rows[2]], now=noon + seconds(2))
    assert cancel(*rows[::-1], now=noon) == Cancelled([rows[0].pk, rows[2].pk, rows[3].pk], [rows[1].pk])
    assert lifecycle.cancel([], reason="nothing", now=noon) == Cancelled([], [])


def test_a_run_stops_only_on_request(execution: Execution, noon: datetime) -> None:
    claim = claimed(execution, now=noon)
    assert lifecycle.stop(claim, now=noon) is Finish.REFUSED
    cancel(execution, now=noon)
    assert lifecycle.stop(claim, now=noon + seconds(1)) is Finish.CANCELLED
    execution.refresh_from_db()
    assert (execution.state, execution.reason) == (State.CANCELLED, "cancelled while it ran")
    assert (execution.finished_at, execution.attempts.get().outcome) == (noon + seconds(1), Outcome.CANCELLED)
    assert lifecycle.stop(claim, now=noon) is Finish.REFUSED


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT])
def test_a_failure_with_a_request_pending_ends_cancelled_and_keeps_its_error(
    execution: Execution, noon: datetime, outcome: Outcome
) -> None:
    claim = claimed(execution, now=noon)
    cancel(execution, now=noon)
    assert lifecycle.fail(claim, error="boom", outcome=outcome, now=noon) is Finish.CANCELLED
    execution.refresh_from_db()
    assert (execution.state, execution.attempt, execution.error) == (State.CANCELLED, 1, "boom")
    assert execution.attempts.get().outcome == outcome


def test_a_success_with_a_request_pending_is_a_success(execution: Execution, noon: datetime) -> None:
    claim = claimed(execution, now=noon)
    cancel(execution, now=noon)
    assert lifecycle.succeed(claim, result=1, now=noon) is Finish.SUCCEEDED


def test_a_lost_worker_with_a_request_pending_ends_cancelled(execution: Execution, noon: datetime) -> None:
    claimed(execution, now=noon)
    cancel(execution, now=noon)
    (rescued,) = lifecycle.rescue(silent_since=noon + seconds(1), now=noon + seconds(20))
    assert rescued.state is State.CANCELLED
    execution.refresh_from_db()
    assert (execution.state, execution.attempt, execution.lost) == (State.CANCELLED, 1, 1)
    assert execution.finished_at == noon + seconds(20)
    assert execution.attempts.get().outcome == Outcome.WORKER_LOST


def test_a_lost_worker_with_a_request_pending_says_why_it_is_not_tried_again(
    execution: Execution, noon: datetime
) -> None:
    claimed(execution, now=noon)
    cancel(execution, now=noon)
    lifecycle.rescue(silent_since=noon + seconds(1), now=noon + seconds(20))
    execution.refresh_from_db()
    assert execution.reason == "cancelled while it ran"


# ── Failures and their policy ────────────────────────────────────────────────────────────────────────────────────


def policed(noon: datetime, **policy: object) -> Execution:
    return planned(a_job(now=noon, retry=RetryPolicy(max_attempts=9, **policy)), noon)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "kinds", "finish"),
    [
        ({"give_up_on": ("ValueError",)}, ("ValueError", "Exception"), Finish.DEAD),
        ({"give_up_on": ("ValueError",)}, ("KeyError", "Exception"), Finish.RETRY),
        ({"give_up_on": ("ValueError",)}, (), Finish.RETRY),
        ({"retry_on": ("OSError",)}, ("OSError",), Finish.RETRY),
        ({"retry_on": ("OSError",)}, ("ValueError",), Finish.DEAD),
        ({"retry_on": ("OSError",)}, (), Finish.DEAD),
        ({"retry_on": ("OSError",), "give_up_on": ("TimeoutError",)}, ("TimeoutError", "OSError"), Finish.DEAD),
    ],
)
def test_the_kind_of_an_error_decides_whether_it_is_tried_again(
    noon: datetime, policy: dict[str, object], kinds: tuple[str, ...], finish: Finish
) -> None:
    claim = claimed(policed(noon, **policy), now=noon)
    assert lifecycle.fail(claim, error="boom", kinds=kinds, now=noon) is finish


def test_backoff_grows_with_failures_and_not_with_losses(noon: datetime) -> None:
    execution = policed(noon, backoff=Backoff.LINEAR, initial_seconds=10)
    waits = []
    for is_lost in (False, True, False, False):
        execution.refresh_from_db()
        claim = claimed(execution, now=noon)
        if is_lost:
            lifecycle.rescue(silent_since=noon + seconds(1), now=noon)
        else:
            lifecycle.fail(claim, error="boom", now=noon)
        execution.refresh_from_db()
        waits.append((execution.available_at - noon).total_seconds())
    assert waits == [10, 0, 20, 30]
    assert (execution.attempt, execution.lost) == (5, 1)


def test_jitter_shortens_the_wait_by_the_share_of_the_execution(noon: datetime) -> None:
    execution = policed(noon, initial_seconds=100, jitter=0.5)
    lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon)
    execution.refresh_from_db()
    assert execution.available_at == noon + timedelta(seconds=100 * (1 - 0.5 * spread_of(execution.pk)))
    assert noon + seconds(50) < execution.available_at <= noon + seconds(100)


def test_the_policy_is_the_one_the_job_has_when_it_fails(execution: Execution, job: Job, noon: datetime) -> None:
    claim = claimed(execution, now=noon)
    Job.objects.filter(pk=job.pk).update(retry={"initial_seconds": 7})
    lifecycle.fail(claim, error="boom", now=noon)
    execution.refresh_from_db()
    assert execution.available_at == noon + seconds(7)


# ── Hold, skip, revive, move ─────────────────────────────────────────────────────────────────────────────────────────


def test_only_what_waits_at_the_attempt_that_was_read_is_held_back(job: Job, noon: datetime) -> None:
    waits, queued, runs, retried = rows = asked_for(job, 4, now=noon)
    lifecycle.mark_queued([queued], now=noon + seconds(1))
    claimed(runs, now=noon)
    lifecycle.fail(claimed(retried, now=noon), error="boom", now=noon)
    until = noon + timedelta(hours=1)
    assert lifecycle.hold(rows, reason="no queue", until=until) == 2
    held = Execution.objects.filter(state=State.SCHEDULED, reason="no queue", available_at=until, attempt=1)
    assert {row.pk for row in held} == {waits.pk, queued.pk}


def test_only_what_waits_in_the_database_is_skipped(job: Job, noon: datetime) -> None:
    waits, queued, runs = asked_for(job, 3, now=noon)
    lifecycle.mark_queued([queued], now=noon + seconds(1))
    claimed(runs, now=noon)
    assert lifecycle.skip([row.pk for row in (waits, queued, runs)], reason="expired", now=noon) == 1
    waits.refresh_from_db()
    assert (waits.state, waits.reason, waits.finished_at) == (State.SKIPPED, "expired", noon)


def wanted(*executions: Execution, at: datetime, reason: str = "backfill") -> list[Execution]:
    """The rows as they shall be."""
    for execution in executions:
        execution.available_at, execution.reason = at, reason
    return list(executions)


def test_a_skipped_fire_is_revived_as_a_backfill(execution: Execution, noon: datetime) -> None:
    lifecycle.skip([execution.pk], reason="expired", now=noon)
    later = noon + timedelta(days=1)
    assert lifecycle.revive(wanted(execution, at=later, reason="backfill by ann")) == 1
    execution.refresh_from_db()
    assert (execution.state, execution.trigger) == (State.SCHEDULED, Trigger.BACKFILL)
    assert (execution.available_at, execution.finished_at, execution.reason) == (later, None, "backfill by ann")
    claimed(execution, now=later)


def test_a_revived_fire_runs_what_its_job_says_now(job: Job, noon: datetime) -> None:
    fires = [planned(job, noon + seconds(each)) for each in range(3)]
    lifecycle.skip([fire.pk for fire in fires], reason="expired", now=noon)
    said = {"task": "onbeat.sleep", "args": [1], "kwargs": {"a": 2}, "queue": "batch", "priority": 9}
    said |= {"max_attempts": 7, "max_lost": 2}
    for number, fire in enumerate(fires):
        wanted(fire, at=noon + seconds(60 + number), reason=f"backfill {number}" * 30)
        for name, value in said.items():
            setattr(fire, name, value)
    assert lifecycle.revive(fires) == 3
    for number, fire in enumerate(fires):
        stored = Execution.objects.get(pk=fire.pk)
        assert {name: getattr(stored, name) for name in said} == said
        assert stored.available_at == noon + seconds(60 + number)
        assert stored.reason == (f"backfill {number}" * 30)[:200]


def test_a_stretch_of_one_fire_is_revived_as_that_fire(job: Job, noon: datetime) -> None:
    row = job.new_skipped_row(noon, noon, 1, reason="misfire", now=noon)
    lifecycle.record_skipped([row], now=noon)
    assert lifecycle.revive(wanted(row, at=noon)) == 1
    row.refresh_from_db()
    assert (row.state, row.skipped_until, row.skipped_count) == (State.SCHEDULED, None, None)


def test_a_stretch_of_skipped_fires_is_not_revived(job: Job, noon: datetime) -> None:
    row = job.new_skipped_row(noon, noon + seconds(60), 2, reason="misfire", now=noon)
    lifecycle.record_skipped([row], now=noon)
    before = everything()
    assert lifecycle.revive(wanted(row, at=noon + seconds(5))) == 0
    assert everything() == before


def test_runs_that_were_asked_for_are_not_revived(job: Job, noon: datetime) -> None:
    """They may share an instant, which two fires may not."""
    rows = [job.new_execution(noon, trigger=Trigger.MANUAL, now=noon) for _ in range(2)]
    lifecycle.plan(rows)
    lifecycle.skip([row.pk for row in rows], reason="overlap", now=noon)
    before = everything()
    assert lifecycle.revive(wanted(*rows, at=noon + seconds(5))) == 0
    assert everything() == before


def test_what_was_not_skipped_is_not_revived(execution: Execution, noon: datetime) -> None:
    cancel(execution, now=noon)
    before = everything()
    assert lifecycle.revive(wanted(execution, at=noon + seconds(5))) == 0
    assert everything() == before


def test_a_stretch_is_split_and_both_parts_say_what_the_whole_said(job: Job, noon: datetime) -> None:
    row = job.new_skipped_row(noon, noon + seconds(9), 10, reason="misfire: no beat", now=noon)
    lifecycle.record_skipped([row], now=noon + seconds(10))
    rest = (noon + seconds(7), noon + seconds(9), 3)
    assert lifecycle.split([lifecycle.Split(row, last=noon + seconds(2), count=3, rest=rest)]) == 1
    before, after = Execution.objects.filter(job=job).order_by("fire_time")
    assert (before.pk, before.fire_time, before.skipped_until, before.skipped_count) == (
        row.pk,
        noon,
        noon + seconds(2),
        3,
    )
    assert (after.fire_time, after.skipped_until, after.skipped_count) == rest
    assert fire_time_of(after.pk) == after.fire_time
    for part in (before, after):
        assert (part.state, part.reason, part.finished_at) == (State.SKIPPED, "misfire: no beat", noon + seconds(10))
        assert (part.task, part.kwargs, part.trigger) == (job.task, job.kwargs, Trigger.SCHEDULE)


def test_what_is_no_stretch_any_more_is_not_split(execution: Execution, noon: datetime) -> None:
    before = everything()
    assert lifecycle.split([lifecycle.Split(execution, last=noon, count=1, rest=None)]) == 0
    assert everything() == before


@pytest.mark.parametrize(("due_in", "is_moved"), [(2, True), (1.001, True), (1, False), (0, False), (-5, False)])
def test_a_run_is_moved_unless_it_is_due_within_a_second(
    execution: Execution, noon: datetime, due_in: float, is_moved: bool
) -> None:
    to = noon + timedelta(hours=3)
    assert lifecycle.move(execution.pk, to=to, now=noon - seconds(due_in)) is is_moved
    execution.refresh_from_db()
    assert execution.available_at == (to if is_moved else noon)


def test_what_was_published_or_claimed_cannot_be_moved(execution: Execution, noon: datetime) -> None:
    early = noon - timedelta(hours=1)
    lifecycle.mark_queued([execution], now=noon)
    assert lifecycle.move(execution.pk, to=noon, now=early) is False
    claimed(execution, now=noon)
    assert lifecycle.move(execution.pk, to=noon, now=early) is False


def test_a_second_attempt_cannot_be_moved(execution: Execution, noon: datetime) -> None:
    lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon)
    assert lifecycle.move(execution.pk, to=noon, now=noon) is False


def test_a_waiter_cannot_be_moved(noon: datetime) -> None:
    first, second = asked_for(a_job(now=noon, max_concurrency=1), 2, now=noon)
    claimed(first, now=noon)
    lifecycle.claim(second.pk, 1, worker="w", now=noon)
    assert lifecycle.move(second.pk, to=noon, now=noon) is False


# ── Replay and settle ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_replay_is_a_new_run_of_the_same(execution: Execution, noon: datetime) -> None:
    dead(execution, now=noon)
    later = noon + timedelta(hours=1)
    (again,) = replay([execution.pk], now=later, note="replayed by ann")
    again.refresh_from_db()
    assert (again.state, again.trigger, again.replay_of) == (State.SCHEDULED, Trigger.REPLAY, execution.pk)
    assert (again.attempt, again.lost, again.fire_time, again.available_at) == (1, 0, later, later)
    for field in ("job_id", "task", "args", "kwargs", "queue", "priority", "max_attempts", "max_lost"):
        assert getattr(again, field) == getattr(execution, field)
    execution.refresh_from_db()
    assert (execution.state, execution.handled_at, execution.handled_note) == (State.DEAD, later, "replayed by ann")
    claimed(again, now=later)


def test_a_replay_may_have_another_payload(execution: Execution, noon: datetime) -> None:
    dead(execution, now=noon)
    (again,) = replay([execution.pk], now=noon, args=(1, 2), kwargs={"tenant": "other"})
    again.refresh_from_db()
    execution.refresh_from_db()
    assert (again.args, again.kwargs) == ([1, 2], {"tenant": "other"})
    assert execution.kwargs == {"tenant": "acme"}


def test_a_replay_leaves_out_what_is_open_and_what_stands_for_many(job: Job, noon: datetime) -> None:
    waits, queued, runs, done, skipped, cancelled = rows = asked_for(job, 6, now=noon)
    stretch = job.new_skipped_row(noon, noon + seconds(60), 2, reason="misfire", now=noon)
    lifecycle.record_skipped([stretch], now=noon)
    lifecycle.mark_queued([queued], now=noon + seconds(1))
    claimed(runs, now=noon)
    lifecycle.succeed(claimed(done, now=noon), result=1, now=noon)
    lifecycle.skip([skipped.pk], reason="expired", now=noon)
    cancel(cancelled, now=noon)
    made = replay([row.pk for row in [*rows, stretch]], now=noon)
    assert sorted(each.replay_of for each in made if each.replay_of) == [done.pk, skipped.pk, cancelled.pk]
    assert not Execution.objects.exclude(handled_at=None).exists()
    waits.refresh_from_db()
    assert waits.state == State.SCHEDULED


def test_only_dead_letters_are_settled_and_the_first_note_stays(job: Job, noon: datetime) -> None:
    letter, done = asked_for(job, 2, now=noon)
    dead(letter, now=noon)
    lifecycle.succeed(claimed(done, now=noon), result=1, now=noon)
    assert settle([letter.pk, done.pk], note="known outage", now=noon) == 1
    assert settle([letter.pk], note="again", now=noon + seconds(1)) == 0
    letter.refresh_from_db()
    assert (letter.state, letter.handled_at, letter.handled_note) == (State.DEAD, noon, "known outage")
