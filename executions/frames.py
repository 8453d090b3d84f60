"""Messages as the bytes of AMQP 0-9-1.

py-amqp packs every field of every message anew and looks at its socket after each, and that was most of the time of a
burst. Here what all messages of a task or of a queue share is packed once. Invariant: py-amqp reads from these bytes
what it would have written itself.
"""

from functools import lru_cache
from struct import Struct

from amqp.serialization import dumps
from amqp.spec import Basic

from executions.messages import CONTENT_ENCODING, CONTENT_TYPE, DELIVERY_MODE, Frame, Message

_METHOD, _HEADER, _BODY = 1, 2, 3
_START = Struct(">BHI")  # kind of frame, channel, length
_END = b"\xce"
_OVERHEAD = _START.size + len(_END)
_CONTENT = Struct(">HHQH")  # class, weight, length of the body, which properties there are
_LENGTH = Struct(">I")
# Content type and encoding, headers, delivery mode, priority, correlation id; message id.
_PROPERTIES = 0b1111_1100_1000_0000


def of_message(message: Message, *, channel: int, exchange: str, routing_key: str, frame_max: int) -> bytes:
    """A mandatory basic.publish and its content."""
    body, most = message.body, frame_max - _OVERHEAD
    header = _content_header(message)
    begin, head = _publish(channel, exchange, routing_key), _START.pack(_HEADER, channel, len(header))
    if len(body) <= most:  # as nearly always, and there is always something in it
        return b"".join((begin, head, header, _END, _START.pack(_BODY, channel, len(body)), body, _END))
    parts = [body[start : start + most] for start in range(0, len(body), most)]
    return b"".join([begin, head, header, _END, *(_framed(_BODY, channel, part) for part in parts)])


def _framed(kind: int, channel: int, payload: bytes) -> bytes:
    return _START.pack(kind, channel, len(payload)) + payload + _END


@lru_cache(maxsize=1000)
def _publish(channel: int, exchange: str, routing_key: str) -> bytes:
    arguments = dumps("BBBssbb", (*Basic.Publish, 0, exchange, routing_key, True, False))
    return _framed(_METHOD, channel, arguments)


def _content_header(message: Message) -> bytes:
    headers = _shared_headers(message.frame) + _items(message.own_headers)
    task_id = message.task_id.encode()
    task_id = bytes([len(task_id)]) + task_id
    return b"".join(
        [
            _CONTENT.pack(Basic.CLASS_ID, 0, len(message.body), _PROPERTIES),
            _CONTENT_KIND,
            _LENGTH.pack(len(headers)),
            headers,
            bytes([DELIVERY_MODE, message.priority]),
            task_id,
            task_id,
        ]
    )


_CONTENT_KIND = dumps("ss", (CONTENT_TYPE, CONTENT_ENCODING))


@lru_cache(maxsize=1000)
def _shared_headers(frame: Frame) -> bytes:
    return _items(frame.headers)


def _items(headers: dict[str, object]) -> bytes:
    """A table without its length."""
    return b"".join([_item(name, value) for name, value in headers.items()])


def _item(name: str, value: object) -> bytes:
    """Nearly all are texts and small numbers, and the library takes several times as long for one."""
    if type(value) is str:
        text = value.encode("utf-8", "surrogatepass")
        return _beginning(name, b"S") + _LENGTH.pack(len(text)) + text
    if type(value) is int and 0 <= value < 1 << 31:
        return _beginning(name, b"I") + _LENGTH.pack(value)
    return bytes(dumps("F", ({name: value},))[_LENGTH.size :])


@lru_cache(maxsize=1000)
def _beginning(name: str, kind: bytes) -> bytes:
    return bytes(dumps("s", (name,))) + kind
