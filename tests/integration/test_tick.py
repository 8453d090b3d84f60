"""A tick publishes what is due, most urgent first, and believes only the broker's confirm."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from celery import current_app
from django.conf import settings

from beat.lease import Leases, execution_key
from beat.members import Members
from beat.planning import Planned
from beat.shards import ALL, COUNT, Shards
from executions import lifecycle
from executions.confirms import NACKED, Confirms, Report
from executions.dispatch import Publisher, Sent
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


def test_in_a_burst_the_most_urgent_of_all_are_published_first(
    noon: datetime, publisher: Publisher, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    for priority in (0, 9, 5, 7, 3):
        a_job(now=noon, priority=priority, schedule=every_minute(noon))
    sent: list[int] = []
    send = publisher.send
    monkeypatch.setattr(publisher, "send", lambda rows: sent.extend(row.priority for row in rows) or send(rows))
    report = a_ticker(publisher, batch_size=2).tick(noon + seconds(60))
    assert sent == [9, 7, 5, 3, 0]
    assert (report.planned, report.published, report.has_more) == (5, 5, False)
    assert len(broker.take_all()) == 5  # none was read again while it was on its way


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


def test_a_tick_with_too_much_to_do_ends_and_asks_for_another_at_once(
    noon: datetime, publisher: Publisher, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        a_job(now=noon, schedule=every_minute(noon))
    monkeypatch.setattr("beat.tick._PLAN_FIRST_SECONDS", 0)
    monkeypatch.setattr("beat.tick._PATIENCE_SECONDS", 0)
    one = a_ticker(publisher, batch_size=2)
    first, second = one.tick(noon + seconds(60)), one.tick(noon + seconds(60))
    assert (first.planned, first.published, first.has_more) == (2, 2, True)
    assert (second.planned, second.published, second.has_more) == (1, 1, False)


def test_a_beat_that_is_told_to_stop_ends_its_tick_after_the_batch_in_hand(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    for _ in range(5):
        a_job(now=noon, schedule=every_minute(noon))
    one = a_ticker(publisher, batch_size=2)
    one.is_stopping = lambda: True
    report = one.tick(noon + seconds(60))
    assert (report.planned, report.published) == (2, 2)


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


def test_an_error_in_the_middle_of_a_burst_leaves_nothing_on_its_way(
    noon: datetime, publisher: Publisher, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        planned(a_job(now=noon), noon)
    one = a_ticker(publisher, batch_size=2)
    take = one.leases.take
    with monkeypatch.context() as broken:
        answers = iter([take, None])
        broken.setattr(one.leases, "take", lambda keys: next(answers)(keys))
        with pytest.raises(TypeError):
            one.tick(noon)
    assert publisher._unsettled == []
    one.tick(noon + seconds(1))
    assert Execution.objects.filter(state=State.QUEUED).count() == 3


def test_a_line_that_an_error_left_half_open_is_made_anew(
    noon: datetime, publisher: Publisher, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(a_job(now=noon), noon)
    one = a_ticker(publisher)
    with monkeypatch.context() as broken:
        broken.setattr("executions.broker_line.BrokerLine._prepare_channel", None)
        with pytest.raises(TypeError):
            one.tick(noon)
    assert one.tick(noon + seconds(1)).published == 1


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


class Slow(AnsweringPublisher):
    """Says nothing of a batch until somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def send(self, executions: Sequence[Outgoing]) -> Sent:
        self.steps.append("send")
        sent = Sent(Confirms(executions), ahead=self.answer(executions))
        for tag, row in enumerate(executions):
            sent.confirms.sent(tag, row)
        return sent

    def listen(self, sent: Sent, *, seconds: float) -> None:
        self.steps.append("listen")

    def settle(self, sent: Sent) -> Report:
        self.steps.append("settle")
        return super().settle(sent)


def test_batches_are_sent_while_others_are_on_their_way_but_not_without_end(noon: datetime) -> None:
    for _ in range(12):
        planned(a_job(now=noon), noon)
    slow = Slow()
    assert a_ticker(slow, batch_size=2).tick(noon).published == 12
    assert slow.steps == ["send"] * 4 + ["settle", "send"] * 2 + ["settle"] * 4


def test_what_is_on_its_way_is_not_looked_at_again_when_more_is_planned(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look passes by what was sent and is not written down, as long as something is planned meanwhile."""
    for _ in range(7):
        a_job(now=noon, schedule=every_minute(noon))
    monkeypatch.setattr("beat.tick._PLAN_FIRST_SECONDS", 0)
    slow = Slow()
    report = a_ticker(slow, batch_size=2).tick(noon + seconds(60))
    assert (report.planned, report.published, report.has_more) == (7, 7, False)
    assert slow.steps.count("send") == 4  # and none of them twice


def test_a_schedule_that_somebody_holds_does_not_keep_a_tick_going(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning says that there is more, and brings nothing: the tick ends, and leaves it to the next."""
    one = a_ticker(AnsweringPublisher())
    asked: list[datetime] = []
    monkeypatch.setattr(
        one.planner, "plan_due", lambda now, among: asked.append(now) or Planned(fires=0, has_more=len(asked) < 99)
    )
    monkeypatch.setattr("beat.tick._PLAN_FIRST_SECONDS", 0)
    assert one.tick(noon).has_more
    assert len(asked) == 2


class Failing(AnsweringPublisher):
    """Takes nothing, as a broker that goes away in the middle of a batch."""

    def answer(self, executions: Sequence[Outgoing]) -> Report:
        return Report(unknown=list(executions), error="gone")


def test_a_broker_that_fails_with_the_last_batch_is_not_told_to_be_back(
    noon: datetime, caplog: pytest.LogCaptureFixture
) -> None:
    """A full batch makes the beat look for another, which is empty and proves nothing."""
    for _ in range(2):
        planned(a_job(now=noon), noon)
    caplog.set_level("INFO", logger="onbeat")
    one = a_ticker(Failing(), batch_size=2)
    one.tick(noon)
    assert one.is_broker_away
    assert [record.message.split("  ")[0] for record in caplog.records] == [
        "the broker is away: executions wait in the database"
    ]


def test_what_is_queued_bears_the_moment_of_its_confirm_and_not_that_of_the_tick(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = iter([10.0])

    class SlowBroker(AnsweringPublisher):
        def settle(self, sent: Sent) -> Report:
            one._began -= next(passed)
            return super().settle(sent)

    execution = planned(a_job(now=noon), noon)
    one = a_ticker(SlowBroker())
    one.tick(noon)
    execution.refresh_from_db()
    assert execution.queued_at is not None
    assert seconds(10) <= execution.queued_at - noon < seconds(20)


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


def test_workers_that_begin_before_their_rows_are_marked_do_not_make_a_burst_rest(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FastWorkers(AnsweringPublisher):
        def settle(self, sent: Sent) -> Report:
            report = super().settle(sent)
            for row in report.confirmed:
                assert lifecycle.claim(row.pk, row.attempt, worker="fast@here", now=noon)
            return report

    monkeypatch.setattr("beat.tick._PATIENCE_SECONDS", 0)
    for _ in range(3):
        planned(a_job(now=noon), noon)
    one = a_ticker(FastWorkers(), batch_size=2)
    assert one.tick(noon).has_more
    assert not one.tick(noon).has_more
    assert Execution.objects.running().count() == 3
