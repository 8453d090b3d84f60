"""A step that was committed though its answer was lost: whoever tries again finds its own work, and goes on with it."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.db import InternalError, OperationalError

from executions import lifecycle
from executions.messages import Delivery
from executions.models import Attempt, Execution
from executions.outcomes import Finish
from executions.retry import RetryPolicy
from executions.states import Outcome, State
from tests.making import a_job, planned, seconds
from workers import runner
from workers.runner import Ended
from workers.stopping import Cancelled

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHORT_SECONDS", "LONG_SECONDS"):
        monkeypatch.setattr(runner, name, (0, 0, 0))
    # Reconnecting would end the transaction that this test's rows live in.
    monkeypatch.setattr("workers.patience.connection.close", lambda: None)


@pytest.fixture
def execution(noon: datetime) -> Execution:
    return planned(a_job(now=noon, retry=RetryPolicy(max_attempts=2)), noon)


def run(execution: Execution, call: Callable[[], Any]) -> Ended:
    ours = Delivery(execution.pk, execution.attempt, execution.fire_time, execution.job.key)
    return runner.run(ours, worker="w", call=call)


def first_time(monkeypatch: pytest.MonkeyPatch, verb: str, happens: Callable[[Callable[[], Any]], None]) -> None:
    """The first call of a verb fails after this happened; it gets the call itself."""
    real, is_first = getattr(lifecycle, verb), iter([True])

    def failing(*args: Any, **options: Any) -> Any:
        if next(is_first, False):
            happens(lambda: real(*args, **options))
            raise OperationalError("the line was cut")
        return real(*args, **options)

    monkeypatch.setattr(lifecycle, verb, failing)


def it_is_done(do: Callable[[], Any]) -> None:
    do()


def fail() -> None:
    raise ValueError("no")


def test_a_claim_whose_answer_was_lost_is_still_ours(execution: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    first_time(monkeypatch, "claim", it_is_done)
    ran: list[int] = []
    assert run(execution, lambda: ran.append(1)).finish is Finish.SUCCEEDED
    assert ran == [1]
    assert list(Attempt.objects.values_list("number", "outcome")) == [(1, Outcome.SUCCEEDED)]


@pytest.mark.parametrize("worker", ["another", "w"], ids=["of another worker", "of another copy in this worker"])
def test_a_claim_that_came_between_is_not_taken_for_ours(
    execution: Execution, monkeypatch: pytest.MonkeyPatch, noon: datetime, worker: str
) -> None:
    real = lifecycle.claim
    first_time(monkeypatch, "claim", lambda _: real(execution.pk, 1, worker=worker, now=noon))
    assert run(execution, lambda: pytest.fail("it ran twice")) == Ended()


@pytest.mark.parametrize(
    ("verb", "call", "finish", "state"),
    [
        ("succeed", lambda: "done", Finish.SUCCEEDED, State.SUCCEEDED),
        ("fail", fail, Finish.RETRY, State.SCHEDULED),
    ],
)
def test_an_end_whose_answer_was_lost_is_told_as_what_it_was(
    execution: Execution,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    call: Callable[[], Any],
    finish: Finish,
    state: State,
) -> None:
    first_time(monkeypatch, verb, it_is_done)
    assert run(execution, call).finish is finish
    execution.refresh_from_db()
    assert (execution.state, execution.lost) == (state, 0)
    assert list(Attempt.objects.values_list("number", "refused_at")) == [(1, None)]


def test_a_last_failure_whose_answer_was_lost_is_a_dead_letter(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    Execution.objects.update(max_attempts=1)
    first_time(monkeypatch, "fail", it_is_done)
    assert run(execution, fail).finish is Finish.DEAD


def test_a_stop_whose_answer_was_lost_is_a_stop(execution: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped() -> None:
        lifecycle.cancel([execution.pk], reason="by test", now=execution.fire_time)
        raise Cancelled

    first_time(monkeypatch, "stop", it_is_done)
    assert run(execution, stopped).finish is Finish.CANCELLED
    assert list(Attempt.objects.values_list("outcome", "refused_at")) == [(Outcome.CANCELLED, None)]


def test_an_end_that_came_between_is_not_taken_for_ours(execution: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_rescued(_: Callable[[], Any]) -> None:
        later = Execution.objects.get().heartbeat_at
        assert later is not None
        assert len(lifecycle.rescue(silent_since=later + seconds(1), now=later + seconds(1))) == 1

    first_time(monkeypatch, "succeed", is_rescued)
    assert run(execution, lambda: "done").finish is Finish.REFUSED
    assert list(Attempt.objects.values_list("outcome", "refused_outcome")) == [("WORKER_LOST", "SUCCEEDED")]


@pytest.mark.parametrize("verb", ["claim", "succeed"])
def test_a_server_that_takes_no_writes_is_waited_for(
    execution: Execution, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Read-only after a fail-over, or a session that was ended for its silence: an InternalError to psycopg."""

    def refuse(_: Callable[[], Any]) -> None:
        raise InternalError("cannot execute UPDATE in a read-only transaction")

    first_time(monkeypatch, verb, refuse)
    assert run(execution, lambda: "done").finish is Finish.SUCCEEDED
