"""The dead letters of executions: an attempt that nobody took is ended once, by its job's policy."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from beat.upkeep.dead_letters import DUTY
from beat.upkeep.lost_messages import return_lost_messages
from executions import dead_letters, lifecycle, messages, queues
from executions.dead_letters import WORKER, Collected, collect
from executions.dispatch import Publisher
from executions.fingerprint import of_error
from executions.identity import new_execution_id
from executions.models import Attempt, DeadMessage, Execution
from executions.retry import RetryPolicy
from executions.states import State
from tests import rows
from tests.integration.conftest import Queues
from tests.integration.rejecting import PLAIN, Rejecting, now_of
from tests.making import a_job, a_ticker, claimed, planned, seconds

pytestmark = pytest.mark.django_db


def test_an_execution_whose_message_no_worker_took_is_tried_again_and_then_given_up(
    published: Execution, noon: datetime, publisher: Publisher, rejecting: Rejecting
) -> None:
    rejecting.reject()
    assert collect(noon + seconds(1)) == Collected(ended=1)
    assert now_of(published) == (State.SCHEDULED, 2)
    assert (published.reason, published.available_at) == ("waits for its retry", noon + seconds(31))
    assert a_ticker(publisher).tick(noon + seconds(31)).published == 1
    rejecting.reject()
    assert DUTY.run(noon + seconds(32)) == 1
    assert now_of(published) == (State.DEAD, 2)
    assert "the task 'onbeat.echo' is not registered there" in published.error
    assert published.fingerprint == of_error(published.error)
    told = list(Attempt.objects.filter(execution=published).values_list("number", "outcome", "worker"))
    assert told == [(1, "FAILED", WORKER), (2, "FAILED", WORKER)]
    assert (rejecting.count(), DeadMessage.objects.count()) == (0, 0)


def test_a_policy_may_give_up_on_a_task_that_nobody_knows(
    noon: datetime, publisher: Publisher, rejecting: Rejecting
) -> None:
    execution = planned(a_job(now=noon, retry=RetryPolicy(give_up_on=("NotRegistered",))), noon)
    a_ticker(publisher).tick(noon)
    rejecting.reject()
    collect(noon)
    assert now_of(execution) == (State.DEAD, 1)


def test_one_that_is_still_scheduled_is_taken_as_well(noon: datetime, rejecting: Rejecting) -> None:
    """Published, and its beat died before it marked the row."""
    execution = planned(a_job(now=noon), noon)
    rejecting.publish_execution(execution)
    rejecting.reject()
    assert collect(noon).ended == 1
    assert now_of(execution) == (State.SCHEDULED, 2)


def test_a_body_that_was_broken_on_its_way_is_told(noon: datetime, rejecting: Rejecting) -> None:
    execution = planned(a_job(now=noon, max_attempts=1), noon)
    headers = {"task": "onbeat.echo", messages.EXECUTION_HEADER: str(execution.pk), messages.ATTEMPT_HEADER: 1}
    headers |= {messages.FIRE_TIME_HEADER: noon.isoformat(), messages.JOB_KEY_HEADER: "x"}
    rejecting.publish(b'[[1], {"a"', headers=headers, **PLAIN)
    rejecting.reject()
    collect(noon)
    assert now_of(execution) == (State.DEAD, 1)
    assert execution.error == "No worker could take its message: its body is not the JSON that it says it is."


def end_dead(execution: Execution, noon: datetime) -> None:
    for number in range(execution.max_attempts):
        execution.refresh_from_db()
        lifecycle.fail(claimed(execution, now=noon), error=f"boom {number}", now=noon)


def end_well(execution: Execution, noon: datetime) -> None:
    lifecycle.succeed(claimed(execution, now=noon), result=None, now=noon)


def begin(execution: Execution, noon: datetime) -> None:
    claimed(execution, now=noon)


def call_off(execution: Execution, noon: datetime) -> None:
    lifecycle.cancel([execution.pk], reason="", now=noon)


def fail_once(execution: Execution, noon: datetime) -> None:
    lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon)


@pytest.mark.parametrize("how", [end_dead, end_well, begin, call_off, fail_once])
def test_a_message_whose_execution_is_over_runs_or_went_on_changes_nothing(
    published: Execution, noon: datetime, rejecting: Rejecting, how: Any
) -> None:
    how(published, noon)
    before = rows.everything()
    rejecting.reject()
    assert collect(noon + seconds(1)) == Collected(dropped=1)
    assert (rejecting.count(), rows.everything()) == (0, before)


def test_the_message_of_an_execution_that_is_gone_is_dropped_and_told(
    noon: datetime, rejecting: Rejecting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    execution = planned(a_job(now=noon), noon)
    for execution_id in (execution.pk, new_execution_id(noon)):
        rejecting.publish_execution(execution, **{messages.EXECUTION_HEADER: str(execution_id)})
    rejecting.publish_execution(execution, **{messages.EXECUTION_HEADER: "ffffffff-ffff-ffff-ffff-ffffffffffff"})
    Execution.objects.all().delete()
    rejecting.reject()
    assert collect(noon) == Collected(dropped=3)
    gone = [line for line in caplog.messages if "its execution is gone" in line]
    assert len(gone) == 3
    assert str(execution.pk) in gone[0]


def test_an_attempt_of_no_number_that_there_is_is_none_of_this_execution(noon: datetime, rejecting: Rejecting) -> None:
    execution = planned(a_job(now=noon), noon)
    rejecting.publish_execution(execution, **{messages.ATTEMPT_HEADER: "9" * 40})
    rejecting.reject()
    assert collect(noon) == Collected(dropped=1)
    assert now_of(execution) == (State.SCHEDULED, 1)


def test_a_message_from_before_its_run_was_moved_ends_nothing(noon: datetime, rejecting: Rejecting) -> None:
    execution = planned(a_job(now=noon), noon)
    rejecting.publish_execution(execution)
    lifecycle.hold([execution], reason="moved", until=noon + timedelta(hours=1))
    rejecting.reject()
    assert collect(noon) == Collected(dropped=1)
    assert now_of(execution) == (State.SCHEDULED, 1)


def test_where_there_is_no_room_the_execution_waits_and_its_message_goes(noon: datetime, rejecting: Rejecting) -> None:
    job = a_job(now=noon, max_concurrency=1)
    claimed(planned(job, noon), now=noon)
    second = planned(job, noon + seconds(1))
    rejecting.publish_execution(second)
    rejecting.reject()
    assert collect(noon + seconds(1)) == Collected(dropped=1)
    second.refresh_from_db()
    assert (second.state, second.is_waiting) == (State.SCHEDULED, True)


def test_many_messages_of_executions_that_are_over_cost_one_look(noon: datetime, rejecting: Rejecting) -> None:
    job = a_job(now=noon)
    counts = []
    for many in (2, 20):
        for number in range(many):
            execution = planned(job, noon + seconds(len(counts) * 100 + number))
            rejecting.publish_execution(execution)
            lifecycle.cancel([execution.pk], reason="", now=noon)
        rejecting.reject()
        with CaptureQueriesContext(connection) as asked:
            assert collect(noon).dropped == many
        counts.append(len(asked))
    assert counts == [1, 1]


@pytest.mark.full
def test_an_execution_whose_message_expired_in_its_queue_is_given_up_at_once(
    noon: datetime, broker: Queues, rejecting: Rejecting
) -> None:
    execution = planned(a_job(now=noon, max_attempts=5), noon)
    lifecycle.mark_queued([execution], now=noon)
    rejecting.declare("brief", {"x-message-ttl": 20})
    try:
        rejecting.publish_execution(execution, queue="brief")
        rejecting.wait_for(1)
        assert collect(noon) == Collected(ended=1)
    finally:
        broker.delete("brief")
    assert now_of(execution) == (State.DEAD, 1)
    name = queues.work_queue("brief").name
    assert execution.error == f"Its message waited longer in the queue '{name}' than the broker allows."


@pytest.mark.full
def test_an_execution_whose_message_did_not_fit_into_its_queue_is_published_again_after_a_while(
    noon: datetime, broker: Queues, rejecting: Rejecting
) -> None:
    job = a_job(now=noon)
    first, second, moved = (planned(job, noon + seconds(number)) for number in range(3))
    lifecycle.mark_queued([first, second], now=noon + seconds(2))
    lifecycle.hold([moved], reason="moved", until=noon + timedelta(hours=1))
    rejecting.declare("small", {"x-max-length": 1})
    try:
        for execution in (first, moved, second):
            rejecting.publish_execution(execution, queue="small")
        rejecting.wait_for(2)
        assert collect(noon) == Collected(held=1, dropped=1)
    finally:
        broker.delete("small")
    first.refresh_from_db()
    assert (first.state, first.attempt, first.reason) == (State.SCHEDULED, 1, dead_letters.FULL_QUEUE)
    assert first.available_at == noon + seconds(30)
    moved.refresh_from_db()
    assert (moved.available_at, now_of(second)) == (noon + timedelta(hours=1), (State.QUEUED, 1))


def test_what_was_collected_does_not_count_as_lost(published: Execution, noon: datetime, rejecting: Rejecting) -> None:
    rejecting.reject()
    collect(noon + seconds(5))
    assert return_lost_messages(noon + seconds(86_400)) == 0
