"""What no worker could take is collected into the database, once each; nothing is lost or holds up the rest."""

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from celery import current_app
from django.db import DataError, OperationalError, connection
from django.test.utils import CaptureQueriesContext

from beat.upkeep.dead_letters import DUTY
from beat.upkeep.lost_messages import return_lost_messages
from executions import dead_letter_queue, dead_letters, lifecycle, messages, queues
from executions.dead_letters import WORKER, Collected, collect
from executions.dispatch import Publisher
from executions.fingerprint import of_error
from executions.identity import new_execution_id
from executions.models import Attempt, DeadMessage, Execution
from executions.retry import RetryPolicy
from executions.states import State
from executions.undelivered import UNREADABLE_HEADER
from tests import rows
from tests.integration.conftest import Queues
from tests.integration.rejecting import PLAIN, Rejecting
from tests.making import a_job, a_ticker, claimed, planned, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def rejecting(broker: Queues) -> Rejecting:
    return Rejecting(broker)


@pytest.fixture
def published(noon: datetime, publisher: Publisher, rejecting: Rejecting) -> Execution:
    """QUEUED at noon, with its message in the queue; given up after two attempts."""
    execution = planned(a_job(now=noon, max_attempts=2), noon)
    assert a_ticker(publisher).tick(noon).published == 1
    return execution


def now_of(execution: Execution) -> tuple[str, int]:
    execution.refresh_from_db()
    return execution.state, execution.attempt


def the_message() -> DeadMessage:
    return DeadMessage.objects.get()


# ── Messages of executions ───────────────────────────────────────────────────────────────────────────────────────


def test_an_execution_whose_message_no_worker_took_is_tried_again_and_then_given_up(
    published: Execution, noon: datetime, publisher: Publisher, rejecting: Rejecting
) -> None:
    rejecting.reject()
    assert collect(noon + seconds(1)) == Collected(ended=1)
    assert now_of(published) == (State.SCHEDULED, 2)
    assert (published.reason, published.available_at) == ("waits for its retry", noon + seconds(31))
    assert a_ticker(publisher).tick(noon + seconds(31)).published == 1
    rejecting.reject()
    assert DUTY.run(noon + seconds(32)) == 1
    assert now_of(published) == (State.DEAD, 2)
    assert "the task 'onbeat.echo' is not registered there" in published.error
    assert published.fingerprint == of_error(published.error)
    told = list(Attempt.objects.filter(execution=published).values_list("number", "outcome", "worker"))
    assert told == [(1, "FAILED", WORKER), (2, "FAILED", WORKER)]
    assert (rejecting.count(), DeadMessage.objects.count()) == (0, 0)


def test_a_policy_may_give_up_on_a_task_that_nobody_knows(
    noon: datetime, publisher: Publisher, rejecting: Rejecting
) -> None:
    execution = planned(a_job(now=noon, retry=RetryPolicy(give_up_on=("NotRegistered",))), noon)
    a_ticker(publisher).tick(noon)
    rejecting.reject()
    collect(noon)
    assert now_of(execution) == (State.DEAD, 1)


def test_one_that_is_still_scheduled_is_taken_as_well(noon: datetime, rejecting: Rejecting) -> None:
    """Published, and its beat died before it marked the row."""
    execution = planned(a_job(now=noon), noon)
    rejecting.publish_execution(execution)
    rejecting.reject()
    assert collect(noon).ended == 1
    assert now_of(execution) == (State.SCHEDULED, 2)


def test_a_body_that_was_broken_on_its_way_is_told(noon: datetime, rejecting: Rejecting) -> None:
    execution = planned(a_job(now=noon, max_attempts=1), noon)
    headers = {"task": "onbeat.echo", messages.EXECUTION_HEADER: str(execution.pk), messages.ATTEMPT_HEADER: 1}
    headers |= {messages.FIRE_TIME_HEADER: noon.isoformat(), messages.JOB_KEY_HEADER: "x"}
    rejecting.publish(b'[[1], {"a"', headers=headers, **PLAIN)
    rejecting.reject()
    collect(noon)
    assert now_of(execution) == (State.DEAD, 1)
    assert execution.error == "No worker could take its message: its body is not the JSON that it says it is."


