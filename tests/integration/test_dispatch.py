"""Publishing: what goes into a message, and what the broker's answers mean."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from celery import current_app
from pytest_django import Settings

from chaos.proxy import Proxy
from executions import queues
from executions.confirms import UNCONFIRMED, UNROUTABLE, Confirms
from executions.dispatch import Publisher, Sent
from executions.messages import delivery
from executions.outgoing import Outgoing
from tests.integration.conftest import Queues
from tests.making import a_job, outgoing, planned, seconds

pytestmark = pytest.mark.django_db
# So long a broker is waited for that does not answer; one that is well answers sooner, also on a busy machine.
A_WHILE = 3.0


def fires(count: int, noon: datetime) -> list[Outgoing]:
    job = a_job(now=noon)
    return outgoing(*(planned(job, noon + seconds(number)) for number in range(count)))


def test_a_message_holds_the_arguments_and_names_its_attempt(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_job(now=noon, key="billing", task="onbeat.echo", args=[1], kwargs={"tenant": "acme"}, priority=7)
    (execution,) = outgoing(planned(job, noon))
    assert publisher.publish([execution]).confirmed == [execution]
    message = broker.take()
    assert json.loads(message.body)[:2] == [[1], {"tenant": "acme"}]
    assert message.headers["task"] == "onbeat.echo"
    ours = delivery(message.headers)
    assert ours is not None
    assert (ours.execution_id, ours.attempt, ours.fire_time, ours.job_key) == (execution.pk, 1, noon, "billing")
    assert message.properties["priority"] == 7
    assert message.content_type == "application/json"


def test_a_message_has_no_header_that_no_worker_reads(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    publisher.publish(outgoing(planned(a_job(now=noon), noon)))
    of_celery = {"task", "id", "root_id", "argsrepr", "kwargsrepr", "origin", "ignore_result"}
    of_ours = {"onbeat_execution", "onbeat_attempt", "onbeat_fire_time", "onbeat_job"}
    assert set(broker.take().headers) == of_celery | of_ours


def test_arguments_are_not_shown_to_whoever_listens(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    publisher.publish(outgoing(planned(a_job(now=noon, args=["hush-hush"], kwargs={"token": "hush-hush"}), noon)))
    assert "hush-hush" not in json.dumps(broker.take().headers, default=str)


def test_a_batch_is_confirmed_as_a_whole(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    batch = fires(50, noon)
    report = publisher.publish(batch)
    assert {execution.pk for execution in report.confirmed} == {execution.pk for execution in batch}
    assert (report.unknown, report.held, report.error) == ([], {}, "")
    assert len(broker.take_all()) == 50


def test_one_publisher_serves_many_batches(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    for execution in fires(3, noon):
        assert publisher.publish([execution]).confirmed == [execution]


def test_a_broker_that_is_away_leaves_everything_unknown(noon: datetime, publisher: Publisher, no_broker: None) -> None:
    batch = fires(2, noon)
    report = publisher.publish(batch)
    assert report.confirmed == []
    assert report.unknown == batch
    assert report.error


@pytest.mark.full
def test_a_connection_cut_behind_our_back_is_made_anew(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    first, second = fires(2, noon)
    publisher.publish([first])
    publisher._line._channel.connection.sock.close()
    assert publisher.publish([second]).unknown == [second]
    assert publisher.publish([second]).confirmed == [second]


@pytest.fixture
def sizes(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages went out at each go."""
    gone: list[int] = []
    send = publisher._send

    def count(executions: Sequence[Outgoing]) -> Sent:
        gone.append(len(executions))
        return send(executions)

    monkeypatch.setattr(publisher, "_send", count)
    return gone


