"""Messages that belong to no execution: whatever they hold, they are kept whole, and say why nobody took them."""

import json
import pickle
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from celery import current_app

from executions import dead_letter_queue, messages, queues
from executions.dead_letters import Collected, collect
from executions.fingerprint import of_error
from executions.models import DeadMessage
from executions.states import State
from executions.undelivered import UNREADABLE_HEADER
from tests.integration.rejecting import PLAIN, Rejecting, now_of, the_message
from tests.making import a_job, planned

pytestmark = pytest.mark.django_db


def test_a_message_of_celery_that_is_none_of_ours_is_kept_whole(noon: datetime, rejecting: Rejecting) -> None:
    rejecting.publish(
        b'[[1], {"a": 2}, {}]',
        headers={"task": "their.task", "id": "7", "nested": {"list": [1, "x", None, True]}},
        correlation_id="7",
        reply_to="there",
        priority=4,
        **PLAIN,
    )
    rejecting.reject()
    assert collect(noon) == Collected(kept=1)
    kept = the_message()
    queue = queues.work_queue("default").name
    assert (kept.queue, kept.exchange, kept.routing_key, kept.task) == (queue, "", queue, "their.task")
    assert bytes(kept.body) == b'[[1], {"a": 2}, {}]'
    assert kept.headers["nested"] == {"list": [1, "x", None, True]}
    assert {"correlation_id": "7", "reply_to": "there", "priority": 4, **PLAIN}.items() <= kept.properties.items()
    assert kept.error.startswith("No worker could take its message: the task 'their.task' is not registered there")
    assert (kept.fingerprint, kept.collected_at) == (of_error(kept.error), noon)
    assert (kept.handled_at, rejecting.count()) == (None, 0)


BROKEN_BODIES = {
    "pickle": (pickle.dumps({"a": 1}), {"content_type": "application/x-python-serialize"}, "do not read the content"),
    "cut off": (b'[[1], {"a"', PLAIN, "is not the JSON that it says it is"),
    "no text": (b"\xff\xfe\x00", PLAIN, "is not the JSON that it says it is"),
    "NUL characters": (b"\x00\x00", {}, "do not read the content type ''"),
    "nothing": (b"", PLAIN, "is not the JSON that it says it is"),
    "too deep": (b"[" * 100_000, PLAIN, "is not the JSON that it says it is"),
    "no task": (b"[1]", PLAIN, "names no task"),
}


@pytest.mark.parametrize("kind", BROKEN_BODIES)
def test_a_message_that_cannot_be_read_is_kept_with_its_body_and_says_why(
    noon: datetime, rejecting: Rejecting, kind: str
) -> None:
    body, properties, why = BROKEN_BODIES[kind]
    rejecting.publish(body, **properties)
    rejecting.reject()
    assert collect(noon) == Collected(kept=1)
    kept = the_message()
    assert bytes(kept.body) == body
    assert why in kept.error
    assert kept.queue == queues.work_queue("default").name
    assert rejecting.count() == 0


def test_a_message_of_celerys_first_protocol_names_its_task_in_its_body(noon: datetime, rejecting: Rejecting) -> None:
    rejecting.publish(json.dumps({"task": "old.task", "id": "1", "args": [], "kwargs": {}}).encode(), **PLAIN)
    rejecting.reject()
    collect(noon)
    assert the_message().task == "old.task"


@pytest.mark.parametrize(
    "wrong",
    [
        {messages.EXECUTION_HEADER: "no id"},
        {messages.EXECUTION_HEADER: 7},
        {messages.ATTEMPT_HEADER: "first"},
        {messages.ATTEMPT_HEADER: {"a": 1}},
        pytest.param({messages.ATTEMPT_HEADER: 1e999}, marks=pytest.mark.embedded),
        {messages.FIRE_TIME_HEADER: "yesterday"},
        {messages.ATTEMPT_HEADER: None},
    ],
)
def test_a_message_that_bears_our_name_and_cannot_be_read_is_kept(
    noon: datetime, rejecting: Rejecting, wrong: dict[str, Any]
) -> None:
    execution = planned(a_job(now=noon), noon)
    rejecting.publish_execution(execution, **wrong)
    rejecting.reject()
    assert collect(noon) == Collected(kept=1)
    assert the_message().error.endswith("its headers bear our name, but not what we write.")
    assert now_of(execution) == (State.SCHEDULED, 1)


