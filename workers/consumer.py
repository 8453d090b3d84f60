"""The worker's consumer: what cannot be read is a dead letter, and the place for dead letters exists.

And what a worker that runs many tasks would pay for each of them is paid for many at once: the events by which Flower
watches, and the time limits that are over.
"""

import heapq
from typing import Any

import amqp
from celery import bootsteps
from celery.concurrency.solo import TaskPool as SoloPool
from celery.utils.log import get_logger
from celery.worker.consumer import Consumer as CelerysConsumer
from django.db import Error
from kombu.common import ignore_errors

from executions import events, queues
from executions.messages import EXECUTION_HEADER
from executions.storable import in_a_line
from workers import control  # noqa: F401 - to be there when the worker listens to remote control

logger = get_logger(__name__)


_SILENCE_SECONDS = 30.0  # if no heartbeats are asked for
# A task has three events. To send each by itself takes a fifth of a worker's CPU, and a third of the broker's.
EVENTS_REST_SECONDS = 0.1
FORGET_EVERY_SECONDS = 30.0


class Consumer(CelerysConsumer):
    app: Any
    connection_errors: Any
    ensure_connected: Any
    event_dispatcher: Any
    hub: Any
    pool: Any
    _flush_events: Any
    _flush_soon: Any = None  # the entry of the loop's timer that sends what waits

    def connection_for_read(self, heartbeat: Any = None) -> Any:
        return self.ensure_connected(self._bounded(self.app.connection_for_read(heartbeat=heartbeat)))

    def connection_for_write(self, url: Any = None, heartbeat: Any = None) -> Any:
        """For events, by which Flower watches."""
        return self.ensure_connected(self._bounded(self.app.connection_for_write(url=url, heartbeat=heartbeat)))

    def _bounded(self, connection: Any) -> Any:
        """Celery's loop uses these connections itself, so nothing on them may wait for a broker that has fallen silent.

        Not for the confirms that the settings ask for: those are for messages, and here go events and replies. Nor for
        an answer, or for room in a full line, beyond the time after which the broker is taken for gone.
        """
        silence = 2 * (self.app.conf.broker_heartbeat or 0) or _SILENCE_SECONDS
        bounds = {"confirm_publish": False, "read_timeout": silence, "write_timeout": silence}
        if connection.transport.driver_type == "amqp":
            connection.transport_options = {**(connection.transport_options or {}), **bounds}
        return connection

    def call_soon_ack(self, p: Any, *args: Any, **kwargs: Any) -> Any:
        """In the solo pool at once: Celery's loop runs the task itself there, and would first wait for other news."""
        if not isinstance(self.pool, SoloPool):
            return super().call_soon_ack(p, *args, **kwargs)  # type: ignore[misc]  # the stubs do not know it
        return p(*args, **kwargs)

    def on_send_event_buffered(self) -> Any:
        """As Celery's, which sends what waits at the next turn of its loop; we wait a moment for more.

        With the threads pool it is a task's own thread that says so, and the loop sleeps: it has to be woken.
        """
        if self.hub is not None and not self._will_send_events():
            self.hub.call_soon(self._send_events_soon)

    def _will_send_events(self) -> bool:
        return self._flush_soon is not None and not self._flush_soon.canceled

    def _send_events_soon(self) -> None:
        if not self._will_send_events():
            self._flush_soon = self.hub.call_later(EVENTS_REST_SECONDS, self._send_events)

    def _send_events(self) -> None:
        self._flush_soon = None
        self._flush_events()

    def shutdown(self) -> None:
        """The last tasks have ended by now, and Celery's loop turns no more."""
        if self.event_dispatcher is not None:
            this: Any = self  # it knows the errors of its connection
            ignore_errors(this, self.event_dispatcher.flush)
        super().shutdown()

    def register_with_event_loop(self, hub: Any) -> None:
        super().register_with_event_loop(hub)
        hub.call_repeatedly(FORGET_EVERY_SECONDS, forget_cancelled, hub.timer)

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Any:
        """As Celery's, which a message of the wrong shape would end, and with it one worker after the other."""
        handle = super().create_task_handler(*args, **kwargs)

        def handle_any(message: Any) -> None:
            try:
                handle(message)
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                if message.acknowledged:
                    raise
                self.on_decode_error(message, error)
            except Error as error:
                # A plain message whose end Celery wanted to write down: an error here would end the worker.
                events.warn("what became of a message could not be written", error=in_a_line(error))
                if not message.acknowledged:
                    message.requeue()

        return handle_any

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Celery would acknowledge it, and nobody would ever see it again."""
        self._reject(message, "a message cannot be read: it goes to the dead letters", exc)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Of an execution without its payload, which Celery would write to the log, and without a failed result."""
        if EXECUTION_HEADER in (message.headers or {}):
            self._reject(message, "this worker does not know the task: its message goes to the dead letters")
        else:
            super().on_unknown_task(body, message, exc)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        if EXECUTION_HEADER in (message.headers or {}):
            self.on_decode_error(message, exc)
        else:
            super().on_invalid_task(body, message, exc)

    def _reject(self, message: Any, what: str, why: Exception | None = None) -> None:
        headers = message.headers or {}
        error = in_a_line(why) if why else ""
        events.warn(what, task=headers.get("task"), execution=headers.get(EXECUTION_HEADER), error=error)
        message.reject_log_error(logger, self.connection_errors)


def forget_cancelled(timer: Any) -> None:
    """Celery leaves the time limit of a task that has ended where it is until its hour comes: three quarters of a
    gigabyte after an hour of 400 tasks a second."""
    timer._queue[:] = [one for one in timer._queue if not one.entry.canceled]
    heapq.heapify(timer._queue)


class DeadLetterQueue(bootsteps.StartStopStep):
    """RabbitMQ drops what a worker rejects if nothing is bound to the exchange it goes to."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def start(self, c: Any) -> None:
        channel = c.connection.channel()
        try:
            queues.dead_letter_queue().bind(channel).declare()
            channel.close()
        except amqp.ChannelError as error:
            events.warn("what this worker gives up may be lost to the dead-letter queue", error=in_a_line(error))
