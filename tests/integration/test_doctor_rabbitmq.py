"""The doctor looks at RabbitMQ, by queues of the test's own."""

import socket
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import amqp
import pytest
from celery import current_app
from django.conf import settings as project_settings
from pytest_django import Settings

from chaos.proxy import Proxy
from executions import broker_state, queues
from executions.broker_state import BrokerState
from executions.clock import database_now
from executions.models import DeadMessage, QueueSample
from tests.doctoring import a_worker, doctor
from tests.integration.conftest import Queues
from tests.making import a_job

pytestmark = [pytest.mark.django_db, pytest.mark.full]


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def declared(broker: Queues) -> Queues:
    """As the first beat and worker leave the broker."""
    queues.work_queue("default").bind(broker.channel).declare()
    queues.dead_letter_queue().bind(broker.channel).declare()
    return broker


@pytest.fixture
def consumed(declared: Queues) -> Iterator[Queues]:
    """With somebody who takes from the queue."""
    with current_app.connection_for_read() as line:
        line.channel().basic_consume(queues.work_queue("default").name)
        yield declared


def publish(broker: Queues, name: str = "default", count: int = 1) -> None:
    queue = queues.work_queue(name).name
    for _ in range(count):
        broker.channel.basic_publish(amqp.Message(b"{}"), routing_key=queue)
    waiting = broker.channel.queue_declare(queue, passive=True)
    assert waiting.message_count + waiting.consumer_count > 0


def messages_in(broker: Queues, queue: str) -> int:
    return int(broker.channel.queue_declare(queue, passive=True).message_count)


def test_a_broker_that_is_well_is_told_in_a_line(consumed: Queues) -> None:
    told = doctor("rabbitmq")
    assert told.ids == []
    assert told.says("rabbitmq").startswith("RabbitMQ 3.")
    assert told.says("rabbitmq").endswith(", 1 queue of ours")


def test_before_the_first_beat_there_is_a_note_and_nothing_is_made(broker: Queues) -> None:
    assert doctor("rabbitmq").ids == ["rabbitmq.N01"]
    assert doctor("rabbitmq").ids == ["rabbitmq.N01"]


def test_looking_leaves_nothing_behind(consumed: Queues) -> None:
    dead = queues.dead_letter_queue().name
    publish_dead(consumed, 2)
    for _ in range(3):
        assert doctor("rabbitmq").ids == []
    taken = [consumed.channel.basic_get(dead) for _ in range(3)]
    assert [message and message.body for message in taken] == [b"real", b"real", None]
    assert messages_in(consumed, dead) == 0
    assert not DeadMessage.objects.exists()


def publish_dead(broker: Queues, count: int) -> None:
    for _ in range(count):
        broker.channel.basic_publish(
            amqp.Message(b"real"), exchange=queues.dead_letter_exchange().name, routing_key=queues.DEAD_LETTERS
        )


def test_one_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(current_app.conf, "broker_read_url", "amqp://127.0.0.1:1//")
    told = doctor("rabbitmq")
    assert told.ids == ["rabbitmq.E01"]
    assert "refused" in told.findings[0]["says"]


def test_one_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_state, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setitem(current_app.conf, "broker_read_url", f"amqp://127.0.0.1:{silent.getsockname()[1]}//")
        assert doctor("rabbitmq").ids == ["rabbitmq.E01"]


def test_one_that_falls_silent_while_it_is_asked_is_not_waited_for(
    consumed: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_state, "ANSWER_SECONDS", 0.5)
    ask = BrokerState.standing
    with Proxy(project_settings.CELERY_BROKER_URL) as line:

        def ask_the_silent(self: BrokerState, queue: str) -> Any:
            line.freeze()
            return ask(self, queue)

        monkeypatch.setitem(current_app.conf, "broker_read_url", line.url)
        monkeypatch.setattr(BrokerState, "standing", ask_the_silent)
        assert doctor("rabbitmq").ids == ["rabbitmq.E01"]


