"""A tick publishes what is due, most urgent first, and believes only the broker's confirm."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from celery import current_app
from django.conf import settings

from beat.lease import Leases, execution_key
from beat.members import Members
from beat.shards import ALL, COUNT, Shards
from executions.confirms import NACKED, Report
from executions.dispatch import Publisher
from executions.models import Execution
from executions.outgoing import Due, Outgoing
from executions.redis_link import RedisLink
from executions.states import State
from jobs.recurrence import Once
from tests.integration.conftest import Queues
from tests.making import AnsweringPublisher, a_job, a_ticker, every_minute, planned, seconds

pytestmark = pytest.mark.django_db


def test_a_due_schedule_is_planned_and_published_in_one_tick(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    report = a_ticker(publisher).tick(noon + seconds(60))
    assert (report.planned, report.published) == (1, 1)
    execution = Execution.objects.get()
    assert execution.state == State.QUEUED
    assert broker.take().headers["id"] == str(execution.pk)


def test_a_broker_that_is_away_leaves_executions_to_be_published_later(
    noon: datetime, publisher: Publisher, no_broker: None
) -> None:
    execution = planned(a_job(now=noon), noon)
    assert a_ticker(publisher).tick(noon).published == 0
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (State.SCHEDULED, 1)
    assert list(Execution.objects.due(noon)) == [execution]


def test_a_broker_that_is_away_is_told_once_and_so_is_its_return(
    noon: datetime,
    publisher: Publisher,
    broker: Queues,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    planned(a_job(now=noon), noon)
    caplog.set_level("INFO", logger="onbeat")
    one = a_ticker(publisher)
    with monkeypatch.context() as away:
        away.setitem(current_app.conf, "broker_write_url", "amqp://127.0.0.1:1//")
        one.tick(noon)
        one.tick(noon + seconds(1))
    one.tick(noon + seconds(2))
    said = [record.message.split("  ")[0] for record in caplog.records if record.name == "onbeat"]
    assert said == [
        "the broker is away: executions wait in the database",
        "the broker is back: waiting executions are published",
    ]


def test_while_the_broker_is_away_what_waits_for_it_is_not_read_again_and_again(
    noon: datetime, publisher: Publisher, no_broker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(a_job(now=noon), noon)
    one = a_ticker(publisher)
    one.tick(noon)
    assert one.is_broker_away
    read: list[datetime] = []
    monkeypatch.setattr(one, "_find_due", lambda now, *_: read.append(now) or [])
    one.tick(noon + seconds(1))
    assert (read, one.is_broker_away) == ([], True)


@pytest.mark.full
def test_an_unroutable_execution_says_so_and_is_tried_again_later(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    one = a_ticker(publisher)
    planned(a_job(now=noon), noon)
    one.tick(noon)
    broker.delete()  # behind the publisher's back, which has declared it
    execution = planned(a_job(now=noon), noon + seconds(1))
    one.tick(noon + seconds(1))
    execution.refresh_from_db()
    assert (execution.state, execution.reason) == (State.SCHEDULED, "no queue takes its message")
    assert execution.available_at > noon + seconds(1)


def test_a_one_off_is_not_sent_again_by_a_beat_that_starts_right_after(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    a_job(now=noon, schedule=Once(noon + seconds(1)))
    assert a_ticker(publisher).tick(noon + seconds(1)).published == 1
    for later in (1, 2, 10):
        assert a_ticker(publisher).tick(noon + seconds(later)).published == 0
    assert len(broker.take_all()) == 1


def test_a_beat_publishes_for_its_shards_and_leaves_the_others(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    ours, theirs = (planned(a_job(now=noon), noon) for _ in range(2))
    one = a_ticker(publisher)
    one.shards = Shards("me", linger=seconds(0))
    one.shards.planning = frozenset({ours.job_id % 64})
    assert one.tick(noon).published == 1
    assert list(Execution.objects.due(noon)) == [theirs]


def test_what_is_not_due_yet_is_not_published_and_says_when_to_come_back(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    planned(a_job(now=noon), noon + seconds(3))
    report = a_ticker(publisher).tick(noon)
    assert report.published == 0
    assert report.next_available_at == noon + seconds(3)


def test_a_full_batch_that_gets_nowhere_does_not_spin(noon: datetime, publisher: Publisher, no_broker: None) -> None:
    for _ in range(3):
        planned(a_job(now=noon), noon)
    one = a_ticker(publisher, batch_size=2)
    assert not one.tick(noon).has_more
    assert one.is_broker_away
    assert not one.tick(noon).has_more  # nor while it is known to be away


@pytest.mark.full
def test_what_other_beats_hold_does_not_fill_the_batch(noon: datetime, publisher: Publisher, broker: Queues) -> None:
    theirs = [planned(a_job(now=noon, priority=9), noon) for _ in range(4)]
    ours = planned(a_job(now=noon, priority=0), noon)
    link = RedisLink(settings.REDIS_URL, prefix=settings.ONBEAT_EXECUTIONS_PREFIX)
    Members(link, beat="other").renew()
    Leases(link, holder="other", life=seconds(10)).take([execution_key(row) for row in theirs])
    one = a_ticker(publisher, batch_size=2)
    one.leases = Leases(link, holder="me", life=seconds(10))
    report = one.tick(noon)
    assert (report.published, report.has_more) == (1, False)
    ours.refresh_from_db()
    assert ours.state == State.QUEUED


@pytest.mark.full
def test_a_queue_that_takes_nothing_is_told_once_in_the_log_and_so_is_its_return(
    noon: datetime, publisher: Publisher, broker: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    broker.channel.queue_declare(f"{settings.ONBEAT_EXECUTIONS_PREFIX}default", durable=True, auto_delete=False)
    execution = planned(a_job(now=noon), noon)
    one = a_ticker(publisher)
    caplog.set_level("INFO", logger="onbeat")
    for second in (0, 6, 12):
        one.tick(noon + seconds(second))
    execution.refresh_from_db()
    assert execution.reason.startswith(f"the queue '{settings.ONBEAT_EXECUTIONS_PREFIX}default' exists with other")
    assert [record.message.split("  ")[0] for record in caplog.records] == ["executions are held back"]
    caplog.clear()
    broker.delete()
    assert one.tick(noon + seconds(18)).published == 1
    assert [record.message for record in caplog.records] == ["a queue takes messages again  queue=default"]


def test_what_other_beats_should_have_published_is_published_when_it_is_overdue(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    execution = planned(a_job(now=noon), noon)
    one = a_ticker(publisher)
    one.shards.planning = ALL - {execution.job_id % COUNT}
    assert one.tick(noon + seconds(2)).published == 0
    assert one.tick(noon + seconds(4)).published == 1


class Refusing(AnsweringPublisher):
    """Of one queue it takes nothing, as a broker does whose queue is full."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def answer(self, executions: Sequence[Outgoing]) -> Report:
        self.asked += [row.queue for row in executions]
        full = [row for row in executions if row.queue == "full"]
        return Report(confirmed=[row for row in executions if row not in full], held={NACKED: full} if full else {})


