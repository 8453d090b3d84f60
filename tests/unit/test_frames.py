"""The bytes of a message: to the letter those that py-amqp would have written."""

import json
from types import SimpleNamespace
from typing import Any

import amqp
import pytest
from amqp.method_framing import frame_writer
from amqp.spec import Basic
from hypothesis import given
from hypothesis import strategies as st

from executions.frames import of_message
from executions.messages import Message, of_execution
from tests.making import an_outgoing

CHANNEL = 7


def ours(message: Message, *, routing_key: str = "default", frame_max: int = 131072) -> bytes:
    return of_message(message, channel=CHANNEL, exchange="onbeat.work", routing_key=routing_key, frame_max=frame_max)


def theirs(message: Message, *, routing_key: str = "default", frame_max: int = 131072) -> bytes:
    """What py-amqp writes for a mandatory basic.publish."""
    written: list[bytes] = []
    transport = SimpleNamespace(write=lambda data: written.append(bytes(data)))
    content = amqp.Message(message.body, application_headers=message.headers, **message.properties)
    arguments = amqp.serialization.dumps("Bssbb", (0, "onbeat.work", routing_key, True, False))
    frame_writer(SimpleNamespace(frame_max=frame_max, bytes_sent=0), transport)(
        1, CHANNEL, Basic.Publish, arguments, content
    )
    return b"".join(written)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(
    args=st.lists(words | st.integers() | st.none(), max_size=5),
    key=words,
    task=words.filter(bool),
    queue=st.text("abc-é", max_size=100),
    priority=st.integers(0, 9),
    attempt=st.integers(1, 2**31 - 1),
    timeout_seconds=st.none() | st.integers(1, 3600),
    keep_result=st.booleans(),
)
def test_any_message_is_packed_as_by_the_library(args: list[object], key: str, queue: str, **more: Any) -> None:
    message = of_execution(an_outgoing(args=json.dumps(args), job_key=key, queue=queue, **more))
    assert ours(message, routing_key=queue) == theirs(message, routing_key=queue)


@pytest.mark.parametrize("length", [1, 4087, 4088, 4089, 8176, 8177, 20_000])
def test_a_body_longer_than_a_frame_is_parted(length: int) -> None:
    message = of_execution(an_outgoing(args=json.dumps(["x" * length])))
    assert ours(message, frame_max=4096) == theirs(message, frame_max=4096)


def test_two_messages_of_one_task_share_nothing_of_their_own() -> None:
    one, other = of_execution(an_outgoing(job_key="a")), of_execution(an_outgoing(job_key="b"))
    assert one.frame is other.frame
    assert (ours(one), ours(other)) == (theirs(one), theirs(other))
