"""A tick that has much to do: how batches flow, in which order, and what an error in the middle of them leaves."""

from collections.abc import Sequence
from datetime import datetime

import pytest

from beat.planning import Planned
from executions import lifecycle
from executions.confirms import Confirms, Report
from executions.dispatch import Publisher, Sent
from executions.models import Execution
from executions.outgoing import Outgoing
from executions.states import State
from tests.integration.conftest import Queues
from tests.making import AnsweringPublisher, a_job, a_ticker, every_minute, planned, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far a tick comes before it looks at the clock depends on the machine: who tries that sets these limits."""
    monkeypatch.setattr("beat.tick._PLAN_FOR_SECONDS", 60)
    monkeypatch.setattr("beat.tick._PATIENCE_SECONDS", 60)


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


def test_a_tick_with_too_much_to_do_ends_and_asks_for_another_at_once(
    noon: datetime, publisher: Publisher, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        a_job(now=noon, schedule=every_minute(noon))
    monkeypatch.setattr("beat.tick._PLAN_FOR_SECONDS", 0)
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
    monkeypatch.setattr("beat.tick._PLAN_FOR_SECONDS", 0)
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
    monkeypatch.setattr("beat.tick._PLAN_FOR_SECONDS", 0)
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
