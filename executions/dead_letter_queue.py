"""The dead-letter queue on the broker, and the way back from it.

Owns how its messages are taken and published again. Invariant: a message leaves the queue only when its taker lets it
go; whatever was taken and not let go is back in the queue when the line is left. A message that the library cannot read
holds up no other: its properties are handed out as bytes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from struct import error as StructError  # noqa: N812 - a class, whatever it is called there
from struct import pack
from typing import Any

import amqp
from amqp.method_framing import frame_handler
from amqp.serialization import dumps
from celery import current_app
from django.conf import settings
from kombu.transport import virtual

from executions import events, queues
from executions.broker_line import CONNECT_SECONDS, short_connection
from executions.storable import in_a_line
from executions.undelivered import UNREADABLE_HEADER, Undelivered

ANSWER_SECONDS = 3.0
_BYTES_AT_ONCE = 16 * 1024 * 1024  # of bodies held in memory
_HEADER_FRAME, _PROPERTIES_OFFSET, _ONLY_HEADERS = 2, 12, 0x2000
_OF_THE_FOLDER = {"delivery_info", "delivery_tag", "body_encoding"}


class DeadLetterQueue:
    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._name = queues.dead_letter_queue().name

    def take(self, most: int) -> list[Undelivered]:
        """The next ones; none if the queue is empty. What was taken is not given out a second time."""
        taken: list[Undelivered] = []
        size = 0
        while len(taken) < most and size < _BYTES_AT_ONCE:
            message = self._channel.basic_get(self._name)
            if message is None:
                break
            taken.append(self._from_folder(message) if isinstance(message, virtual.Message) else _from_amqp(message))
            size += len(taken[-1].body)
        return taken

    def let_go(self, letters: Iterable[Undelivered]) -> None:
        for letter in letters:
            self._channel.basic_ack(letter.tag)

    def _from_folder(self, message: Any) -> Undelivered:
        raw = message._raw  # Kombu has decompressed the body of the message itself
        body = self._channel.decode_body(raw["body"], raw["properties"].get("body_encoding"))
        properties = {name: value for name, value in raw["properties"].items() if name not in _OF_THE_FOLDER}
        properties |= {"content_type": raw["content-type"], "content_encoding": raw["content-encoding"]}
        return Undelivered(message.delivery_tag, _as_bytes(body), raw["headers"] or {}, properties)


@contextmanager
def opened() -> Iterator[DeadLetterQueue]:
    """The queue, for a short while. Raises one of the broker line's errors if the broker is away."""
    connection = current_app.connection_for_read(connect_timeout=CONNECT_SECONDS)
    with short_connection(connection, answer_seconds=ANSWER_SECONDS, frame_handler=_reading_all) as line:
        channel = line.channel()
        # If it exists with other arguments, beats tell of it, and what it holds can be taken all the same.
        with suppress(amqp.ChannelError):
            queues.dead_letter_queue().bind(channel).declare()
        yield DeadLetterQueue(channel)


Publish = Callable[[str, bytes, dict[str, Any], dict[str, Any]], str]


@contextmanager
def publishing() -> Iterator[Publish]:
    """A function that publishes into a queue and returns when the broker has the message, or why it does not take it.

    Raises one of the broker line's errors if the broker is away.
    """
    connection = current_app.connection_for_write(connect_timeout=CONNECT_SECONDS)
    patience = settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS
    with short_connection(connection, answer_seconds=patience, confirm_publish=True) as line:

        def publish(queue: str, body: bytes, headers: dict[str, Any], properties: dict[str, Any]) -> str:
            # Each on a channel of its own: the confirm of one that was returned comes late, and is not the next one's.
            channel: Any = line.channel()
            known = {name: properties.pop(name, None) for name in ("priority", "content_type", "content_encoding")}
            message = channel.prepare_message(body, headers=headers, properties=properties, **known)
            problem = ""
            try:
                channel.basic_publish(message, exchange="", routing_key=queue, mandatory=True)
            except amqp.ChannelError as error:
                problem = f"the broker does not take it for the queue {queue!r}: {in_a_line(error)}"
            except amqp.exceptions.MessageNacked:
                problem = f"the queue {queue!r} is full, or broken"
            except (amqp.FrameSyntaxError, StructError) as error:
                problem = f"its headers or properties cannot be sent: {in_a_line(error)}"
            channel.close()
            return problem

        yield publish


def _from_amqp(message: Any) -> Undelivered:
    properties = dict(message.properties)
    headers = properties.pop("application_headers", None) or {}
    return Undelivered(message.delivery_tag, _as_bytes(message.body), headers, properties)


def _as_bytes(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else bytes(body or b"")


def _reading_all(connection: Any, callback: Any) -> Any:
    """As the library's, but for a message whose properties it cannot read: text in no known encoding, odd types.

    It would fail in the middle of the line, and the message would come back first, each time anew.
    """
    on_frame = frame_handler(connection, callback)

    def on_any_frame(frame: Any) -> Any:
        try:
            return on_frame(frame)
        except Exception as error:  # bytes can fail to be text, a time or a table in many ways
            kind, channel, content = frame
            if kind != _HEADER_FRAME:
                raise
            events.warn("the properties of a dead letter cannot be read", error=in_a_line(error))
            properties = bytes(content[_PROPERTIES_OFFSET:])
            instead = dumps("F", ({UNREADABLE_HEADER: properties},))
            return on_frame((kind, channel, bytes(content[:_PROPERTIES_OFFSET]) + pack(">H", _ONLY_HEADERS) + instead))

    return on_any_frame
