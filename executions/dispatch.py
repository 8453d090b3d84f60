"""Confirmed publishing.

Owns the connection to the broker and the reading of its confirms. Invariant: an execution is reported as confirmed only
if the broker has taken responsibility for its message. A deadline that passed means unknown, never failed and never
done: the row stays SCHEDULED, it is published again, and the worker's claim drops the double.
"""

import select
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import amqp
from celery import current_app
from django.conf import settings
from kombu import Connection, Producer
from kombu.exceptions import OperationalError

from executions import frames, messages, queues
from executions.outgoing import Outgoing

CONNECT_SECONDS = 3
_PROBE_SECONDS = 2
_MESSAGES_PER_WRITE = 100
BROKER_ERRORS = (OperationalError, amqp.AMQPError, OSError)
UNROUTABLE = "no queue takes its message"
NACKED = "the broker took its message and gave it back: its queue is full, or broken"
BLOCKED = "the broker takes no messages: it is short of memory or disk"


@dataclass
class Report:
    """What the broker said about one batch."""

    confirmed: list[Outgoing] = field(default_factory=list)
    unknown: list[Outgoing] = field(default_factory=list)
    held: dict[str, list[Outgoing]] = field(default_factory=dict)  # by reason: their queue does not take them
    error: str = ""

    def and_then(self, following: "Report") -> "Report":
        held = {reason: [*self.held.get(reason, []), *rows] for reason, rows in following.held.items()}
        return Report(
            [*self.confirmed, *following.confirmed],
            [*self.unknown, *following.unknown],
            {**self.held, **held},
            following.error,
        )


