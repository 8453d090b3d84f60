"""The line to the broker: opened when it is needed, dropped after any error.

Owns what is said on it: queues, messages, and who hears the broker's answers. Invariant: nobody waits on it without a
limit. Whoever gets an error drops the line; the next one who needs it opens another.
"""

import re
import select
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import amqp
from celery import current_app
from django.conf import settings
from kombu import Connection, Producer
from kombu.exceptions import OperationalError

from executions import events, frames, messages, queues
from executions.confirms import Confirms
from executions.outgoing import Outgoing

CONNECT_SECONDS = 3
PROBE_SECONDS = 2
BROKER_ERRORS = (OperationalError, amqp.AMQPError, OSError)
BLOCKED = "the broker takes no messages: it is short of memory or disk"
_MESSAGES_PER_WRITE = 100


class BrokerLine:
    def __init__(self, *, patience_seconds: float | None = None) -> None:
        """With how long it waits for one answer, and to be connected; as the settings say, if it is not told."""
        self._patience_seconds = patience_seconds
        self._connection: Connection | None = None
        self._channel: Any = None
        self._declared: set[str] = set()
        self._delivery_tag = 0
        self._awaited: list[Confirms] = []
        self._said_of_dead_letters = ""

    # ── Opened and left ──────────────────────────────────────────────────────────────────────────────────────────

    def open(self) -> None:
        if self._connection is not None:
            return
        patience = self._patience_seconds or settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS
        connect_seconds = min(CONNECT_SECONDS, max(1, int(patience)))
        self._connection = current_app.connection_for_write(connect_timeout=connect_seconds)
        if self._speaks_amqp():
            # Waiting for one confirm per message would cost a round trip each, so Celery's own option is off here.
            self._connection.transport_options = {
                "confirm_publish": False,
                "read_timeout": patience,
                "write_timeout": patience,
                "on_blocked": _give_up,
            }
        # Patience is the caller's business: it has the rows, and comes again.
        self._connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=connect_seconds)
        self._channel = self._connection.channel()
        self._prepare_channel()
        self._declare_dead_letters()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.release()
        self._forget_all()

    def drop(self) -> None:
        """Leave without a word: the socket may be stuck, and a polite goodbye can block as well."""
        if self._connection is not None:
            self._connection.collect(socket_timeout=0.1)
        self._forget_all()

    def _forget_all(self) -> None:
        self._connection = None
        self._channel = None
        self._declared = set()
        self._awaited = []

    def _prepare_channel(self) -> None:
        self._delivery_tag = 0
        if self._speaks_amqp():
            self._channel.confirm_select()
            self._channel.events["basic_ack"] = {self._on_ack}
            self._channel.events["basic_nack"] = {self._on_nack}
            self._channel.events["basic_return"] = {self._on_return}

    def _speaks_amqp(self) -> bool:
        return self._connection is not None and self._connection.transport.driver_type == "amqp"

    # ── Queues ───────────────────────────────────────────────────────────────────────────────────────────────────

    def declare(self, names: Iterable[str]) -> dict[str, str]:
        """Make sure of the queues; returns those that cannot be had as we need them, with the reason."""
        refusals: dict[str, str] = {}
        unknown = sorted(set(names) - self._declared)
        if unknown:
            self._hear_of_all()
        for name in unknown:
            try:
                queues.work_queue(name).bind(self._channel).declare()
                self._declared.add(name)
            except amqp.ChannelError as error:
                # One bad queue must not hold up the others.
                refusals[name] = _why_refused(queues.work_queue(name).name, error)
                self._prepare_channel()  # the broker has closed it for that, and the library has opened it anew
        return refusals

    def forget_queues(self, names: Iterable[str]) -> None:
        """They are gone, though we once declared them: they are declared anew when they are needed."""
        self._declared -= set(names)

    def _hear_of_all(self) -> None:
        """A refusal costs the channel, and with it the confirms that are still to come."""
        for batch in list(self._awaited):
            if not self.hear_of(batch, seconds=settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS):
                raise TimeoutError("the broker left messages unconfirmed")

    def _declare_dead_letters(self) -> None:
        """Work can be published without them, so that others are wrong about their queue is only told."""
        queue = queues.dead_letter_queue()
        try:
            queue.bind(self._channel).declare()
        except amqp.ChannelError as error:
            self._prepare_channel()
            why = _why_refused(queue.name, error)
            if why != self._said_of_dead_letters:
                events.warn("what workers give up may be lost to the dead-letter queue", error=why)
            self._said_of_dead_letters = why

    # ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, batch: Confirms) -> None:
        """Hand the batch to the broker. What it answers is heard by the batch from now on."""
        self._awaited.append(batch)
        if not self._speaks_amqp():
            self._write_to_folder(batch)
            return
        exchange = queues.exchange_name()
        for start in range(0, len(batch.executions), _MESSAGES_PER_WRITE):
            together = batch.executions[start : start + _MESSAGES_PER_WRITE]
            packed = b"".join([self._packed(execution, exchange) for execution in together])
            for execution in together:
                self._delivery_tag += 1
                batch.sent(self._delivery_tag, execution)
            self._channel.connection.transport.write(packed)
            self._hear()

    def _packed(self, execution: Outgoing, exchange: str) -> bytes:
        return frames.of_message(
            messages.of_execution(execution),
            channel=self._channel.channel_id,
            exchange=exchange,
            routing_key=execution.queue,
            frame_max=self._channel.connection.frame_max,
        )

    def _write_to_folder(self, batch: Confirms) -> None:
        """The folder broker returns when the message is on disk: that is its confirm."""
        producer = Producer(self._channel, exchange=queues.exchange())
        for number, execution in enumerate(batch.executions):
            message = messages.of_execution(execution)
            producer.publish(
                message.body,
                routing_key=execution.queue,
                headers=message.headers,
                mandatory=True,
                **message.properties,
            )
            batch.sent(number, execution)
            batch.acked(number, multiple=False)

    # ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def hear_of(self, batch: Confirms, *, seconds: float) -> bool:
        """Wait until the broker has answered for the whole batch. False: it has not in that time."""
        assert self._connection is not None
        deadline = time.monotonic() + seconds
        while batch.outstanding:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            try:
                self._connection.drain_events(timeout=remaining)
            except TimeoutError:
                return False
        return True

    def forget(self, batch: Confirms) -> None:
        """Hear no more of it."""
        self._awaited.remove(batch)

    def probe(self) -> None:
        """See whether the broker confirms at all, by a message to a queue that goes at once."""
        if not self._speaks_amqp():
            return
        assert self._connection is not None
        channel: Any = self._connection.channel()
        channel.confirm_select()
        acked: list[int] = []
        channel.events["basic_ack"] = {lambda tag, _multiple: acked.append(tag)}
        queue = channel.queue_declare(exclusive=True, auto_delete=True).queue
        channel.basic_publish(amqp.Message(b""), routing_key=queue)
        deadline = time.monotonic() + PROBE_SECONDS
        while not acked:
            self._connection.drain_events(timeout=max(0.001, deadline - time.monotonic()))
        channel.queue_delete(queue)
        channel.close()

    def _hear(self) -> None:
        """Take what the broker has said until now. Who only talks may not be heard any more, nor hear of an alarm."""
        connection = self._channel.connection
        said = select.poll()
        said.register(connection.sock, select.POLLIN)
        while said.poll(0):
            # One frame: the next may never come.
            connection.blocking_read(timeout=settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS)

    def _on_ack(self, delivery_tag: int, multiple: bool) -> None:
        for batch in self._awaited:
            batch.acked(delivery_tag, multiple)

    def _on_nack(self, delivery_tag: int, multiple: bool) -> None:
        for batch in self._awaited:
            batch.nacked(delivery_tag, multiple)

    def _on_return(self, _error: Exception, _exchange: str, _routing_key: str, message: Any) -> None:
        for batch in self._awaited:
            batch.returned(message.properties["message_id"])


