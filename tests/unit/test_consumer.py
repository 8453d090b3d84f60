"""The consumer of a worker: what Celery stumbles over in its loop does not end the worker, and nothing there waits."""

import threading
import time
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker.consumer import Consumer as CelerysConsumer
from django.db import OperationalError
from kombu.asynchronous import Hub
from kombu.asynchronous.timer import Timer

from workers.consumer import FORGET_EVERY_SECONDS, Consumer, forget_cancelled


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


class Dispatcher:
    def __init__(self, error: Exception | None = None) -> None:
        self.flushed = 0
        self._error = error

    def flush(self) -> None:
        self.flushed += 1
        if self._error is not None:
            raise self._error


def with_loop(dispatcher: Dispatcher) -> Any:
    consumer: Any = Consumer.__new__(Consumer)
    consumer.hub, consumer.event_dispatcher = Hub(), dispatcher
    consumer.connection_errors, consumer.channel_errors = (ConnectionError,), ()
    consumer.blueprint = SimpleNamespace(shutdown=lambda _: None, send_all=lambda *_, **__: None)
    consumer.perform_pending_operations = lambda: None
    return consumer


def turn(hub: Any) -> None:
    for deed in hub._pop_ready():
        deed()


def test_a_loop_that_sleeps_is_woken_by_a_thread_that_has_an_event() -> None:
    consumer = with_loop(Dispatcher())
    woken: list[bool] = []
    consumer.hub._waker = SimpleNamespace(wake=lambda: woken.append(True), close=lambda: None)
    consumer.hub._loop_thread = threading.get_ident()
    speaker = threading.Thread(target=consumer.on_send_event_buffered)
    speaker.start()
    speaker.join()
    turn(consumer.hub)
    assert (woken, len(consumer.hub.timer)) == ([True], 1)


def test_events_wait_a_moment_for_one_another_and_go_together() -> None:
    dispatcher = Dispatcher()
    consumer = with_loop(dispatcher)
    for times in (1, 2):
        for _ in range(10):
            consumer.on_send_event_buffered()
        turn(consumer.hub)
        ((_, _, soon),) = consumer.hub.timer._queue
        assert dispatcher.flushed == times - 1
        soon()
        assert dispatcher.flushed == times
        consumer.hub.timer.clear()


def test_events_go_on_after_a_lost_connection_took_the_timer_with_it() -> None:
    consumer = with_loop(Dispatcher())
    consumer.on_send_event_buffered()
    turn(consumer.hub)
    consumer.hub.timer._queue[0].entry.cancel()
    consumer.on_send_event_buffered()
    turn(consumer.hub)
    assert [one.entry.canceled for one in sorted(consumer.hub.timer._queue)] == [True, False]


@pytest.mark.parametrize("error", [None, ConnectionError("away")])
def test_a_worker_that_ends_says_what_it_has_not_said_and_ends_also_if_nobody_hears_it(
    error: Exception | None,
) -> None:
    dispatcher = Dispatcher(error)
    with_loop(dispatcher).shutdown()
    assert dispatcher.flushed == 1


def test_time_limits_of_tasks_that_have_ended_are_forgotten_and_the_others_still_come_in_order() -> None:
    timer, heard = Timer(), []
    entries = [timer.call_after(seconds, heard.append, (seconds,)) for seconds in (-1, 3600, -3, 3601, -2, 3602)]
    for entry in entries[1::2]:
        entry.cancel()
    forget_cancelled(timer)
    assert len(timer) == 3
    for _, entry in islice(timer, 3):
        entry()
    assert heard == [-3, -2, -1]


def test_they_are_forgotten_again_and_again_as_long_as_the_worker_runs() -> None:
    consumer = with_loop(Dispatcher())
    hub = consumer.hub
    consumer.register_with_event_loop(hub)
    ((due, _, forget),) = hub.timer._queue
    assert due <= time.monotonic() + FORGET_EVERY_SECONDS
    hub.timer.clear()
    hub.call_later(3600, print).cancel()
    forget()
    ((again, _, _),) = hub.timer._queue
    assert again > due
