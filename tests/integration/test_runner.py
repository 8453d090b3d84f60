"""Running a delivery: claimed once, finished fenced, and never lost to a database that is away."""

from datetime import datetime
from typing import Any

import pytest
from django.db import OperationalError

from executions import lifecycle
from executions.messages import Delivery
from executions.models import Execution
from executions.outcomes import Finish
from executions.states import State
from tests.making import a_job, planned
from workers import runner
from workers.patience import Unreachable
from workers.runner import Ended

pytestmark = pytest.mark.django_db


@pytest.fixture
def execution(noon: datetime) -> Execution:
    return planned(a_job(now=noon, max_attempts=2), noon)


def delivery_of(execution: Execution) -> Delivery:
    return Delivery(execution.pk, execution.attempt, execution.fire_time, execution.job.key)


def run(execution: Execution, call: Any) -> Ended:
    return runner.run(delivery_of(execution), worker="w", call=call)


def test_a_task_runs_under_its_claim_and_its_result_is_kept(execution: Execution) -> None:
    states: list[str] = []

    def task() -> dict[str, int]:
        states.append(Execution.objects.get(pk=execution.pk).state)
        return {"sent": 3}

    assert run(execution, task) == Ended(Finish.SUCCEEDED, result={"sent": 3})
    execution.refresh_from_db()
    assert states == [State.RUNNING]
    assert (execution.state, execution.result) == (State.SUCCEEDED, {"sent": 3})


def test_a_doubled_message_does_not_run_twice(execution: Execution) -> None:
    ran: list[int] = []
    run(execution, lambda: ran.append(1))
    run(execution, lambda: ran.append(2))
    assert ran == [1]


def test_a_message_of_an_execution_that_is_gone_is_dropped(execution: Execution) -> None:
    ours = delivery_of(execution)
    execution.delete()
    assert runner.run(ours, worker="w", call=lambda: pytest.fail("it ran")) == Ended()


def test_a_failure_is_recorded_with_its_traceback(execution: Execution) -> None:
    ended = run(execution, lambda: 1 / 0)
    assert (ended.finish, type(ended.error)) == (Finish.RETRY, ZeroDivisionError)
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (State.SCHEDULED, 2)
    assert "ZeroDivisionError: division by zero" in execution.error


def test_the_last_failure_is_for_good(execution: Execution) -> None:
    run(execution, lambda: 1 / 0)
    execution.refresh_from_db()
    assert run(execution, lambda: 1 / 0).finish is Finish.DEAD
    execution.refresh_from_db()
    assert execution.state == State.DEAD


def test_an_error_that_cannot_say_itself_is_still_a_dead_letter(execution: Execution) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def fail() -> None:
        raise Mute

    run(execution, fail)
    execution.refresh_from_db()
    run(execution, fail)
    execution.refresh_from_db()
    assert execution.state == State.DEAD


def test_a_strange_result_does_not_turn_a_success_into_a_loss(execution: Execution) -> None:
    run(execution, lambda: {"text": "a\x00b\ud800", "object": object()})
    execution.refresh_from_db()
    assert execution.state == State.SUCCEEDED


def test_a_claim_that_cannot_reach_the_database_is_tried_again(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([OperationalError("away"), OperationalError("away")])
    claim = lifecycle.claim

    def flaky(*args: Any, **kwargs: Any) -> Any:
        for error in failures:
            raise error
        return claim(*args, **kwargs)

    no_pauses(monkeypatch)
    monkeypatch.setattr(lifecycle, "claim", flaky)
    assert run(execution, lambda: "done").result == "done"


def test_a_message_goes_back_when_the_database_stays_away(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: Any, **_kwargs: Any) -> Any:
        raise OperationalError("away")

    no_pauses(monkeypatch)
    monkeypatch.setattr(lifecycle, "claim", away)
    with pytest.raises(Unreachable):
        run(execution, lambda: pytest.fail("it ran without a claim"))


def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SHORT_SECONDS", (0, 0, 0))
    # Reconnecting would end the transaction that this test's rows live in.
    monkeypatch.setattr("workers.patience.connection.close", lambda: None)
