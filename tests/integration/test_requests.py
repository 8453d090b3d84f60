"""A delivery in the worker's parent: its limits, its end by force, and when its message is let go."""

import signal
import subprocess
import uuid
from collections.abc import Iterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from celery.bootsteps import CLOSE, RUN  # type: ignore[attr-defined]  # the stubs do not know them
from celery.exceptions import InvalidTaskError, Reject, TimeLimitExceeded, WorkerLostError
from celery.worker import state
from django_celery_results.models import TaskResult
from kombu.asynchronous import Hub

from executions import lifecycle
from executions.clock import Clock
from executions.models import Execution
from executions.outcomes import Finish
from executions.retry import RetryPolicy
from executions.states import Outcome, State
from tests.delivered import Delivered
from tests.making import a_job, claimed, planned, seconds
from workers import control, heartbeat, orders, recorder
from workers.heartbeat import HeartbeatThread
from workers.recorder import Death, Revoke

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def put(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would be written by the recorder's thread."""
    things: list[Any] = []
    monkeypatch.setattr(recorder, "put", things.append)
    return things


@pytest.fixture
def execution(noon: datetime) -> Execution:
    return planned(a_job(now=noon, max_attempts=2, max_lost=2), noon)


@pytest.fixture
def delivered(execution: Execution) -> Iterator[Delivered]:
    one = Delivered(execution)
    state.task_reserved(one.request)
    state.task_accepted(one.request)
    yield one
    state.task_ready(one.request)


@pytest.mark.parametrize("odd", [{"timelimit": "soon"}, {"timelimit": [1]}, {"timelimit": ["a", "b"]}, {"id": 7}])
def test_a_message_that_celery_would_stumble_over_later_is_refused_at_once(
    execution: Execution, odd: dict[str, Any]
) -> None:
    with pytest.raises(InvalidTaskError):
        Delivered(execution, **odd)


def test_the_message_of_a_killed_child_is_held_until_the_loss_is_recorded(
    execution: Execution, delivered: Delivered, put: list[Any], noon: datetime
) -> None:
    claimed(execution, now=noon, worker="here")
    delivered.dies(WorkerLostError("Worker exited prematurely: signal 9 (SIGKILL) Job: 3."))
    assert delivered.acked == []
    (death,) = put
    assert recorder.record(death, Clock()) is Finish.RETRY
    assert delivered.acked == ["acked"]
    attempt = execution.attempts.get()
    assert (attempt.outcome, attempt.error) == (
        Outcome.WORKER_LOST,
        "The process that ran this attempt ended: Worker exited prematurely: signal 9 (SIGKILL)",
    )


def test_a_child_that_dies_before_its_claim_has_used_up_its_attempt(
    execution: Execution, delivered: Delivered, put: list[Any]
) -> None:
    delivered.dies(WorkerLostError("gone"))
    assert recorder.record(put[0], Clock()) is Finish.RETRY
    execution.refresh_from_db()
    assert (execution.attempt, execution.lost) == (2, 1)


def test_a_death_that_others_have_dealt_with_changes_nothing(
    execution: Execution, delivered: Delivered, put: list[Any], noon: datetime
) -> None:
    lifecycle.succeed(claimed(execution, now=noon, worker="elsewhere"), result=None, now=noon)
    delivered.dies(WorkerLostError("gone"))
    assert recorder.record(put[0], Clock()) is None
    assert delivered.acked == ["acked"]


def test_a_copy_that_dies_does_not_end_the_attempt_that_another_child_runs(
    execution: Execution, delivered: Delivered, put: list[Any], noon: datetime
) -> None:
    claimed(execution, now=noon, worker="here")
    copy = Delivered(execution)
    copy.dies(WorkerLostError("gone"))
    assert recorder.record(put[0], Clock()) is None
    execution.refresh_from_db()
    assert execution.state == State.RUNNING
    assert (copy.acked, delivered.acked) == (["acked"], [])


def test_one_that_was_killed_for_taking_too_long_is_timed_out_and_tried_again_a_moment_later(
    put: list[Any], noon: datetime
) -> None:
    execution = planned(a_job(now=noon, timeout_seconds=3, retry=RetryPolicy(initial_seconds=0)), noon)
    delivered = Delivered(execution)
    claimed(execution, now=noon, worker="here")
    delivered.request.was_overdue = True
    delivered.dies(WorkerLostError("gone"))
    assert delivered.acked == []
    (death,) = put
    clock = Clock()
    before = clock.now()
    assert recorder.record(death, clock) is Finish.RETRY
    execution.refresh_from_db()
    attempt = execution.attempts.get()
    assert (attempt.outcome, attempt.error) == (Outcome.TIMED_OUT, "It took longer than its hard time limit of 33 s.")
    assert execution.available_at >= before + seconds(2)
    assert delivered.acked == ["acked"]


def test_one_whose_end_could_not_be_written_is_lost_which_celery_tells_twice(
    execution: Execution, delivered: Delivered, put: list[Any], noon: datetime
) -> None:
    claimed(execution, now=noon, worker="here")
    delivered.dies(TimeLimitExceeded(400))
    delivered.request.on_timeout(False, 400)
    (death,) = put
    assert recorder.record(death, Clock()) is Finish.RETRY
    assert execution.attempts.get().outcome == Outcome.WORKER_LOST


def test_one_that_was_killed_for_not_stopping_is_cancelled(
    execution: Execution, delivered: Delivered, put: list[Any], noon: datetime
) -> None:
    claimed(execution, now=noon, worker="here")
    lifecycle.cancel([execution.pk], reason="enough", now=noon)
    delivered.request.was_killed = True
    delivered.dies(WorkerLostError("gone"))
    assert recorder.record(put[0], Clock()) is Finish.CANCELLED
    assert execution.attempts.get().outcome == Outcome.CANCELLED


def test_what_a_child_holds_has_signs_of_life_though_celery_forgot_that_it_gave_it(
    execution: Execution, delivered: Delivered, noon: datetime
) -> None:
    """As it does when the broker goes away before it has heard that a child began."""
    claimed(execution, now=noon, worker="here")
    state.reserved_requests.clear()
    beating = HeartbeatThread(SimpleNamespace(hostname="here", pool=None))
    with orders.holding(execution.pk, 1):
        lifecycle.heartbeat(heartbeat._held(), worker=beating._name, now=noon + seconds(30))
    assert lifecycle.rescue(silent_since=noon + seconds(20), now=noon + seconds(31)) == []
    lifecycle.heartbeat(heartbeat._held(), worker=beating._name, now=noon + seconds(60))
    assert len(lifecycle.rescue(silent_since=noon + seconds(50), now=noon + seconds(61))) == 1


def test_a_word_to_stop_that_went_into_a_loop_which_turns_no_more_is_said_again(
    execution: Execution, delivered: Delivered, noon: datetime
) -> None:
    claimed(execution, now=noon, worker="here")
    lifecycle.cancel([execution.pk], reason="enough", now=noon)
    worker = SimpleNamespace(hostname="here", hub=Hub(), blueprint=SimpleNamespace(state=RUN))
    worker.pool = SimpleNamespace(maintain_pool=lambda: None)
    looking = HeartbeatThread(worker)
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            delivered.request.time_start, delivered.request.worker_pid = 1.0, child.pid
            looking._look()
            assert child.poll() is None  # it waits for a turn of the loop
            worker.blueprint.state = CLOSE
            looking._look()
            assert child.wait(timeout=10) == -signal.SIGUSR1
        finally:
            child.kill()


def test_the_message_of_a_dead_execution_is_rejected_and_leaves_no_result(
    execution: Execution, delivered: Delivered
) -> None:
    delivered.dies(Reject(ValueError("boom"), requeue=False))
    assert delivered.acked == ["rejected"]
    assert not TaskResult.objects.exists()


def test_a_worker_that_could_not_reach_the_database_gives_the_message_back(delivered: Delivered) -> None:
    delivered.dies(Reject("away", requeue=True))
    assert delivered.acked == ["requeued"]


def test_what_celery_remembers_as_revoked_does_not_keep_an_execution_from_running(delivered: Delivered) -> None:
    state.revoked.add(delivered.request.id)
    assert not delivered.request.revoked()
    state.revoked.discard(delivered.request.id)


def test_a_revoke_cancels_executions_and_leaves_plain_tasks_to_celery(
    execution: Execution, put: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = str(uuid.uuid4())
    passed: list[Any] = []
    monkeypatch.setattr(control, "_revoke_plain", lambda _state, ids, **_: passed.append(ids))
    control.revoke(None, [str(execution.pk), plain, "not-even-a-uuid"])
    assert [revoke.ids for revoke in put] == [(execution.pk,)]
    assert passed == [[plain, "not-even-a-uuid"]]
    recorder.cancel(put[0], Clock())
    execution.refresh_from_db()
    assert (execution.state, execution.reason) == (State.CANCELLED, "revoked through Celery")


def test_to_terminate_a_running_execution_is_to_cancel_it(
    execution: Execution, delivered: Delivered, put: list[Any]
) -> None:
    delivered.request.terminate(pool=None)
    assert [type(thing) for thing in put] == [Revoke]
    assert delivered.acked == []


def test_a_plain_task_dies_as_celery_has_it(put: list[Any], execution: Execution) -> None:
    plain = Delivered(execution, onbeat_execution=None)
    plain.dies(WorkerLostError("gone"))
    assert put == []
    assert plain.acked == ["requeued"]


def test_a_death_that_cannot_be_written_lets_the_message_go_and_the_thread_live(
    delivered: Delivered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(recorder, "record", broken)
    monkeypatch.setattr("workers.recorder.connection.close", lambda: None)
    assert delivered.request.delivery is not None
    death = Death(delivered.request, delivered.request.delivery, "here", Outcome.WORKER_LOST, "gone")
    recorder.Recorder()._write(death)
    assert delivered.acked == ["acked"]
