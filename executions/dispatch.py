"""Confirmed publishing.

Owns the connection to the broker. Invariant: a deadline that passed means unknown, never failed and never done: the row
stays SCHEDULED, it is published again, and the worker's claim drops the double.
"""

import select
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import amqp
from celery import current_app
from django.conf import settings
from kombu import Connection, Producer
from kombu.exceptions import OperationalError

from executions import frames, messages, queues
from executions.confirms import UNROUTABLE, Confirms, Report
from executions.outgoing import Outgoing

CONNECT_SECONDS = 3
_PROBE_SECONDS = 2
_MESSAGES_PER_WRITE = 100
BROKER_ERRORS = (OperationalError, amqp.AMQPError, OSError)
BLOCKED = "the broker takes no messages: it is short of memory or disk"


@dataclass(eq=False)
class Sent:
    """A batch on its way to the broker."""

    confirms: Confirms
    held: dict[str, list[Outgoing]] = field(default_factory=dict)  # by reason: their queue does not take them
    ahead: Report = field(default_factory=Report)  # of the one that went ahead of the others
    error: str = ""  # the connection is gone, and with it all answers that are still to come


class Publisher:
    """One connection to the broker, made anew after any error."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._channel: Any = None
        self._declared: set[str] = set()
        self._delivery_tag = 0
        self._is_in_doubt = False
        self._unsettled: list[Sent] = []

    def publish(self, executions: Sequence[Outgoing]) -> Report:
        """Publish all, then wait once for all confirms."""
        return self.settle(self.send(executions))

    def send(self, executions: Sequence[Outgoing]) -> Sent:
        """Publish all without waiting for the confirms. After a failure one goes ahead, the others if it arrives.

        A broker that takes messages and confirms none would otherwise get the whole batch again at each try.
        """
        if not self._is_in_doubt:
            return self._send(executions)
        probe = self._settle(self._send(executions[:1]), patience_seconds=_PROBE_SECONDS)
        if self._is_in_doubt:
            return Sent(Confirms([]), ahead=replace(probe, unknown=list(executions)), error=probe.error)
        sent = self._send(executions[1:])
        sent.ahead = probe
        return sent

    def settle(self, sent: Sent) -> Report:
        """Wait for what the broker says about a batch. Batches are settled in the order in which they were sent."""
        report = self._settle(sent, patience_seconds=settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS)
        return sent.ahead.and_then(report)

    def reaches(self) -> bool:
        """Whether the broker answers again, and confirms: tried with a message to a queue that goes at once."""
        try:
            self._open()
            if self._speaks_amqp():
                self._probe()
        except BROKER_ERRORS as error:
            self._fail(error)
            return False
        self._is_in_doubt = False
        return True

    def _probe(self) -> None:
        assert self._connection is not None
        channel: Any = self._connection.channel()
        channel.confirm_select()
        acked: list[int] = []
        channel.events["basic_ack"] = {lambda tag, _multiple: acked.append(tag)}
        queue = channel.queue_declare(exclusive=True, auto_delete=True).queue
        channel.basic_publish(amqp.Message(b""), routing_key=queue)
        self._listen_until(lambda: bool(acked), seconds=_PROBE_SECONDS)
        channel.queue_delete(queue)
        channel.close()

    def _send(self, executions: Sequence[Outgoing]) -> Sent:
        sent = Sent(Confirms(executions))
        try:
            self._open()
            refusals = self._declare({execution.queue for execution in executions})
            for name, reason in refusals.items():
                sent.held.setdefault(reason, []).extend(e for e in executions if e.queue == name)
            sent.confirms = Confirms([execution for execution in executions if execution.queue not in refusals])
            self._unsettled.append(sent)
            if self._speaks_amqp():
                self._write(sent.confirms)
            else:
                self._write_to_folder(sent.confirms)
        except BROKER_ERRORS as error:
            sent.error = self._fail(error)
        return sent

    def _settle(self, sent: Sent, *, patience_seconds: float) -> Report:
        if not sent.error:
            try:
                self._listen_until(lambda: not sent.confirms.outstanding, seconds=patience_seconds)
                self._unsettled.remove(sent)
                self._is_in_doubt = False
            except BROKER_ERRORS as error:
                sent.error = self._fail(error)
        report = sent.confirms.report(sent.held, error=sent.error)
        # What was returned had no queue, though we once declared it: declare it anew next time.
        self._declared -= {execution.queue for execution in report.held.get(UNROUTABLE, [])}
        return report

    def _fail(self, error: Exception) -> str:
        """Leave the connection, and with it all confirms that are still to come; returns what happened, in words."""
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        for sent in self._unsettled:
            sent.error = what
        # The socket may be stuck, so nothing more is said on it: a polite goodbye can block as well.
        self.drop()
        self._is_in_doubt = True
        return what

    def close(self) -> None:
        if self._connection is not None:
            self._connection.release()
        self._forget()

    def drop(self) -> None:
        """Leave the connection without a word."""
        if self._connection is not None:
            self._connection.collect(socket_timeout=0.1)
        self._forget()

    def _forget(self) -> None:
        self._unsettled = []
        self._connection = None
        self._channel = None
        self._declared = set()
        self._delivery_tag = 0

    def _open(self) -> None:
        if self._connection is not None:
            return
        self._connection = current_app.connection_for_write(connect_timeout=CONNECT_SECONDS)
        if self._speaks_amqp():
            # Waiting for one confirm per message would cost a round trip each, so Celery's own option is off here.
            self._connection.transport_options = {
                "confirm_publish": False,
                "read_timeout": settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS,
                "write_timeout": settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS,
                "on_blocked": _give_up,
            }
        # Patience is the caller's business: it has the rows, and comes again.
        self._connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=CONNECT_SECONDS)
        self._open_channel()

    def _open_channel(self) -> None:
        assert self._connection is not None
        self._channel = self._connection.channel()
        self._delivery_tag = 0
        if self._speaks_amqp():
            self._channel.confirm_select()
            self._channel.events["basic_ack"] = {self._on_ack}
            self._channel.events["basic_nack"] = {self._on_nack}
            self._channel.events["basic_return"] = {self._on_return}

    def _on_ack(self, delivery_tag: int, multiple: bool) -> None:
        for sent in self._unsettled:
            sent.confirms.acked(delivery_tag, multiple)

    def _on_nack(self, delivery_tag: int, multiple: bool) -> None:
        for sent in self._unsettled:
            sent.confirms.nacked(delivery_tag, multiple)

    def _on_return(self, _error: Exception, _exchange: str, _routing_key: str, message: Any) -> None:
        for sent in self._unsettled:
            sent.confirms.returned(message.properties["message_id"])

    def _speaks_amqp(self) -> bool:
        return self._connection is not None and self._connection.transport.driver_type == "amqp"

    def _declare(self, names: Iterable[str]) -> dict[str, str]:
        """Make sure of the queues; returns those that cannot be had as we need them, with the reason."""
        refusals: dict[str, str] = {}
        unknown = sorted(set(names) - self._declared)
        if unknown and self._unsettled:
            # A refusal costs the channel, and with it the confirms that are still to come.
            self._listen_until(self._is_all_settled, seconds=settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS)
        for name in unknown:
            try:
                queues.dead_letter_queue().bind(self._channel).declare()
                queues.work_queue(name).bind(self._channel).declare()
                self._declared.add(name)
            except amqp.ChannelError as error:
                # The broker has closed the channel for it. One bad queue must not hold up the others.
                refusals[name] = _why_refused(name, error)
                self._open_channel()
        return refusals

    def _is_all_settled(self) -> bool:
        return not any(sent.confirms.outstanding for sent in self._unsettled)

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

    def _write(self, batch: Confirms) -> None:
        exchange = queues.exchange().name
        for start in range(0, len(batch.executions), _MESSAGES_PER_WRITE):
            together = batch.executions[start : start + _MESSAGES_PER_WRITE]
            packed = b"".join(self._packed(execution, exchange) for execution in together)
            for execution in together:
                self._delivery_tag += 1
                batch.sent(self._delivery_tag, execution)
            self._channel.connection.transport.write(packed)
            self._listen()

    def _packed(self, execution: Outgoing, exchange: str) -> bytes:
        return frames.of_message(
            messages.of_execution(execution),
            channel=self._channel.channel_id,
            exchange=exchange,
            routing_key=execution.queue,
            frame_max=self._channel.connection.frame_max,
        )

    def _listen(self) -> None:
        """Take what the broker has said until now. Who only talks may not be heard any more, nor hear of an alarm."""
        connection = self._channel.connection
        said = select.poll()
        said.register(connection.sock, select.POLLIN)
        while said.poll(0):
            # One frame: the next may never come.
            connection.blocking_read(timeout=settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS)

    def _listen_until(self, is_settled: Callable[[], bool], *, seconds: float) -> None:
        assert self._connection is not None
        deadline = time.monotonic() + seconds
        while not is_settled():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("the broker left messages unconfirmed")
            self._connection.drain_events(timeout=remaining)


def _why_refused(name: str, error: amqp.ChannelError) -> str:
    queue = queues.work_queue(name).name
    if isinstance(error, amqp.PreconditionFailed):
        why = f"the queue {queue!r} exists with other arguments; delete it, and it is made anew"
    else:
        why = f"the broker refuses the queue {queue!r}"
    return f"{why}: {error}"


def _give_up(_reason: str) -> None:
    """The broker says that it blocks those who publish. What is on its way may still arrive; no need to wait for it."""
    raise amqp.RecoverableConnectionError(BLOCKED)
