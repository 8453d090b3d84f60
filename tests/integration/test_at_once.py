"""What is wanted now is published by the process in which it was asked for, and by a beat if that cannot be."""

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
from celery import current_app
from django.db import transaction

from executions import at_once, depths
from executions.clock import database_now
from executions.dispatch import Publisher
from executions.models import Execution
from executions.states import State
from jobs import runs
from jobs.models import Job
from jobs.runs import Asked, Wanted
from tests.integration.conftest import Queues
from tests.making import a_job, a_ticker, claimed, seconds

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job() -> Job:
    return a_job(now=database_now(), key="asked-for")


@pytest.fixture(autouse=True)
def line_of_its_own() -> Iterator[None]:
    at_once.close()
    yield
    at_once.close()


def row_of(asked: Asked) -> Execution:
    return Execution.objects.get(pk=asked.execution_id)


def test_a_run_that_is_wanted_now_is_in_its_queue_when_the_call_returns(broker: Queues, job: Job) -> None:
    asked = runs.run_at_once(job, [Wanted()])[0]
    row = row_of(asked)
    assert row.state == State.QUEUED
    assert row.queued_at == row.available_at  # it was not kept back after all
    assert row.fire_time < row.available_at < row.fire_time + at_once.HEAD_START
    assert [message.headers["id"] for message in broker.take_all()] == [str(row.pk)]
    assert claimed(row, now=database_now()).attempt == 1


def test_no_beat_takes_it_within_the_head_start(broker: Queues, job: Job, publisher: Publisher) -> None:
    with transaction.atomic():
        asked = runs.run_at_once(job, [Wanted()])[0]
        assert row_of(asked).state == State.SCHEDULED
        assert not Execution.objects.due(database_now()).exists()
        assert depths.ready(["default"]) == {"default": 0}
    assert row_of(asked).state == State.QUEUED


def test_nothing_is_published_if_the_transaction_is_rolled_back(broker: Queues, job: Job) -> None:
    with transaction.atomic():
        runs.run_at_once(job, [Wanted()])
        transaction.set_rollback(True)
    assert not Execution.objects.exists()
    assert depths.ready(["default"]) == {"default": 0}


def test_delayed_runs_are_left_to_the_beats(broker: Queues, job: Job) -> None:
    asked = runs.run_at_once(job, [Wanted(delay=seconds(0.2)), Wanted(run_at=database_now() + seconds(0.3))])
    assert [row_of(each).state for each in asked] == [State.SCHEDULED] * 2
    assert depths.ready(["default"]) == {"default": 0}


def test_many_are_left_to_the_beats_and_are_due_at_once(broker: Queues, job: Job) -> None:
    asked = runs.run_at_once(job, [Wanted()] * (at_once.MOST_AT_ONCE + 1))
    assert Execution.objects.due(database_now()).count() == len(asked)
    assert depths.ready(["default"]) == {"default": 0}


def test_a_run_key_that_is_in_use_publishes_nothing_anew(broker: Queues, job: Job) -> None:
    first = runs.run_at_once(job, [Wanted(run_key="a")])[0]
    again = runs.run_at_once(job, [Wanted(run_key="a")])[0]
    assert (again.execution_id, again.is_new) == (first.execution_id, False)
    assert len(broker.take_all()) == 1


def test_without_a_broker_it_waits_for_a_beat_and_nobody_asks_again_for_a_while(
    broker: Queues, job: Job, publisher: Publisher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setitem(current_app.conf, "broker_write_url", "amqp://127.0.0.1:1//")
        asked = [runs.run_at_once(job, [Wanted()])[0] for _ in range(3)]
    assert [record.message.split("  ")[0] for record in caplog.records] == [
        "the broker is away: what was asked for is left to the beats"
    ]
    assert {row_of(each).state for each in asked} == {State.SCHEDULED}
    later = max(row_of(each).available_at for each in asked) + timedelta(milliseconds=1)
    assert a_ticker(publisher).tick(later).published == 3
    assert {row_of(each).state for each in asked} == {State.QUEUED}


def test_a_line_that_was_cut_while_nobody_used_it_is_opened_anew(broker: Queues, job: Job) -> None:
    assert row_of(runs.run_at_once(job, [Wanted()])[0]).state == State.QUEUED
    line = at_once._line._publisher._line  # type: ignore[union-attr]
    if line._speaks_amqp():
        line._connection.default_channel.connection.sock.shutdown(2)
    assert row_of(runs.run_at_once(job, [Wanted()])[0]).state == State.QUEUED