@contextmanager
def short_connection(connection: Connection, *, answer_seconds: float, **options: Any) -> Iterator[Connection]:
    """Beside the line, for a few questions. Each is answered in that time, or an error; after one nothing more is said.

    Options are those of the AMQP library.
    """
    if connection.transport.driver_type == "amqp":
        # One that falls silent in the middle of the question would be waited for without end.
        limits = {"read_timeout": answer_seconds, "write_timeout": answer_seconds, "on_blocked": _give_up}
        connection.transport_options = {**(connection.transport_options or {}), **limits, **options}
    try:
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=CONNECT_SECONDS)
        yield connection
        connection.release()
    except BaseException:
        connection.collect(socket_timeout=0.1)  # without a word: a polite goodbye can block as well
        raise


def _why_refused(queue: str, error: amqp.ChannelError) -> str:
    """What the broker means is in its text: with a queue comes its exchange."""
    said = re.search(r"for (queue|exchange) '([^']+)'", str(error))
    kind, name = said.groups() if said else ("queue", queue)
    if isinstance(error, amqp.PreconditionFailed):
        return f"the {kind} {name!r} exists with other arguments; delete it, and it is made anew: {error}"
    return f"the broker refuses the {kind} {name!r}: {error}"


def _give_up(_reason: str) -> None:
    """The broker says that it blocks those who publish. What is on its way may still arrive; no need to wait for it."""
    raise amqp.RecoverableConnectionError(BLOCKED)
