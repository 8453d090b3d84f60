"""Celery's own words in a handler: retry, autoretry, ignore, reject, own bases. All end in the database."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Task, shared_task, signals
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded

from executions.models import Attempt, Execution
from executions.states import Outcome, State
from tests import delivering
from tests.making import a_job, planned
from workers import context
from workers.task import Tracking

pytestmark = pytest.mark.django_db
said: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_said_yet() -> None:
    said.clear()


class Own(Task):
    """A base as applications bring it: with hooks, an attribute and a call of its own."""

    abstract = True
    wraps = "own"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        said.append("before")
        return super().__call__(*args, **kwargs)

    def on_failure(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        said.append(("on_failure", type(exc).__name__, task_id))

    def after_return(self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        said.append(("after_return", status))

    def on_retry(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        said.append(("on_retry", type(exc).__name__))


@shared_task(name="words.own", base=Own, bind=True)
def own(self: Any, error: str = "") -> str:
    if error:
        raise ValueError(error)
    return f"{self.wraps} {context.current().attempt}"


@shared_task(name="words.retry", bind=True)
def retry(self: Any, **how: Any) -> None:
    raise self.retry(exc=OSError("not yet"), **how)


@shared_task(name="words.retry_and_go_on", bind=True)
def retry_and_go_on(self: Any) -> str:
    self.retry(countdown=7, throw=False)
    return "as if nothing were"


@shared_task(name="words.autoretry", autoretry_for=(OSError,), retry_backoff=5, retry_jitter=False)
def autoretry() -> None:
    raise OSError("try again")


@shared_task(name="words.raise")
def raises(what: str) -> None:
    errors = {
        "ignore": Ignore(),
        "reject": Reject("never"),
        "requeue": Reject("later", requeue=True),
        "exit": SystemExit(3),
        "cancelled": context.Cancelled(),
        "slow": SoftTimeLimitExceeded(),
    }
    raise errors[what]


def deliver(task: Any, *, noon: datetime, **fields: Any) -> tuple[Execution, Any]:
    """What a worker does with the message of one fire; the row afterwards and what Celery was told."""
    execution = planned(a_job(now=noon, task=task.name, **{"max_attempts": 2, **fields}), noon)
    return execution, delivering.deliver(execution)


def due_in(execution: Execution) -> timedelta:
    """From the end of its last attempt to the next one."""
    return (
        execution.available_at - Attempt.objects.get(execution=execution.pk, number=execution.attempt - 1).finished_at
    )


def test_a_task_with_its_own_base_is_tracked_and_keeps_its_own_call(noon: datetime) -> None:
    execution, _ = deliver(own, noon=noon)
    assert isinstance(own, Tracking)
    assert (execution.state, execution.result) == (State.SUCCEEDED, "own 1")
    assert said == ["before", ("after_return", "SUCCESS")]


def test_the_hooks_of_its_base_are_called_for_each_retry_and_for_the_last_failure(noon: datetime) -> None:
    failures: list[str] = []

    def listen(exception: Exception, **_kwargs: Any) -> None:
        failures.append(type(exception).__name__)

    signals.task_failure.connect(listen)
    execution, answer = deliver(own, noon=noon, args=["boom"])
    assert answer.state == "RETRY"
    answer = delivering.deliver(execution)
    assert (execution.state, answer.state) == (State.DEAD, "REJECTED")
    failed = ("on_failure", "ValueError", str(execution.pk))
    assert said == ["before", ("on_retry", "ValueError"), "before", failed, ("after_return", "FAILURE")]
    assert failures == ["ValueError"]


@pytest.mark.parametrize(("how", "seconds"), [({"countdown": 90}, 90), ({}, 30)])
def test_a_handlers_own_retry_waits_in_the_database_as_long_as_it_says(
    noon: datetime, how: dict[str, Any], seconds: int
) -> None:
    execution, answer = deliver(retry, noon=noon, kwargs=how)
    assert (execution.state, execution.attempt, answer.state) == (State.SCHEDULED, 2, "RETRY")
    assert due_in(execution) == timedelta(seconds=seconds)
    assert "OSError: not yet" in execution.error


def test_a_retry_counts_against_the_jobs_attempts(noon: datetime) -> None:
    execution, _ = deliver(retry, noon=noon)
    delivering.deliver(execution)
    assert execution.state == State.DEAD


def test_a_smaller_max_retries_of_the_handler_counts_as_well(noon: datetime) -> None:
    execution, _ = deliver(retry, noon=noon, kwargs={"max_retries": 1}, max_attempts=5)
    assert execution.state == State.SCHEDULED
    delivering.deliver(execution)
    assert execution.state == State.DEAD
    assert "OSError: not yet" in execution.error


@shared_task(name="words.few", bind=True, max_retries=0)
def few(self: Any) -> None:
    raise self.retry(exc=OSError("not yet"))


def test_a_smaller_max_retries_of_the_decorator_counts_too(noon: datetime) -> None:
    execution, _ = deliver(few, noon=noon, max_attempts=5)
    assert execution.state == State.DEAD


def test_a_retry_may_bring_other_arguments(noon: datetime) -> None:
    execution, _ = deliver(retry, noon=noon, kwargs={"kwargs": {"countdown": 1}})
    assert execution.kwargs == {"countdown": 1}


def test_arguments_that_cannot_be_stored_are_told_in_the_error(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "run", lambda: retry.retry(kwargs={"what": object()}))
    execution, _ = deliver(retry, noon=noon, max_attempts=1)
    assert execution.state == State.DEAD
    assert "must be plain JSON" in execution.error


def test_a_handler_that_asks_for_a_retry_and_goes_on_is_tried_again(noon: datetime) -> None:
    execution, _ = deliver(retry_and_go_on, noon=noon)
    assert (execution.state, execution.attempt) == (State.SCHEDULED, 2)
    assert due_in(execution) == timedelta(seconds=7)


def test_autoretry_ends_in_the_same_place_with_its_own_backoff(noon: datetime) -> None:
    execution, answer = deliver(autoretry, noon=noon, max_attempts=3)
    assert (execution.state, answer.state) == (State.SCHEDULED, "RETRY")
    assert due_in(execution) == timedelta(seconds=5)
    delivering.deliver(execution)
    assert due_in(execution) == timedelta(seconds=10)  # it reads the number of retries from its request
    delivering.deliver(execution)
    assert execution.state == State.DEAD


@pytest.mark.parametrize(
    ("what", "state", "outcome"),
    [
        ("ignore", State.SUCCEEDED, Outcome.SUCCEEDED),
        ("reject", State.DEAD, Outcome.FAILED),
        ("requeue", State.SCHEDULED, Outcome.FAILED),
        ("exit", State.SCHEDULED, Outcome.FAILED),
        ("cancelled", State.SCHEDULED, Outcome.FAILED),  # nobody had asked for it
        ("slow", State.SCHEDULED, Outcome.TIMED_OUT),
    ],
)
def test_whatever_a_handler_raises_ends_its_attempt(noon: datetime, what: str, state: State, outcome: Outcome) -> None:
    execution, _ = deliver(raises, noon=noon, args=[what])
    assert execution.state == state
    assert Attempt.objects.get(execution=execution.pk).outcome == outcome


def test_a_plain_celery_call_retries_as_celery_does(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(Task, "retry", lambda self, *args, **kwargs: sent.append((args, kwargs)) or Reject("sent"))
    retry.apply(kwargs={"countdown": 1}, throw=False)
    assert len(sent) == 1
    assert not Execution.objects.exists()