def test_a_queue_that_takes_nothing_does_not_keep_the_others_waiting(noon: datetime) -> None:
    for _ in range(5):
        planned(a_job(now=noon, queue="full", priority=9), noon)
    other = planned(a_job(now=noon, queue="other", priority=0), noon)
    assert a_ticker(Refusing(), batch_size=2).tick(noon).published == 1
    other.refresh_from_db()
    assert other.state == State.QUEUED
    reasons = set(Execution.objects.filter(queue="full").values_list("state", "reason"))
    assert reasons == {(State.SCHEDULED, NACKED)}


def test_a_backlog_of_a_queue_that_takes_nothing_is_passed_by_until_it_is_time_to_look_again(noon: datetime) -> None:
    for _ in range(20):
        planned(a_job(now=noon, queue="full", priority=9), noon)
    publisher = Refusing()
    one = a_ticker(publisher, batch_size=2)
    one.tick(noon)
    assert len(publisher.asked) == 2  # what the answer to the first batch tells is known to the next
    for second in (1, 2, 3):
        late = planned(a_job(now=noon, queue="other", priority=0), noon + seconds(second))
        one.tick(noon + seconds(second))
        late.refresh_from_db()
        assert late.state == State.QUEUED
    assert publisher.asked.count("full") == 2
    one.tick(noon + seconds(6))
    assert publisher.asked.count("full") == 4


def test_what_others_left_lying_is_seen_although_our_own_comes_soon(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    ours, theirs = a_job(now=noon), a_job(now=noon)
    planned(ours, noon + seconds(9))
    planned(theirs, noon - seconds(30))
    one = a_ticker(publisher)
    one.shards.planning = frozenset({ours.pk % COUNT})
    report = one.tick(noon)
    assert (report.published, report.next_available_at) == (1, noon + seconds(9))


@pytest.mark.full
def test_what_another_beat_has_sent_between_our_look_and_our_lease_is_not_sent_again(
    noon: datetime, publisher: Publisher, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(a_job(now=noon), noon)
    slow, other = a_ticker(publisher), a_ticker(publisher)
    find = slow._find_due

    def find_slowly(*words: Any) -> list[Due]:
        found = find(*words)
        assert other.tick(noon).published == 1
        return found

    monkeypatch.setattr(slow, "_find_due", find_slowly)
    assert slow.tick(noon).published == 0
    assert len(broker.take_all()) == 1


def test_in_a_busy_time_not_each_tick_plans_unless_the_beat_has_other_shards(noon: datetime) -> None:
    one = a_ticker(AnsweringPublisher())
    one.plan_every = seconds(0.5)
    one.tick(noon)
    job = a_job(now=noon, schedule=every_minute(noon))
    late = noon + seconds(57)
    one.tick(late)
    assert Execution.objects.count() == 1
    other = a_job(now=noon, schedule=every_minute(noon))
    one.tick(late + seconds(0.4))
    assert not Execution.objects.filter(job=other).exists()
    one.tick(late + seconds(0.5))
    assert Execution.objects.filter(job=other).exists()
    third = a_job(now=noon, schedule=every_minute(noon))
    one.shards.planning = ALL - {job.pk % COUNT}
    one.tick(late + seconds(0.6))
    assert Execution.objects.filter(job=third).exists()


def test_a_clock_that_is_set_back_does_not_keep_a_tick_from_planning(noon: datetime) -> None:
    one = a_ticker(AnsweringPublisher())
    one.plan_every = seconds(0.5)
    one.tick(noon + seconds(3600))
    a_job(now=noon, schedule=every_minute(noon))
    one.tick(noon + seconds(57))
    assert Execution.objects.count() == 1