def test_one_that_confirms_nothing_is_told(consumed: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_state, "PROBE_SECONDS", 0.3)
    publish_probe = BrokerState.try_to_publish
    with Proxy(project_settings.CELERY_BROKER_URL) as line:

        def publish_into_silence(self: BrokerState) -> None:
            publish_plainly = amqp.Channel.basic_publish

            def freeze_first(channel: Any, *args: Any, **more: Any) -> Any:
                line.freeze()
                return publish_plainly(channel, *args, **more)

            monkeypatch.setattr(amqp.Channel, "basic_publish", freeze_first)
            publish_probe(self)

        monkeypatch.setitem(current_app.conf, "broker_read_url", line.url)
        monkeypatch.setattr(BrokerState, "try_to_publish", publish_into_silence)
        told = doctor("rabbitmq")
    assert told.ids == ["rabbitmq.E06"]
    assert (
        told.findings[0]["says"] == "The broker answers, and takes no messages: it does not confirm one within 0.3 s."
    )


@pytest.mark.parametrize(
    ("version", "is_exclusive", "expected"),
    [
        ("3.9.29", True, ["rabbitmq.E02"]),
        ("3.10.0", True, []),
        ("3.13.7", False, []),
        ("4.2.1", False, []),
        ("4.3.0", True, []),
        ("4.3.0-rc.1", False, ["rabbitmq.E07"]),
        ("10.0.0", False, ["rabbitmq.E07"]),
    ],
)
def test_traps_of_a_version_are_told(
    version: str, is_exclusive: bool, expected: list[str], consumed: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server stands for all versions, by what it says of itself."""
    monkeypatch.setattr(BrokerState, "version", version)
    for name in ("control_queue_exclusive", "event_queue_exclusive"):
        monkeypatch.setitem(current_app.conf, name, is_exclusive)
    assert doctor("rabbitmq").ids == expected


@pytest.mark.parametrize(
    ("version", "has"),
    [("3.10.8", "no priorities"), ("4.0.2", "two priorities"), ("4.2.9", "two priorities"), ("4.3.0", "")],
)
def test_quorum_queues_without_all_priorities_are_told(
    version: str, has: str, broker: Queues, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.ONBEAT_EXECUTIONS_QUEUE_TYPE = "quorum"
    monkeypatch.setattr(BrokerState, "version", version)
    queues.work_queue("default").bind(broker.channel).declare()
    queues.dead_letter_queue().bind(broker.channel).declare()
    with current_app.connection_for_read() as line:
        line.channel().basic_consume(queues.work_queue("default").name)
        told = doctor("rabbitmq")
    assert told.ids == (["rabbitmq.W03"] if has else [])
    said = [finding["says"] for finding in told.findings]
    assert said == ([f"The server is RabbitMQ {version}, whose quorum queues have {has}."] if has else [])


def test_a_queue_of_the_other_type_is_told(declared: Queues, settings: Settings) -> None:
    settings.ONBEAT_EXECUTIONS_QUEUE_TYPE = "quorum"
    told = doctor("rabbitmq")
    said = [finding["says"] for finding in told.findings if finding["id"] == "rabbitmq.E03"]
    assert [says.partition(" exists otherwise")[0] for says in said] == [
        f"The queue {queue.name!r}" for queue in (queues.work_queue("default"), queues.dead_letter_queue())
    ]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"durable": True, "arguments": {"x-max-priority": 5}}, "x-"),
        ({"durable": True}, "x-"),
        ({"durable": False}, "durable"),
    ],
)
def test_a_queue_with_other_arguments_is_told_and_left_as_it_is(
    options: dict[str, Any], what: str, declared: Queues
) -> None:
    declared.delete()
    queue = queues.work_queue("default").name
    declared.channel.queue_declare(queue, auto_delete=False, **options)
    told = doctor("rabbitmq")
    assert told.ids == ["rabbitmq.E03"]
    assert told.findings[0]["says"].startswith(f"The queue {queue!r} exists otherwise: inequivalent arg '{what}")
    declared.channel.queue_declare(queue, auto_delete=False, **options)


def test_a_dead_letter_queue_and_an_exchange_of_another_make_are_told(broker: Queues) -> None:
    queues.work_queue("default").bind(broker.channel).declare()
    dead = queues.dead_letter_queue().name
    broker.channel.queue_declare(dead, durable=False, auto_delete=False)
    exchange = queues.dead_letter_exchange().name
    broker.channel.exchange_declare(exchange, "fanout", durable=True, auto_delete=False)
    broker.channel.queue_bind(dead, exchange)
    says = [finding["says"] for finding in doctor("rabbitmq").findings if finding["id"] == "rabbitmq.E03"]
    assert [says[0].split(" exists")[0], says[1].split(" exists")[0]] == [
        f"The exchange {exchange!r}",
        f"The queue {dead!r}",
    ]


def test_a_queue_of_an_open_job_is_looked_at_by_its_name(declared: Queues, now: datetime) -> None:
    a_job(now=now, queue="batch")
    name = queues.work_queue("batch").name
    declared.channel.queue_declare(name, durable=True, auto_delete=False)
    try:
        assert doctor("rabbitmq").only("rabbitmq.E03")["facts"] == {"queue": name}
    finally:
        declared.delete("batch")


def test_without_a_dead_letter_exchange_what_is_rejected_is_lost(declared: Queues) -> None:
    declared.channel.exchange_delete(queues.dead_letter_exchange().name)
    finding = doctor("rabbitmq").only("rabbitmq.E04")
    assert finding["says"].endswith(f"the exchange {queues.dead_letter_exchange().name!r} is missing.")


def test_without_a_dead_letter_queue_what_is_rejected_is_lost(declared: Queues) -> None:
    declared.channel.queue_delete(queues.dead_letter_queue().name)
    finding = doctor("rabbitmq").only("rabbitmq.E04")
    assert finding["says"].endswith(f"the queue {queues.dead_letter_queue().name!r} is missing.")


def test_a_dead_letter_queue_that_is_not_bound_gets_nothing(declared: Queues) -> None:
    queue, exchange = queues.dead_letter_queue().name, queues.dead_letter_exchange().name
    declared.channel.queue_unbind(queue, exchange, queues.DEAD_LETTERS)
    assert "is not bound" in doctor("rabbitmq").only("rabbitmq.E04")["says"]


def test_messages_that_nobody_takes_are_an_error(declared: Queues) -> None:
    assert doctor("rabbitmq").ids == []  # an empty queue needs no worker yet
    publish(declared, count=3)
    finding = doctor("rabbitmq").only("rabbitmq.E05")
    assert finding["says"].startswith("3 messages in ")


def test_a_worker_whom_the_broker_does_not_know_is_an_error(declared: Queues, now: datetime) -> None:
    a_worker(now)
    assert doctor("rabbitmq").only("rabbitmq.E05")["says"].startswith("Workers say that they read ")


def test_a_queue_that_nobody_uses_any_more_is_told(declared: Queues, now: datetime) -> None:
    QueueSample.objects.create(at=now - timedelta(hours=20), queue="retired", waiting=3)
    assert doctor("rabbitmq").ids == []  # it is gone from the broker as well
    name = queues.work_queue("retired").name
    queues.work_queue("retired").bind(declared.channel).declare()
    try:
        publish(declared, "retired", 2)
        finding = doctor("rabbitmq").only("rabbitmq.W01")
        assert finding["says"] == f"Nobody uses the queue {name!r}; 2 messages in it."
        a_job(now=now, queue="retired")
        assert "rabbitmq.W01" not in doctor("rabbitmq").ids
    finally:
        declared.delete("retired")


def test_a_management_api_that_does_not_answer_is_a_warning(consumed: Queues, settings: Any) -> None:
    settings.ONBEAT_EXECUTIONS_RABBITMQ_API_URL = "http://onbeat:hunter2@127.0.0.1:1"
    finding = doctor("rabbitmq").only("rabbitmq.W02")
    assert finding["says"].startswith("The management API at http://127.0.0.1:1 cannot be asked: ")
    assert "refused" in finding["says"]
