"""What a handler knows of its execution, and what it may note."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from celery import shared_task
from django.db import OperationalError, transaction

from executions import lifecycle
from executions.messages import Delivery
from executions.models import Execution
from executions.states import State
from tests.making import a_job, planned
from workers import context, runner

pytestmark = pytest.mark.django_db


@pytest.fixture
def execution(noon: datetime) -> Execution:
    return planned(a_job(now=noon, key="billing", max_attempts=3), noon)


def run(execution: Execution, work: Callable[[context.Context], Any]) -> Any:
    execution.refresh_from_db()
    ours = Delivery(execution.pk, execution.attempt, execution.fire_time, "billing")
    ended = runner.run(ours, worker="w", call=lambda: work(context.current()))
    execution.refresh_from_db()
    return ended.result if ended.error is None else ended.error


def test_it_names_the_execution_its_job_its_fire_and_its_attempt(execution: Execution, noon: datetime) -> None:
    seen: list[context.Context] = []
    run(execution, seen.append)
    (here,) = seen
    assert here
    assert (here.execution_id, here.idempotency_key) == (execution.pk, str(execution.pk))
    assert (here.job_key, here.fire_time, here.attempt) == ("billing", noon, 1)
    assert (here.previous_error, here.last_checkpoint, here.cancelled) == ("", None, False)


@shared_task(name="context.plain")
def plain() -> list[Any]:
    here = context.current()
    here.progress(1, 2)
    return [bool(here), here.idempotency_key, here.attempt, here.previous_error, here.last_checkpoint,
            here.checkpoint({"a": 1}), here.cancelled]  # fmt: skip


def test_in_a_plain_call_it_is_empty_and_nothing_is_an_error() -> None:
    empty = [False, "", 0, "", None, True, False]
    assert plain() == empty
    assert plain.apply().result == empty
    assert not Execution.objects.exists()


def test_a_plain_task_that_a_handler_runs_within_itself_has_an_empty_one(execution: Execution) -> None:
    assert run(execution, lambda here: plain.apply().result[0]) is False
    assert execution.state == State.SUCCEEDED


def test_it_is_gone_after_the_handler(execution: Execution) -> None:
    run(execution, lambda here: None)
    assert not context.current()


def test_the_next_attempt_sees_the_checkpoint_and_the_error_before_it(execution: Execution) -> None:
    def first(here: context.Context) -> None:
        assert here.checkpoint({"page": 7})
        assert here.last_checkpoint == {"page": 7}
        raise OSError("paper jam")

    run(execution, first)
    assert run(execution, lambda here: [here.attempt, here.last_checkpoint, "paper jam" in here.previous_error]) == [
        2,
        {"page": 7},
        True,
    ]


@pytest.mark.parametrize("data", [object(), {"a": float("nan")}, "x" * 70_000, {1: "a"}, ["\x00"]])
def test_a_checkpoint_that_could_not_be_read_back_is_refused_with_the_remedy(execution: Execution, data: Any) -> None:
    error = run(execution, lambda here: here.checkpoint(data))
    assert isinstance(error, ValueError)
    assert "must be plain JSON of up to 65536 bytes" in str(error)
    assert execution.checkpoint is None


def test_a_checkpoint_within_a_transaction_goes_with_it(execution: Execution) -> None:
    def work(here: context.Context) -> None:
        here.checkpoint({"page": 1})
        with transaction.atomic():
            here.checkpoint({"page": 2})
            transaction.set_rollback(True)

    run(execution, work)
    assert execution.checkpoint == {"page": 1}


def test_who_lost_the_claim_is_told_by_the_next_checkpoint(execution: Execution, noon: datetime) -> None:
    told: list[bool] = []

    def work(here: context.Context) -> None:
        lifecycle.rescue(silent_since=datetime.max.replace(tzinfo=noon.tzinfo), now=noon)
        told.extend([here.checkpoint({"page": 1}), here.cancelled])

    run(execution, work)
    assert told == [False, True]
    assert (execution.state, execution.attempt, execution.checkpoint) == (State.SCHEDULED, 2, None)


@pytest.mark.django_db(transaction=True)
def test_progress_is_written_at_most_once_a_second_and_at_the_end(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    monkeypatch.setattr(lifecycle, "progress", lambda claim, *, said: written.append(said) or True)

    def work(here: context.Context) -> None:
        for done in range(1, 101):
            here.progress(done, 100, note="rows")

    run(execution, work)
    assert written == [{"done": done, "total": 100, "note": "rows"} for done in (1, 100)]


@pytest.mark.django_db(transaction=True)
def test_progress_within_a_transaction_waits_for_its_end(execution: Execution) -> None:
    def work(here: context.Context) -> None:
        with transaction.atomic():
            here.progress(1)
            assert Execution.objects.get().progress is None
        here.progress(2)

    run(execution, work)
    assert execution.progress["done"] == 2


@pytest.mark.django_db(transaction=True)
def test_progress_that_cannot_be_written_is_no_reason_to_fail(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: Any, **_kwargs: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(lifecycle, "progress", away)
    assert run(execution, lambda here: here.progress(1)) is None
    assert execution.state == State.SUCCEEDED


@pytest.mark.django_db(transaction=True)
def test_progress_may_be_said_without_a_total_and_of_anything(execution: Execution) -> None:
    run(execution, lambda here: here.progress(3, note="a\x00b" + "x" * 500))
    assert execution.progress["done"] == 3
    assert execution.progress["total"] is None
    assert execution.progress["note"] == ("a␀b" + "x" * 500)[:200]
