"""A message that the broker lost is published again; a long line is no loss."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from celery import current_app
from django.conf import settings

from beat.upkeep.lost_messages import REASON, return_lost_messages
from chaos.proxy import Proxy
from executions import depths, lifecycle
from executions.dispatch import Publisher
from executions.models import Execution
from executions.states import State
from tests.integration.conftest import Queues
from tests.making import a_job, a_ticker, claimed, planned, seconds

pytestmark = pytest.mark.django_db

LONG = seconds(61)


@pytest.fixture
def published(noon: datetime, publisher: Publisher, broker: Queues) -> Execution:
    """QUEUED at noon, with its message in the queue."""
    execution = planned(a_job(now=noon), noon)
    assert a_ticker(publisher).tick(noon).published == 1
    return execution


def now_of(execution: Execution) -> tuple[str, str, int]:
    execution.refresh_from_db()
    return execution.state, execution.reason, execution.attempt


def test_a_backlog_that_merely_waits_is_left_alone(published: Execution, noon: datetime) -> None:
    assert return_lost_messages(noon + seconds(86_400)) == 0
    assert now_of(published) == (State.QUEUED, "", 1)


def test_an_execution_whose_message_is_gone_is_published_again(
    published: Execution, noon: datetime, publisher: Publisher, broker: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    assert broker.take() is not None
    assert return_lost_messages(noon + LONG) == 1
    assert now_of(published) == (State.SCHEDULED, REASON, 1)
    assert caplog.messages == ["messages were lost: their executions are published again  queue=default count=1"]
    assert a_ticker(publisher).tick(noon + LONG).published == 1
    assert now_of(published) == (State.QUEUED, "", 1)
    assert broker.take().headers["id"] == str(published.pk)


def test_one_that_was_published_a_moment_ago_is_left_alone(
    published: Execution, noon: datetime, broker: Queues
) -> None:
    broker.take()
    assert return_lost_messages(noon + seconds(59)) == 0
    assert now_of(published) == (State.QUEUED, "", 1)


def test_one_that_runs_is_left_alone(published: Execution, noon: datetime, broker: Queues) -> None:
    broker.take()
    claimed(published, now=noon + seconds(1))
    assert return_lost_messages(noon + LONG) == 0
    assert now_of(published)[0] == State.RUNNING


def test_the_messages_of_a_queue_that_was_deleted_are_lost(
    published: Execution, noon: datetime, broker: Queues
) -> None:
    broker.delete()
    assert return_lost_messages(noon + LONG) == 1


def test_each_queue_is_looked_at_by_itself(
    published: Execution, noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    other = planned(a_job(now=noon, queue="other"), noon)
    try:
        a_ticker(publisher).tick(noon)
        broker.take("other")
        assert return_lost_messages(noon + LONG) == 1
        assert (now_of(other)[0], now_of(published)[0]) == (State.SCHEDULED, State.QUEUED)
    finally:
        broker.delete("other")


def test_a_message_that_was_lost_again_and_again_keeps_its_attempt(
    published: Execution, noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    for number in (1, 2, 3):
        broker.take()
        assert return_lost_messages(noon + number * LONG) == 1
        a_ticker(publisher).tick(noon + number * LONG)
    assert now_of(published) == (State.QUEUED, "", 1)


def test_a_great_loss_comes_back_in_parts_the_longest_lost_first(
    noon: datetime, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beat.upkeep.lost_messages._AT_ONCE", 2)
    job = a_job(now=noon)
    rows = [planned(job, noon + seconds(number)) for number in range(5)]
    for row in reversed(rows):
        lifecycle.mark_queued([row], now=row.fire_time)
    parts: list[list[uuid.UUID]] = []
    hold = lifecycle.hold
    monkeypatch.setattr(
        lifecycle, "hold", lambda part, **more: parts.append([r.pk for r in part]) or hold(part, **more)
    )
    assert return_lost_messages(noon + 2 * LONG) == 5
    assert parts == [[row.pk for row in part] for part in (rows[:2], rows[2:4], rows[4:])]
    assert {now_of(row)[0] for row in rows} == {State.SCHEDULED}


def test_a_broker_that_does_not_answer_proves_no_loss(
    published: Execution, noon: datetime, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.take()
    monkeypatch.setitem(current_app.conf, "broker_read_url", "amqp://127.0.0.1:1//")
    assert return_lost_messages(noon + LONG) == 0
    assert now_of(published) == (State.QUEUED, "", 1)


@pytest.mark.full
def test_a_broker_that_falls_silent_in_the_middle_of_the_question_holds_nobody_up(
    broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rescue and all other duties wait behind this one."""
    with Proxy(settings.CELERY_BROKER_URL) as line, ThreadPoolExecutor(1) as pool:
        monkeypatch.setitem(current_app.conf, "broker_read_url", line.url)
        monkeypatch.setattr(depths, "ANSWER_SECONDS", 0.3)
        ask = depths._ready

        def ask_the_silent(connection: object, name: str) -> int:
            line.freeze()
            return ask(connection, name)  # type: ignore[arg-type]

        monkeypatch.setattr(depths, "_ready", ask_the_silent)
        try:
            assert pool.submit(depths.ready, ["default"]).result(timeout=10) == {}
        finally:
            line.cut()  # or the one that hangs would hold up the test's end
