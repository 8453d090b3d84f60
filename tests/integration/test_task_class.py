"""The task class: ours go through the runner, plain Celery stays plain Celery."""

from datetime import datetime
from typing import Any

import pytest
from celery import shared_task

from executions.messages import of_execution
from executions.models import Execution
from executions.states import State
from tests.making import a_job, outgoing, planned

pytestmark = pytest.mark.django_db
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _no_calls_yet() -> None:
    calls.clear()


@shared_task(bind=True, name="tests.count_down")
def count_down(self: Any, number: int) -> int:
    """Calls itself as a plain function."""
    calls.append((number, self.request.id))
    return count_down(number - 1) if number else 0


@shared_task(bind=True, name="tests.own_arguments")
def own_arguments(self: Any, *_args: int) -> list[int]:
    return list(self.request.args or [])


def deliver(execution: Execution) -> Any:
    """What a worker does with the execution's message."""
    message = of_execution(*outgoing(execution))
    return count_down.apply(
        args=execution.args, kwargs=execution.kwargs, task_id=str(execution.pk), headers=message.headers
    )


def test_a_plain_celery_call_sees_its_own_request() -> None:
    count_down.apply(args=[0], task_id="plain")
    assert calls == [(0, "plain")]
    assert not Execution.objects.exists()


def test_a_task_called_as_a_function_is_a_function() -> None:
    assert count_down(1) == 0
    assert calls == [(1, None), (0, None)]
    assert own_arguments(1, 2) == [1, 2]  # Celery gives a function call a request, too


def test_a_delivery_is_claimed_and_sees_the_execution_id(noon: datetime) -> None:
    execution = planned(a_job(now=noon, task=count_down.name, args=[0]), noon)
    deliver(execution)
    execution.refresh_from_db()
    assert execution.state == State.SUCCEEDED
    assert calls == [(0, str(execution.pk))]


def test_a_message_that_only_pretends_to_be_ours_does_not_run(noon: datetime) -> None:
    outcome = count_down.apply(args=[0], headers={"onbeat_execution": "junk"})
    assert outcome.state == "REJECTED"
    assert calls == []


def test_a_task_that_calls_itself_runs_under_one_claim(noon: datetime) -> None:
    execution = planned(a_job(now=noon, task=count_down.name, args=[2]), noon)
    assert deliver(execution).result == 0
    assert [number for number, _ in calls] == [2, 1, 0]
    execution.refresh_from_db()
    assert (execution.state, execution.result) == (State.SUCCEEDED, 0)
    assert execution.attempts.count() == 1