class Publisher:
    """One connection to the broker, made anew after any error."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._channel: Any = None
        self._declared: set[str] = set()
        self._delivery_tag = 0
        self._is_in_doubt = False

    def publish(self, executions: Sequence[Outgoing]) -> Report:
        """Publish all, then wait once for all confirms. After a failure one goes ahead, and the others if it arrives.

        A broker that takes messages and confirms none would otherwise get the whole batch again at each try.
        """
        if not self._is_in_doubt:
            return self._publish(executions, patience_seconds=settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS)
        probe = self._publish(executions[:1], patience_seconds=_PROBE_SECONDS)
        if self._is_in_doubt:
            return replace(probe, unknown=list(executions))
        return probe.and_then(self.publish(executions[1:]))

    def reaches(self) -> bool:
        """Whether the broker answers again, and confirms: tried with a message to a queue that goes at once."""
        try:
            self._open()
            if self._speaks_amqp():
                self._probe()
        except BROKER_ERRORS:
            self.drop()
            return False
        self._is_in_doubt = False
        return True

    def _probe(self) -> None:
        channel = self._channel
        queue = channel.queue_declare(exclusive=True, auto_delete=True).queue
        acked: list[int] = []
        channel.events["basic_ack"] = {lambda tag, _multiple: acked.append(tag)}
        self._delivery_tag += 1
        channel.basic_publish(amqp.Message(b""), routing_key=queue)
        self._listen_until(lambda: bool(acked), seconds=_PROBE_SECONDS)
        channel.queue_delete(queue)

    def _publish(self, executions: Sequence[Outgoing], *, patience_seconds: float) -> Report:
        held: dict[str, list[Outgoing]] = {}
        batch = _Confirms(executions)
        try:
            self._open()
            refusals = self._declare({execution.queue for execution in executions})
            for name, reason in refusals.items():
                held.setdefault(reason, []).extend(e for e in executions if e.queue == name)
            batch = _Confirms([execution for execution in executions if execution.queue not in refusals])
            if self._speaks_amqp():
                self._publish_with_confirms(batch, patience_seconds)
            else:
                self._publish_to_folder(batch)
        except BROKER_ERRORS as error:
            # The socket may be stuck, so nothing more is said on it: a polite goodbye can block as well.
            self.drop()
            self._is_in_doubt = True
            return batch.report(held, error=f"{type(error).__name__}: {error}".removesuffix(": "))
        report = batch.report(held)
        self._is_in_doubt = False
        # What was returned had no queue, though we once declared it: declare it anew next time.
        self._declared -= {execution.queue for execution in report.held.get(UNROUTABLE, [])}
        return report

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

    def _speaks_amqp(self) -> bool:
        return self._connection is not None and self._connection.transport.driver_type == "amqp"

    def _declare(self, names: Iterable[str]) -> dict[str, str]:
        """Make sure of the queues; returns those that cannot be had as we need them, with the reason."""
        refusals = {}
        for name in sorted(set(names) - self._declared):
            try:
                queues.dead_letter_queue().bind(self._channel).declare()
                queues.work_queue(name).bind(self._channel).declare()
                self._declared.add(name)
            except amqp.ChannelError as error:
                # The broker has closed the channel for it. One bad queue must not hold up the others.
                refusals[name] = _why_refused(name, error)
                self._open_channel()
        return refusals

    def _publish_to_folder(self, batch: "_Confirms") -> None:
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

    def _publish_with_confirms(self, batch: "_Confirms", patience_seconds: float) -> None:
        channel = self._channel
        for name, callback in (("basic_ack", batch.acked), ("basic_nack", batch.nacked)):
            channel.events[name] = {callback}
        channel.events["basic_return"] = {batch.returned}
        exchange = queues.exchange().name
        for start in range(0, len(batch.executions), _MESSAGES_PER_WRITE):
            together = batch.executions[start : start + _MESSAGES_PER_WRITE]
            packed = b"".join(self._packed(execution, exchange) for execution in together)
            for execution in together:
                self._delivery_tag += 1
                batch.sent(self._delivery_tag, execution)
            channel.connection.transport.write(packed)
            self._listen(patience_seconds)
        self._listen_until(lambda: not batch.outstanding, seconds=patience_seconds)

    def _packed(self, execution: Outgoing, exchange: str) -> bytes:
        return frames.of_message(
            messages.of_execution(execution),
            channel=self._channel.channel_id,
            exchange=exchange,
            routing_key=execution.queue,
            frame_max=self._channel.connection.frame_max,
        )

    def _listen(self, seconds: float) -> None:
        """Take what the broker has said until now. Who only talks may not be heard any more, nor hear of an alarm."""
        connection = self._channel.connection
        said = select.poll()
        said.register(connection.sock, select.POLLIN)
        while said.poll(0):
            connection.blocking_read(timeout=seconds)  # one frame: the next may never come

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


class _Confirms:
    """The outstanding delivery tags of one batch.

    Acks come out of order and may stand for many (`multiple`), so only the set of outstanding tags proves anything. A
    returned message carries no tag; it is known by its message id, and it comes before its own ack.
    """

    def __init__(self, executions: Sequence[Outgoing]) -> None:
        self.executions = executions
        self.outstanding: dict[int, Outgoing] = {}
        self._confirmed: list[Outgoing] = []
        self._nacked: list[Outgoing] = []
        self._returned: set[str] = set()

    def sent(self, tag: int, execution: Outgoing) -> None:
        self.outstanding[tag] = execution

    def acked(self, delivery_tag: int, multiple: bool) -> None:
        self._confirmed += self._settle(delivery_tag, multiple)

    def nacked(self, delivery_tag: int, multiple: bool) -> None:
        self._nacked += self._settle(delivery_tag, multiple)

    def returned(self, _error: Exception, _exchange: str, _routing_key: str, message: Any) -> None:
        self._returned.add(message.properties["message_id"])

    def _settle(self, delivery_tag: int, multiple: bool) -> list[Outgoing]:
        tags = [tag for tag in self.outstanding if tag <= delivery_tag] if multiple else [delivery_tag]
        return [self.outstanding.pop(tag) for tag in tags if tag in self.outstanding]

    def report(self, held: Mapping[str, list[Outgoing]], error: str = "") -> Report:
        unroutable = [execution for execution in self._confirmed if str(execution.pk) in self._returned]
        settled = {execution.pk for execution in (*self._confirmed, *self._nacked)}
        refused = {UNROUTABLE: unroutable, NACKED: self._nacked}
        return Report(
            confirmed=[execution for execution in self._confirmed if str(execution.pk) not in self._returned],
            unknown=[execution for execution in self.executions if execution.pk not in settled],
            held={**held, **{reason: rows for reason, rows in refused.items() if rows}},
            error=error,
        )
