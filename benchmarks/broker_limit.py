"""How many messages per second RabbitMQ itself takes, whoever sends them: no beat can be faster.

The messages are those of the executions that are given, to the byte but for the name of the queue: persistent,
mandatory, and for a queue of the kind that jobs have. All are packed before the clock starts. It starts with the first
write on a connection that has sent one message already, and ends when the broker has confirmed the last. Nothing is
waited for in between: large writes, and after each whatever the broker has said until then. Its answers are read from
the bare socket, since the client must not be the slower one of the two. A message that is refused, sent back or missing
in the queue afterwards leaves no figure.
"""

import contextlib
import select
import socket
import time
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any

import kombu
from amqp.spec import Basic

from benchmarks.stage import Stage
from launcher.progress import step
from launcher.refusal import Refusal

if TYPE_CHECKING:
    from executions.outgoing import Outgoing

_QUEUE = "limit"
_BYTES_PER_WRITE = 1 << 18
_BYTES_PER_READ = 1 << 16
_PATIENCE_SECONDS = 30

_START = Struct(">BHI")  # kind of frame, channel, length
_END_LENGTH = 1
_METHOD, _HEARTBEAT = 1, 8
_NAME = Struct(">HH")  # class and method
_TAG = Struct(">QB")  # delivery tag, and whether it stands for all before as well


class Confirms:
    """Of messages with the delivery tags 1 to `count`, as the bytes of AMQP 0-9-1 tell them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.confirmed = 0
        self._is_confirmed = bytearray(count + 1)
        self._first_open = 1  # all before it are confirmed
        self._begun = b""  # a frame whose end is still to come

    def hear(self, said: bytes) -> None:
        said = self._begun + said
        start = 0
        while len(said) - start >= _START.size:
            kind, _, length = _START.unpack_from(said, start)
            end = start + _START.size + length + _END_LENGTH
            if end > len(said):
                break
            if kind != _HEARTBEAT:
                self._hear_of(said, kind, start + _START.size)
            start = end
        self._begun = said[start:]

    def _hear_of(self, said: bytes, kind: int, payload: int) -> None:
        name = _NAME.unpack_from(said, payload) if kind == _METHOD else None
        if name != Basic.Ack:
            what = _REFUSALS.get(name, f"said something else (frame of kind {kind}, method {name})")
            raise Refusal(f"RabbitMQ was to confirm {self.count:,} messages, and {what}: no figure is worth that.")
        tag, multiple = _TAG.unpack_from(said, payload + _NAME.size)
        for one in range(self._first_open if multiple else tag, tag + 1):
            self.confirmed += not self._is_confirmed[one]
            self._is_confirmed[one] = True
        if multiple:
            self._first_open = max(self._first_open, tag + 1)


_REFUSALS: dict[tuple[int, ...] | None, str] = {Basic.Nack: "refused one", Basic.Return: "found no queue for one"}


def messages_per_second(stage: Stage, executions: "Sequence[Outgoing]") -> float:
    """The first of the executions is sent before the clock starts."""
    with (
        step(print, f"Letting the broker take {len(executions) - 1:,} ready messages"),
        _open_channel(stage) as channel,
    ):
        first, *others = _packed(channel, executions)
        ready = memoryview(b"".join(others))
        confirms = Confirms(len(executions))
        line = channel.connection.transport.sock
        line.settimeout(_PATIENCE_SECONDS)
        try:
            line.sendall(first)
            _hear_until(1, confirms, line)
            started = time.monotonic()
            _write(ready, confirms, line)
            _hear_until(confirms.count, confirms, line)
            seconds = time.monotonic() - started
        except OSError as error:
            heard = f"{confirms.confirmed:,} of {confirms.count:,} messages"
            raise Refusal(f"RabbitMQ confirmed {heard}, and then: {error}. No figure is worth that.") from error
    _see_that_all_are_there(stage, confirms.count)
    return len(others) / seconds


@contextlib.contextmanager
def _open_channel(stage: Stage) -> Iterator[Any]:
    from executions import queues

    stage.delete_at_end(queues=[_QUEUE], exchanges=[])
    connection = kombu.Connection(stage.named.broker_url, connect_timeout=_PATIENCE_SECONDS)
    try:
        channel: Any = connection.channel()
        queues.work_queue(_QUEUE).bind(channel).declare()
        channel.confirm_select()
        yield channel
    finally:
        # Without a goodbye: after a refusal its answer would stand behind much that nobody reads.
        connection.collect(socket_timeout=0.1)


def _packed(channel: Any, executions: "Sequence[Outgoing]") -> list[bytes]:
    from executions import frames, messages, queues

    return [
        frames.of_message(
            messages.of_execution(execution),
            channel=channel.channel_id,
            exchange=queues.exchange_name(),
            routing_key=_QUEUE,
            frame_max=channel.connection.frame_max,
        )
        for execution in executions
    ]


def _write(ready: memoryview, confirms: Confirms, line: socket.socket) -> None:
    said = select.poll()
    said.register(line, select.POLLIN)
    for start in range(0, len(ready), _BYTES_PER_WRITE):
        line.sendall(ready[start : start + _BYTES_PER_WRITE])
        while said.poll(0):
            _hear(confirms, line)


def _hear_until(count: int, confirms: Confirms, line: socket.socket) -> None:
    while confirms.confirmed < count:
        _hear(confirms, line)


def _hear(confirms: Confirms, line: socket.socket) -> None:
    said = line.recv(_BYTES_PER_READ)
    if not said:
        raise ConnectionError("it closed the connection")
    confirms.hear(said)


def _see_that_all_are_there(stage: Stage, count: int) -> None:
    if (depth := stage.depth(_QUEUE)) != count:
        raise Refusal(f"RabbitMQ confirmed {count:,} messages and has {depth:,}: no figure is worth that.")
