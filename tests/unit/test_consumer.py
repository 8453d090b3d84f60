"""The consumer of a worker: what Celery stumbles over in its loop does not end the worker, and nothing there waits."""

from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker.consumer import Consumer as CelerysConsumer
from django.db import OperationalError

from workers.consumer import Consumer


class Message:
    def __init__(self, *, acknowledged: bool) -> None:
        self.acknowledged = acknowledged
        self.was_requeued = False

    def requeue(self) -> None:
        self.was_requeued = True


@pytest.mark.parametrize(("acknowledged", "goes_back"), [(True, False), (False, True)])
def test_a_database_that_is_away_when_celery_writes_down_an_end_does_not_end_the_worker(
    monkeypatch: pytest.MonkeyPatch, acknowledged: bool, goes_back: bool
) -> None:
    def handle(_message: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(CelerysConsumer, "create_task_handler", lambda *_: handle)
    message = Message(acknowledged=acknowledged)
    Consumer.__new__(Consumer).create_task_handler()(message)
    assert message.was_requeued == goes_back


def bounded(*, driver: str, heartbeat: float | None) -> Any:
    consumer = Consumer.__new__(Consumer)
    consumer.app = SimpleNamespace(conf=SimpleNamespace(broker_heartbeat=heartbeat))
    options = {"confirm_publish": True, "client_properties": {}}
    return consumer._bounded(SimpleNamespace(transport=SimpleNamespace(driver_type=driver), transport_options=options))


@pytest.mark.parametrize(("heartbeat", "seconds"), [(15, 30), (4, 8), (0, 30), (None, 30)])
def test_its_own_connections_wait_for_no_confirm_and_for_no_answer_beyond_two_heartbeats(
    heartbeat: float | None, seconds: float
) -> None:
    assert bounded(driver="amqp", heartbeat=heartbeat).transport_options == {
        "confirm_publish": False,
        "client_properties": {},
        "read_timeout": seconds,
        "write_timeout": seconds,
    }


def test_a_connection_to_the_folder_is_left_as_it_is() -> None:
    assert bounded(driver="filesystem", heartbeat=15).transport_options["confirm_publish"] is True