STRANGE_HEADERS: dict[str, dict[Any, Any]] = {
    "huge": {"much": "x" * 50_000, "many": list(range(5000))},
    "a NUL character": {"nul\x00key": "nul\x00value"},
    "no text": {"bytes": b"\xff\xfe\x00"},
    "no numbers": {"inf": float("inf"), "nan": float("nan")},
    "exact numbers": {"decimal": Decimal("1.5"), "large": 2**62},
    "moments": {"then": datetime(2026, 1, 1)},  # noqa: DTZ001 - as AMQP has it
    "half a character": {"half": "\ud800"},
    "what looks like a mark of ours": {"m": {"__type__": "datetime", "__value__": "no time"}},
    "a death that is none": {"x-death": "of old age"},
    "deaths that are none": {"x-death": [7, {"queue": 7}]},
    "a task that is none": {"task": ["a"]},
    "a long name of a task": {"task": "t" * 3000},
    "a compression that nobody knows": {"compression": "application/x-nothing"},
    "deep": json.loads('{"a":' * 80 + "1" + "}" * 80),
}

BROKERS_OWN_BUSINESS = {
    "full": {"no numbers", "deaths that are none"},
    "embedded": {"half a character", "what looks like a mark of ours"},
}


@pytest.mark.parametrize("kind", STRANGE_HEADERS)
def test_whatever_its_headers_hold_a_message_is_kept(
    noon: datetime, rejecting: Rejecting, kind: str, is_full: bool
) -> None:
    if kind in BROKERS_OWN_BUSINESS["full" if is_full else "embedded"]:
        pytest.skip("the broker itself does not take it, or sets it aside")
    rejecting.publish(b"{}", headers=STRANGE_HEADERS[kind], **PLAIN)
    rejecting.reject()
    assert collect(noon) == Collected(kept=1)
    kept = the_message()
    assert (bytes(kept.body), rejecting.count()) == (b"{}", 0)
    assert set(kept.headers) >= {str(name).replace("\x00", "␀") for name in STRANGE_HEADERS[kind]}


class FarMoment(datetime):
    """Written as more seconds since 1970 than a datetime can be made from."""

    def utctimetuple(self) -> Any:
        return (9999, 12, 31, 1_000_000, 0, 0)


FAR_MOMENT = FarMoment(2026, 1, 1)


@pytest.mark.full
@pytest.mark.parametrize(
    "strange",
    [{"correlation_id": b"\xff\xfe"}, {"headers": {"then": FAR_MOMENT}}, {"type": b"\xff", "content_type": "x"}],
    ids=["no text", "a moment beyond all years", "no text of a type"],
)
def test_properties_that_no_library_reads_are_kept_as_bytes_and_hold_up_nobody(
    noon: datetime, rejecting: Rejecting, strange: dict[str, Any]
) -> None:
    rejecting.publish(b"{}", **{**PLAIN, **strange})
    rejecting.publish_task()
    name = queues.work_queue("default").name
    for _ in range(2):
        _move_unread(rejecting, name)
    rejecting.wait_for(2)
    assert collect(noon) == Collected(kept=2)
    unread, other = DeadMessage.objects.order_by("pk")
    assert (bytes(unread.body), list(unread.headers)) == (b"{}", [UNREADABLE_HEADER])
    assert unread.error == "No worker could take its message: its properties cannot be read."
    assert other.task == "their.task"
    assert rejecting.count() == 0


def _move_unread(rejecting: Rejecting, name: str) -> None:
    """Reject the next message without reading it."""
    with current_app.connection_for_read() as line:
        line.transport_options = {"frame_handler": dead_letter_queue._reading_all}
        channel = line.channel()
        channel.basic_reject(channel.basic_get(name).delivery_tag, requeue=False)


def test_a_message_that_somebody_put_into_the_dead_letter_queue_itself_is_kept(
    noon: datetime, rejecting: Rejecting
) -> None:
    rejecting.publish(b"hello", queue=queues.DEAD_LETTERS, **PLAIN)
    rejecting.wait_for(1)
    assert collect(noon) == Collected(kept=1)
    assert (the_message().queue, bytes(the_message().body)) == ("", b"hello")


def test_a_message_that_was_rejected_twice_is_kept_with_the_queue_it_came_from_last(
    noon: datetime, rejecting: Rejecting
) -> None:
    before = {"queue": "elsewhere", "reason": "expired", "count": 1, "exchange": "e", "routing-keys": ["k"]}
    rejecting.publish(b"{}", headers={"task": "t", "x-death": [before]}, **PLAIN)
    rejecting.reject()
    collect(noon)
    assert the_message().queue == queues.work_queue("default").name
    assert "is not registered there" in the_message().error
