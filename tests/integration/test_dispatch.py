"""Publishing: what goes into a message, and what the broker's answers mean."""

import json
from datetime import datetime

import pytest

from executions.dispatch import Publisher
from executions.messages import delivery
from executions.models import Execution
from tests.integration.conftest import Queues
from tests.making import a_job, planned, seconds

pytestmark = pytest.mark.django_db


def fires(count: int, noon: datetime) -> list[Execution]:
    job = a_job(now=noon)
    return [planned(job, noon + seconds(number)) for number in range(count)]


def test_a_message_holds_the_arguments_and_names_its_attempt(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_job(now=noon, key="billing", task="onbeat.echo", args=[1], kwargs={"tenant": "acme"}, priority=7)
    execution = planned(job, noon)
    assert publisher.publish([execution]).confirmed == [execution]
    message = broker.take()
    assert json.loads(message.body)[:2] == [[1], {"tenant": "acme"}]
    assert message.headers["task"] == "onbeat.echo"
    ours = delivery(message.headers)
    assert ours is not None
    assert (ours.execution_id, ours.attempt, ours.fire_time, ours.job_key) == (execution.pk, 1, noon, "billing")
    assert message.properties["priority"] == 7
    assert message.content_type == "application/json"


def test_arguments_are_not_shown_to_whoever_listens(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    publisher.publish([planned(a_job(now=noon, args=["hush-hush"], kwargs={"token": "hush-hush"}), noon)])
    assert "hush-hush" not in json.dumps(broker.take().headers, default=str)


def test_a_batch_is_confirmed_as_a_whole(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    batch = fires(50, noon)
    report = publisher.publish(batch)
    assert {execution.pk for execution in report.confirmed} == {execution.pk for execution in batch}
    assert (report.unknown, report.unroutable, report.error) == ([], [], "")
    assert len(broker.take_all()) == 50


def test_one_publisher_serves_many_batches(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    for execution in fires(3, noon):
        assert publisher.publish([execution]).confirmed == [execution]


def test_a_broker_that_is_away_leaves_everything_unknown(noon: datetime, publisher: Publisher, no_broker: None) -> None:
    batch = fires(2, noon)
    report = publisher.publish(batch)
    assert report.confirmed == []
    assert report.unknown == batch
    assert report.error


@pytest.mark.full
def test_a_connection_cut_behind_our_back_is_made_anew(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    first, second = fires(2, noon)
    publisher.publish([first])
    publisher._connection.connection.transport.sock.close()  # type: ignore[union-attr]
    assert publisher.publish([second]).unknown == [second]
    assert publisher.publish([second]).confirmed == [second]


@pytest.mark.full
def test_a_message_without_a_queue_is_reported_as_unroutable(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    first, second = fires(2, noon)
    publisher.publish([first])
    broker.delete()
    report = publisher.publish([second])
    assert (report.confirmed, report.unroutable) == ([], [second])


@pytest.mark.full
def test_a_queue_with_other_arguments_is_an_error_and_not_a_silent_loss(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    from executions import queues

    broker.channel.queue_declare(queues.work_queue("default").name, durable=True, auto_delete=False)
    report = publisher.publish(fires(1, noon))
    assert report.confirmed == []
    assert "PRECONDITION_FAILED" in report.error
