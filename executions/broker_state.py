"""How our exchanges and queues stand on RabbitMQ.

Owns the questions to it, each on a channel of its own: the broker answers a wrong one by closing the channel.
Invariant: nothing is made that outlives the connection, nothing is left in a queue, and nobody waits without a limit.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import amqp
from celery import current_app
from kombu import Connection, Exchange, Queue

from executions import queues
from executions.broker_line import BLOCKED, CONNECT_SECONDS, short_connection

ANSWER_SECONDS = 3.0
PROBE_SECONDS = 3.0
PROBE_HEADER = "onbeat_probe"
_NOT_FOUND = 404


class TakesNothing(Exception):
    """The broker answers questions and takes no messages."""


@dataclass(frozen=True)
class Standing:
    """A queue as it is on the broker."""

    messages: int
    consumers: int


class BrokerState:
    def __init__(self, line: Connection) -> None:
        self._line = line

    @property
    def version(self) -> str:
        server: Any = self._line.connection
        return str(server.server_properties.get("version", "0"))

    @property
    def virtual_host(self) -> str:
        return str(self._line.virtual_host or "/")

    def standing(self, queue: str) -> Standing | None:
        """By the broker's name; None if there is no such queue."""
        try:
            with self._channel() as channel:
                said = channel.queue_declare(queue, passive=True)
        except amqp.ChannelError as error:
            if error.reply_code != _NOT_FOUND:
                raise
            return None
        return Standing(said.message_count, said.consumer_count)

    def has_exchange(self, exchange: Exchange) -> bool:
        return self._is_taken(lambda channel: channel.exchange_declare(exchange.name, exchange.type, passive=True))

    def why_other_exchange(self, exchange: Exchange) -> str:
        """In what an exchange that exists differs from ours; empty if it does not."""
        return self._refusal(
            lambda channel: channel.exchange_declare(
                exchange.name, exchange.type, durable=exchange.durable, auto_delete=False
            )
        )

    def why_other_queue(self, queue: Queue) -> str:
        """In what a queue that exists differs from how we declare it; empty if it does not."""
        return self._refusal(
            lambda channel: channel.queue_declare(
                queue.name, durable=queue.durable, auto_delete=False, arguments=queue.queue_arguments
            )
        )

    # ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────

    def try_to_publish(self) -> None:
        """See whether it takes a message at all, by one to a queue that goes at once."""
        with self._probing() as (channel, publish):
            queue = channel.queue_declare(exclusive=True, auto_delete=True).queue
            publish("", queue)
            channel.queue_delete(queue)

    def is_dead_letter_queue_bound(self) -> bool:
        """Whether what is rejected finds its queue. The message that asks expires as it arrives, and is never taken."""
        with self._probing() as (_, publish):
            is_bound: bool = publish(queues.dead_letter_exchange().name, queues.DEAD_LETTERS, expiration="0")
        return is_bound

    def moves_what_is_rejected(self) -> bool:
        """Whether a message that is rejected goes through our dead-letter exchange, to a place of its own."""
        key, exchange = f"probe-{uuid.uuid4().hex}", queues.dead_letter_exchange().name
        arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key}
        with self._probing() as (channel, publish):
            work = channel.queue_declare(exclusive=True, auto_delete=True, arguments=arguments).queue
            dead = channel.queue_declare(exclusive=True, auto_delete=True).queue
            channel.queue_bind(dead, exchange, key)
            publish("", work)
            channel.basic_reject(self._awaited(channel, work).delivery_tag, requeue=False)
            is_moved = self._awaited(channel, dead, is_sure=False) is not None
            for queue in (work, dead):
                channel.queue_delete(queue)
        return is_moved

    def _awaited(self, channel: Any, queue: str, *, is_sure: bool = True) -> Any:
        deadline = time.monotonic() + PROBE_SECONDS
        while (message := channel.basic_get(queue)) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if message is None and is_sure:
            raise TakesNothing("one that it confirmed does not arrive")
        return message

    @contextmanager
    def _probing(self) -> Iterator[tuple[Any, Any]]:
        """A channel, and a function that publishes a probe on it and tells whether a queue took it."""
        channel: Any = self._line.channel()
        channel.confirm_select()
        acked: list[int] = []
        returned: list[Any] = []
        channel.events["basic_ack"] = {lambda tag, _multiple: acked.append(tag)}
        channel.events["basic_return"] = {lambda *told: returned.append(told)}

        def publish(exchange: str, routing_key: str, **properties: Any) -> bool:
            message = amqp.Message(b"", application_headers={PROBE_HEADER: True}, **properties)
            before = len(acked)
            channel.basic_publish(message, exchange=exchange, routing_key=routing_key, mandatory=True)
            deadline = time.monotonic() + PROBE_SECONDS
            while len(acked) == before:
                self._line.drain_events(timeout=max(0.001, deadline - time.monotonic()))
            return not returned

        try:
            yield channel, publish
        except TimeoutError:
            raise TakesNothing(f"it does not confirm one within {PROBE_SECONDS:g} s") from None
        except amqp.RecoverableConnectionError as error:
            if BLOCKED in str(error):
                raise TakesNothing("it is short of memory or disk") from None
            raise
        channel.close()

    # ── Channels ─────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        """If the broker refuses it closes the channel, and there is nothing left to close."""
        channel: Any = self._line.channel()
        yield channel
        channel.close()

    def _is_taken(self, ask: Any) -> bool:
        try:
            with self._channel() as channel:
                ask(channel)
        except amqp.ChannelError as error:
            if error.reply_code != _NOT_FOUND:
                raise
            return False
        return True

    def _refusal(self, ask: Any) -> str:
        try:
            with self._channel() as channel:
                ask(channel)
        except amqp.PreconditionFailed as error:
            return str(error.reply_text).partition(" - ")[2] or str(error.reply_text)
        return ""


@contextmanager
def opened() -> Iterator[BrokerState]:
    """For a short while. Raises one of the broker line's errors if the broker is away."""
    connection = current_app.connection_for_read(connect_timeout=CONNECT_SECONDS)
    # The probes hear the confirms themselves.
    with short_connection(connection, answer_seconds=ANSWER_SECONDS, confirm_publish=False) as line:
        yield BrokerState(line)


def numbers(version: str) -> tuple[int, ...]:
    """Of a version what can be compared."""
    return tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit())


def standings(state: BrokerState, names: Iterable[str]) -> dict[str, Standing]:
    """Of the queues that exist, by the jobs' names."""
    found = {name: state.standing(queues.work_queue(name).name) for name in names}
    return {name: standing for name, standing in found.items() if standing is not None}
