"""Collecting dead letters through crashes, outages and one that is bad: nothing is lost or holds up the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from celery import current_app
from django.db import DataError, OperationalError

from executions import dead_letter_queue, dead_letters, lifecycle, queues
from executions.dead_letters import Collected, collect
from executions.models import Attempt, DeadMessage, Execution
from executions.states import State
from tests import rows
from tests.integration.conftest import Queues
from tests.integration.rejecting import PLAIN, Rejecting, now_of
from tests.making import a_job, planned, seconds

pytestmark = pytest.mark.django_db


@contextmanager
def a_crash_before_the_ack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    class Crash(Exception):
        pass

    def crash(*_args: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(dead_letter_queue.DeadLetterQueue, "let_go", crash)
        with pytest.raises(Crash):
            yield


def test_after_a_crash_between_commit_and_ack_each_message_counts_once(
    published: Execution, noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejecting.publish_task()
    rejecting.reject()
    with a_crash_before_the_ack(monkeypatch):
        collect(noon)
    before = rows.everything()
    rejecting.wait_for(2)
    assert collect(noon + seconds(1)) == Collected(kept=1, dropped=1)
    assert rows.everything() == before
    assert (DeadMessage.objects.count(), Attempt.objects.count(), rejecting.count()) == (1, 1, 0)


def test_two_messages_that_differ_are_two(noon: datetime, rejecting: Rejecting) -> None:
    for number in ("1", "2"):
        rejecting.publish(b"{}", message_id=number, **PLAIN)
    rejecting.publish(b"[]", message_id="1", **PLAIN)
    rejecting.publish(b"{}", headers={"a": 1}, message_id="1", **PLAIN)
    rejecting.reject()
    assert collect(noon) == Collected(kept=4)
    assert DeadMessage.objects.count() == 4


@pytest.mark.embedded
def test_two_messages_without_a_name_that_say_the_same_are_two(noon: datetime, rejecting: Rejecting) -> None:
    """On RabbitMQ they are, unless they were rejected in the same second."""
    for number in (1, 2):
        rejecting.publish(b"{}", **PLAIN)
        rejecting.reject()
        assert (collect(noon).kept, DeadMessage.objects.count()) == (1, number)


def test_a_broker_that_is_away_means_nothing_to_collect(
    noon: datetime, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(current_app.conf, "broker_read_url", "amqp://127.0.0.1:1//")
    assert collect(noon) == Collected()


def test_a_queue_that_nobody_declared_yet_is_declared_and_empty(noon: datetime, broker: Queues) -> None:
    assert collect(noon) == Collected()
    assert broker.channel.queue_declare(queues.dead_letter_queue().name, passive=True).message_count == 0


@pytest.mark.full
def test_a_dead_letter_queue_with_other_arguments_is_collected_all_the_same(noon: datetime, broker: Queues) -> None:
    name = queues.dead_letter_queue().name
    broker.channel.queue_declare(name, durable=True, auto_delete=False, arguments={"x-max-length": 5})
    broker.channel.basic_publish(broker.channel.prepare_message(b"x"), exchange="", routing_key=name)
    assert collect(noon) == Collected(kept=1)


def test_one_that_the_database_does_not_take_stays_and_holds_up_no_other(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for task in ("good.one", "bad.one", "good.two"):
        rejecting.publish_task(task)
    rejecting.reject()
    row_of = dead_letters._row_of

    def refuse(letter: Any, now: datetime) -> DeadMessage:
        if letter.task == "bad.one":
            raise DataError("what a surprise")
        return row_of(letter, now)

    with monkeypatch.context() as broken:
        broken.setattr(dead_letters, "_row_of", refuse)
        assert collect(noon) == Collected(kept=2, left=1)
    assert "a dead letter could not be collected; it stays" in caplog.text
    rejecting.wait_for(1)
    assert collect(noon) == Collected(kept=1)
    assert sorted(DeadMessage.objects.values_list("task", flat=True)) == ["bad.one", "good.one", "good.two"]


def test_an_execution_that_cannot_be_ended_leaves_its_message_and_holds_up_no_other(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(now=noon)
    bad, good = planned(job, noon), planned(job, noon + seconds(1))
    for execution in (bad, good):
        rejecting.publish_execution(execution)
    rejecting.reject()
    fail = lifecycle.fail

    def refuse(claim: Any, **more: Any) -> Any:
        if claim.execution_id == bad.pk:
            raise DataError("what a surprise")
        return fail(claim, **more)

    with monkeypatch.context() as broken:
        broken.setattr(lifecycle, "fail", refuse)
        assert collect(noon + seconds(1)) == Collected(ended=1, left=1)
    assert (now_of(bad), now_of(good)) == ((State.SCHEDULED, 1), (State.SCHEDULED, 2))
    rejecting.wait_for(1)
    assert collect(noon + seconds(1)) == Collected(ended=1)


def test_when_the_database_goes_away_everything_stays_in_the_queue(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejecting.publish_task()
    rejecting.reject()

    def away(*_args: object) -> None:
        raise OperationalError("connection refused")

    with monkeypatch.context() as outage:
        outage.setattr(dead_letters, "_row_of", away)
        with pytest.raises(OperationalError):
            collect(noon)
    rejecting.wait_for(1)
    assert collect(noon) == Collected(kept=1)


def test_one_call_takes_so_many_in_batches_and_the_next_one_the_rest(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_PER_BATCH", 2)
    for number in range(7):
        rejecting.publish_task(f"task{number}")
    rejecting.reject()
    assert [collect(noon, most=5).kept, collect(noon, most=5).kept] == [5, 2]
    assert DeadMessage.objects.count() == 7


def test_a_call_that_took_its_time_stops_after_a_batch(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_PER_BATCH", 2)
    monkeypatch.setattr(dead_letters, "_PATIENCE_SECONDS", -1.0)
    for number in range(3):
        rejecting.publish_task(f"task{number}")
    rejecting.reject()
    assert collect(noon).kept == 2