def end_dead(execution: Execution, noon: datetime) -> None:
    for number in range(execution.max_attempts):
        execution.refresh_from_db()
        lifecycle.fail(claimed(execution, now=noon), error=f"boom {number}", now=noon)


def end_well(execution: Execution, noon: datetime) -> None:
    lifecycle.succeed(claimed(execution, now=noon), result=None, now=noon)


def begin(execution: Execution, noon: datetime) -> None:
    claimed(execution, now=noon)


def call_off(execution: Execution, noon: datetime) -> None:
    lifecycle.cancel([execution.pk], reason="", now=noon)


def fail_once(execution: Execution, noon: datetime) -> None:
    lifecycle.fail(claimed(execution, now=noon), error="boom", now=noon)


@pytest.mark.parametrize("how", [end_dead, end_well, begin, call_off, fail_once])
def test_a_message_whose_execution_is_over_runs_or_went_on_changes_nothing(
    published: Execution, noon: datetime, rejecting: Rejecting, how: Any
) -> None:
    how(published, noon)
    before = rows.everything()
    rejecting.reject()
    assert collect(noon + seconds(1)) == Collected(dropped=1)
    assert (rejecting.count(), rows.everything()) == (0, before)


def test_the_message_of_an_execution_that_is_gone_is_dropped_and_told(
    noon: datetime, rejecting: Rejecting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    execution = planned(a_job(now=noon), noon)
    for execution_id in (execution.pk, new_execution_id(noon)):
        rejecting.publish_execution(execution, **{messages.EXECUTION_HEADER: str(execution_id)})
    rejecting.publish_execution(execution, **{messages.EXECUTION_HEADER: "ffffffff-ffff-ffff-ffff-ffffffffffff"})
    Execution.objects.all().delete()
    rejecting.reject()
    assert collect(noon) == Collected(dropped=3)
    gone = [line for line in caplog.messages if "its execution is gone" in line]
    assert len(gone) == 3
    assert str(execution.pk) in gone[0]


def test_an_attempt_of_no_number_that_there_is_is_none_of_this_execution(noon: datetime, rejecting: Rejecting) -> None:
    execution = planned(a_job(now=noon), noon)
    rejecting.publish_execution(execution, **{messages.ATTEMPT_HEADER: "9" * 40})
    rejecting.reject()
    assert collect(noon) == Collected(dropped=1)
    assert now_of(execution) == (State.SCHEDULED, 1)


def test_a_message_from_before_its_run_was_moved_ends_nothing(noon: datetime, rejecting: Rejecting) -> None:
    execution = planned(a_job(now=noon), noon)
    rejecting.publish_execution(execution)
    lifecycle.hold([execution], reason="moved", until=noon + timedelta(hours=1))
    rejecting.reject()
    assert collect(noon) == Collected(dropped=1)
    assert now_of(execution) == (State.SCHEDULED, 1)


def test_where_there_is_no_room_the_execution_waits_and_its_message_goes(noon: datetime, rejecting: Rejecting) -> None:
    job = a_job(now=noon, max_concurrency=1)
    claimed(planned(job, noon), now=noon)
    second = planned(job, noon + seconds(1))
    rejecting.publish_execution(second)
    rejecting.reject()
    assert collect(noon + seconds(1)) == Collected(dropped=1)
    second.refresh_from_db()
    assert (second.state, second.is_waiting) == (State.SCHEDULED, True)


def test_many_messages_of_executions_that_are_over_cost_one_look(noon: datetime, rejecting: Rejecting) -> None:
    job = a_job(now=noon)
    counts = []
    for many in (2, 20):
        for number in range(many):
            execution = planned(job, noon + seconds(len(counts) * 100 + number))
            rejecting.publish_execution(execution)
            lifecycle.cancel([execution.pk], reason="", now=noon)
        rejecting.reject()
        with CaptureQueriesContext(connection) as asked:
            assert collect(noon).dropped == many
        counts.append(len(asked))
    assert counts == [1, 1]


@pytest.mark.full
def test_an_execution_whose_message_expired_in_its_queue_is_given_up_at_once(
    noon: datetime, broker: Queues, rejecting: Rejecting
) -> None:
    execution = planned(a_job(now=noon, max_attempts=5), noon)
    lifecycle.mark_queued([execution], now=noon)
    rejecting.declare("brief", {"x-message-ttl": 20})
    try:
        rejecting.publish_execution(execution, queue="brief")
        rejecting.wait_for(1)
        assert collect(noon) == Collected(ended=1)
    finally:
        broker.delete("brief")
    assert now_of(execution) == (State.DEAD, 1)
    name = queues.work_queue("brief").name
    assert execution.error == f"Its message waited longer in the queue '{name}' than the broker allows."


@pytest.mark.full
def test_an_execution_whose_message_did_not_fit_into_its_queue_is_published_again_after_a_while(
    noon: datetime, broker: Queues, rejecting: Rejecting
) -> None:
    job = a_job(now=noon)
    first, second, moved = (planned(job, noon + seconds(number)) for number in range(3))
    lifecycle.mark_queued([first, second], now=noon + seconds(2))
    lifecycle.hold([moved], reason="moved", until=noon + timedelta(hours=1))
    rejecting.declare("small", {"x-max-length": 1})
    try:
        for execution in (first, moved, second):
            rejecting.publish_execution(execution, queue="small")
        rejecting.wait_for(2)
        assert collect(noon) == Collected(held=1, dropped=1)
    finally:
        broker.delete("small")
    first.refresh_from_db()
    assert (first.state, first.attempt, first.reason) == (State.SCHEDULED, 1, dead_letters.FULL_QUEUE)
    assert first.available_at == noon + seconds(30)
    moved.refresh_from_db()
    assert (moved.available_at, now_of(second)) == (noon + timedelta(hours=1), (State.QUEUED, 1))


def test_what_was_collected_does_not_count_as_lost(published: Execution, noon: datetime, rejecting: Rejecting) -> None:
    rejecting.reject()
    collect(noon + seconds(5))
    assert return_lost_messages(noon + seconds(86_400)) == 0


# ── Messages of nobody ───────────────────────────────────────────────────────────────────────────────────────────


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


# ── Crashes, outages, and one that is bad ────────────────────────────────────────────────────────────────────────


@contextmanager
def a_crash_before_the_ack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    class Crash(Exception):
        pass

    def crash(*_args: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(dead_letter_queue.DeadLetterQueue, "let_go", crash)
        with pytest.raises(Crash):
            yield


def test_after_a_crash_between_commit_and_ack_each_message_counts_once(
    published: Execution, noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejecting.publish_task()
    rejecting.reject()
    with a_crash_before_the_ack(monkeypatch):
        collect(noon)
    before = rows.everything()
    rejecting.wait_for(2)
    assert collect(noon + seconds(1)) == Collected(kept=1, dropped=1)
    assert rows.everything() == before
    assert (DeadMessage.objects.count(), Attempt.objects.count(), rejecting.count()) == (1, 1, 0)


def test_two_messages_that_differ_are_two(noon: datetime, rejecting: Rejecting) -> None:
    for number in ("1", "2"):
        rejecting.publish(b"{}", message_id=number, **PLAIN)
    rejecting.publish(b"[]", message_id="1", **PLAIN)
    rejecting.publish(b"{}", headers={"a": 1}, message_id="1", **PLAIN)
    rejecting.reject()
    assert collect(noon) == Collected(kept=4)
    assert DeadMessage.objects.count() == 4


@pytest.mark.embedded
def test_two_messages_without_a_name_that_say_the_same_are_two(noon: datetime, rejecting: Rejecting) -> None:
    """On RabbitMQ they are, unless they were rejected in the same second."""
    for number in (1, 2):
        rejecting.publish(b"{}", **PLAIN)
        rejecting.reject()
        assert (collect(noon).kept, DeadMessage.objects.count()) == (1, number)


def test_a_broker_that_is_away_means_nothing_to_collect(
    noon: datetime, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(current_app.conf, "broker_read_url", "amqp://127.0.0.1:1//")
    assert collect(noon) == Collected()


def test_a_queue_that_nobody_declared_yet_is_declared_and_empty(noon: datetime, broker: Queues) -> None:
    assert collect(noon) == Collected()
    assert broker.channel.queue_declare(queues.dead_letter_queue().name, passive=True).message_count == 0


@pytest.mark.full
def test_a_dead_letter_queue_with_other_arguments_is_collected_all_the_same(noon: datetime, broker: Queues) -> None:
    name = queues.dead_letter_queue().name
    broker.channel.queue_declare(name, durable=True, auto_delete=False, arguments={"x-max-length": 5})
    broker.channel.basic_publish(broker.channel.prepare_message(b"x"), exchange="", routing_key=name)
    assert collect(noon) == Collected(kept=1)


def test_one_that_the_database_does_not_take_stays_and_holds_up_no_other(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for task in ("good.one", "bad.one", "good.two"):
        rejecting.publish_task(task)
    rejecting.reject()
    row_of = dead_letters._row_of

    def refuse(letter: Any, now: datetime) -> DeadMessage:
        if letter.task == "bad.one":
            raise DataError("what a surprise")
        return row_of(letter, now)

    with monkeypatch.context() as broken:
        broken.setattr(dead_letters, "_row_of", refuse)
        assert collect(noon) == Collected(kept=2, left=1)
    assert "a dead letter could not be collected; it stays" in caplog.text
    rejecting.wait_for(1)
    assert collect(noon) == Collected(kept=1)
    assert sorted(DeadMessage.objects.values_list("task", flat=True)) == ["bad.one", "good.one", "good.two"]


def test_an_execution_that_cannot_be_ended_leaves_its_message_and_holds_up_no_other(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(now=noon)
    bad, good = planned(job, noon), planned(job, noon + seconds(1))
    for execution in (bad, good):
        rejecting.publish_execution(execution)
    rejecting.reject()
    fail = lifecycle.fail

    def refuse(claim: Any, **more: Any) -> Any:
        if claim.execution_id == bad.pk:
            raise DataError("what a surprise")
        return fail(claim, **more)

    with monkeypatch.context() as broken:
        broken.setattr(lifecycle, "fail", refuse)
        assert collect(noon + seconds(1)) == Collected(ended=1, left=1)
    assert (now_of(bad), now_of(good)) == ((State.SCHEDULED, 1), (State.SCHEDULED, 2))
    rejecting.wait_for(1)
    assert collect(noon + seconds(1)) == Collected(ended=1)


def test_when_the_database_goes_away_everything_stays_in_the_queue(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejecting.publish_task()
    rejecting.reject()

    def away(*_args: object) -> None:
        raise OperationalError("connection refused")

    with monkeypatch.context() as outage:
        outage.setattr(dead_letters, "_row_of", away)
        with pytest.raises(OperationalError):
            collect(noon)
    rejecting.wait_for(1)
    assert collect(noon) == Collected(kept=1)


def test_one_call_takes_so_many_in_batches_and_the_next_one_the_rest(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_PER_BATCH", 2)
    for number in range(7):
        rejecting.publish_task(f"task{number}")
    rejecting.reject()
    assert [collect(noon, most=5).kept, collect(noon, most=5).kept] == [5, 2]
    assert DeadMessage.objects.count() == 7


def test_a_call_that_took_its_time_stops_after_a_batch(
    noon: datetime, rejecting: Rejecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_PER_BATCH", 2)
    monkeypatch.setattr(dead_letters, "_PATIENCE_SECONDS", -1.0)
    for number in range(3):
        rejecting.publish_task(f"task{number}")
    rejecting.reject()
    assert collect(noon).kept == 2