def test_a_broker_that_was_away_gets_nothing_until_it_answers(
    noon: datetime, publisher: Publisher, broker: Queues, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = fires(5, noon)
    with monkeypatch.context() as away:
        away.setitem(current_app.conf, "broker_write_url", "amqp://127.0.0.1:1//")
        assert publisher.publish(batch).unknown == batch
        again = publisher.publish(batch)
    assert (again.confirmed, again.unknown) == ([], batch)
    assert again.error
    assert sizes == [5]
    assert publisher.publish(batch).confirmed == batch
    assert sizes == [5, 5]


@pytest.fixture
def line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The publisher's line to the broker, to be frozen and cut."""
    with Proxy(settings.CELERY_BROKER_URL) as proxy:
        monkeypatch.setitem(current_app.conf, "broker_write_url", proxy.url)
        yield proxy


@pytest.mark.full
def test_after_a_failure_one_message_of_each_queue_goes_ahead_and_the_others_if_it_is_confirmed(
    noon: datetime, publisher: Publisher, broker: Queues, sizes: list[int], line: Proxy
) -> None:
    batch = fires(5, noon)
    publisher.publish(batch[:1])
    line.freeze()
    sent = publisher.send(batch)
    line.cut()
    assert publisher.settle(sent).unknown == batch
    line.mend()
    report = publisher.publish(batch)
    assert [row.pk for row in report.confirmed] == [row.pk for row in batch]
    assert (report.unknown, report.held, report.error) == ([], {}, "")
    assert sizes == [1, 5, 1, 4]
    publisher.publish(batch)
    assert sizes == [1, 5, 1, 4, 5]  # in no doubt any more


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Queues whose confirms do not arrive, as from one that hangs within a broker that is well."""
    queues_: set[str] = set()
    acked = Confirms.acked

    def hear(self: Confirms, delivery_tag: int, multiple: bool) -> None:
        lost = {tag: row for tag, row in self.outstanding.items() if row.queue in queues_}
        acked(self, delivery_tag, multiple)
        self._confirmed = [row for row in self._confirmed if row.queue not in queues_]
        self.outstanding = {**lost, **self.outstanding}

    monkeypatch.setattr(Confirms, "acked", hear)
    return queues_


@pytest.mark.full
def test_a_queue_that_does_not_confirm_holds_up_its_own_executions_and_no_others(
    noon: datetime, publisher: Publisher, broker: Queues, settings: Settings, deaf: set[str], sizes: list[int]
) -> None:
    settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS = A_WHILE
    silent = outgoing(*(planned(a_job(now=noon, queue="silent"), noon) for _ in range(3)))
    ordinary = fires(2, noon)
    deaf.add("silent")
    try:
        for size in ([5], [1, 2]):  # the second time one goes ahead
            sizes.clear()
            report = publisher.publish([*silent, *ordinary])
            assert (report.confirmed, report.unknown, report.error) == (ordinary, [], "")
            assert list(report.held) == [UNCONFIRMED]
            assert {row.pk for row in report.held[UNCONFIRMED]} == {row.pk for row in silent}
            assert sizes == size
        deaf.clear()
        assert {row.pk for row in publisher.publish([*silent, *ordinary]).confirmed} == {
            row.pk for row in (*silent, *ordinary)
        }
    finally:
        broker.delete("silent")


@pytest.mark.full
@pytest.mark.parametrize("is_declared", [True, False], ids=["waiting for confirms", "declaring a queue"])
def test_a_broker_that_falls_silent_is_not_waited_for_without_end(
    noon: datetime,
    publisher: Publisher,
    broker: Queues,
    settings: Settings,
    line: Proxy,
    is_declared: bool,
) -> None:
    settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS = A_WHILE
    first, second, third = fires(3, noon)
    with ThreadPoolExecutor(1) as pool:
        assert publisher.publish([first]).confirmed == [first]
        if not is_declared:
            publisher._line._declared.clear()
        line.freeze()
        try:
            report = pool.submit(publisher.publish, [second, third]).result(timeout=15)
        finally:
            line.mend()
        assert (report.confirmed, report.unknown) == ([], [second, third])
        assert report.error
        assert publisher.publish([second, third]).confirmed == [second, third]


@pytest.mark.full
def test_a_message_whose_queue_was_deleted_is_held_and_its_queue_declared_anew(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    first, second = fires(2, noon)
    publisher.publish([first])
    broker.delete()
    report = publisher.publish([second])
    assert (report.confirmed, report.held) == ([], {UNROUTABLE: [second]})
    assert publisher.publish([second]).confirmed == [second]  # declared anew


@pytest.mark.full
def test_a_queue_with_other_arguments_holds_its_own_executions_and_no_others(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    (strange,) = outgoing(planned(a_job(now=noon, queue="strange"), noon))
    (ordinary,) = fires(1, noon)
    broker.channel.queue_declare(queues.work_queue("strange").name, durable=True, auto_delete=False)
    try:
        report = publisher.publish([strange, ordinary])
    finally:
        broker.delete("strange")
    assert report.confirmed == [ordinary]
    ((reason, held),) = report.held.items()
    assert held == [strange]
    assert "PRECONDITION_FAILED" in reason
    assert report.error == ""
    assert publisher.publish([strange]).confirmed == [strange]  # once the stranger's queue is gone
    broker.delete("strange")


@pytest.mark.full
def test_a_queue_that_is_refused_again_and_again_costs_no_more_channels(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    (strange,) = outgoing(planned(a_job(now=noon, queue="strange"), noon))
    (ordinary,) = fires(1, noon)
    publisher.publish([ordinary])
    channels = publisher._line._channel.connection.channels
    broker.channel.queue_declare(queues.work_queue("strange").name, durable=True, auto_delete=False)
    try:
        before = len(channels)
        for _ in range(3):
            assert publisher.publish([strange, ordinary]).confirmed == [ordinary]
        assert len(channels) == before
    finally:
        broker.delete("strange")


@pytest.mark.full
def test_a_dead_letter_queue_with_other_arguments_is_told_by_its_name_and_holds_up_nobody(
    noon: datetime, publisher: Publisher, broker: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    name = queues.dead_letter_queue().name
    broker.channel.queue_declare(name, durable=True, auto_delete=False, arguments={"x-max-length": 5})
    (execution,) = fires(1, noon)
    for _ in range(2):
        assert publisher.publish([execution]).confirmed == [execution]
        publisher.close()
    (said,) = [record.message for record in caplog.records]
    assert f"the queue '{name}' exists with other arguments; delete it" in said


@pytest.mark.full
def test_an_exchange_of_another_type_is_told_by_its_name(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    name = queues.exchange().name
    broker.channel.exchange_declare(name, "topic", durable=True, auto_delete=False)
    (execution,) = fires(1, noon)
    (reason,) = publisher.publish([execution]).held
    assert reason.startswith(f"the exchange '{name}' exists with other arguments; delete it")


def test_two_batches_may_be_on_their_way_at_once(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    batch = fires(6, noon)
    first, second = publisher.send(batch[:4]), publisher.send(batch[4:])
    assert {row.pk for row in publisher.settle(first).confirmed} == {row.pk for row in batch[:4]}
    assert {row.pk for row in publisher.settle(second).confirmed} == {row.pk for row in batch[4:]}
    assert len(broker.take_all()) == 6


@pytest.mark.full
def test_when_the_connection_breaks_all_batches_on_their_way_are_unknown(
    noon: datetime, publisher: Publisher, broker: Queues, line: Proxy
) -> None:
    first, second = fires(2, noon)
    publisher.publish([first])
    line.freeze()
    one, other = publisher.send([first]), publisher.send([second])
    line.cut()
    for sent, row in ((one, first), (other, second)):
        report = publisher.settle(sent)
        assert (report.confirmed, report.unknown) == ([], [row])
        assert report.error
    line.mend()
    assert publisher.publish([second]).confirmed == [second]


@pytest.mark.full
def test_who_listens_for_a_moment_decides_nothing_but_that_a_line_is_gone(
    noon: datetime, line: Proxy, publisher: Publisher, broker: Queues
) -> None:
    first, second = fires(3, noon), fires(3, noon)
    publisher.publish(fires(1, noon))
    line.freeze()
    sent = publisher.send(first)
    publisher.listen(sent, seconds=0.01)
    assert (sent.error, len(sent.confirms.outstanding)) == ("", 3)
    line.mend()
    assert publisher.settle(sent).confirmed == first
    line.freeze()
    sent = publisher.send(second)
    line.cut()
    publisher.listen(sent, seconds=A_WHILE)
    assert sent.error
    assert publisher.settle(sent).unknown == second


@pytest.mark.full
def test_a_queue_that_is_refused_costs_no_confirm_of_the_batch_before(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    (strange,) = outgoing(planned(a_job(now=noon, queue="strange"), noon))
    ordinary = fires(3, noon)
    broker.channel.queue_declare(queues.work_queue("strange").name, durable=True, auto_delete=False)
    try:
        one, other = publisher.send(ordinary), publisher.send([strange])
        assert publisher.settle(one).confirmed == ordinary
        assert list(publisher.settle(other).held.values()) == [[strange]]
    finally:
        broker.delete("strange")


@pytest.mark.embedded
def test_a_broker_folder_that_was_deleted_is_an_error_and_then_made_anew(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    first, second = fires(2, noon)
    publisher.publish([first])
    broker.delete()
    report = publisher.publish([second])
    assert (report.confirmed, report.unknown) == ([], [second])
    assert "no queue is bound" in report.error
    assert publisher.publish([second]).confirmed == [second]
    assert broker.take().headers["id"] == str(second.pk)
