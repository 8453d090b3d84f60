"""Two who deal with the same dead letters at once: each is replayed, discarded, published or collected once."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from executions import concurrency, dead_letters, lifecycle, queues
from executions.dead_letters import Collected, Matching, collect
from executions.models import Attempt, DeadMessage, Execution
from executions.states import State, Trigger
from jobs.models import Job
from tests import rows
from tests.integration import conftest as of_integration
from tests.integration.conftest import Queues
from tests.integration.rejecting import Rejecting
from tests.making import a_job, claimed, planned, seconds
from tests.races.connections import elsewhere, several, waits_for_us

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
broker = of_integration.broker
NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
ROUNDS = 6


@pytest.fixture
def job() -> Job:
    return a_job(now=NOW, max_attempts=1)


@pytest.fixture
def rejecting(broker: Queues) -> Rejecting:
    return Rejecting(broker)


def dead(job: Job, count: int, *, start: int = 0) -> list[Execution]:
    made = [planned(job, NOW + seconds(start + number)) for number in range(count)]
    for execution in made:
        lifecycle.fail(claimed(execution, now=NOW), error="boom", now=NOW)
    return made


def replay() -> int:
    return dead_letters.replay_matching(Matching(), now=LATER, note="replayed").count


def discard() -> int:
    return dead_letters.discard(Matching(), note="discarded", now=LATER)


def test_two_who_replay_the_same_at_once_replay_each_once(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "_PER_TRANSACTION", 4)
    with several(2) as start_both:
        for number in range(ROUNDS):
            originals = dead(job, 10, start=10 * number)
            assert sum(start_both(replay, replay)) == 10
            replayed = Counter(row.replay_of for row in rows.of(job, trigger=Trigger.REPLAY))
            assert {replayed[original.pk] for original in originals} == {1}


@pytest.mark.parametrize("act", [replay, discard])
def test_who_comes_second_waits_and_finds_them_handled(job: Job, act: Callable[[], int]) -> None:
    dead(job, 2)
    with transaction.atomic():
        assert replay() == 2
        second = waits_for_us(act)
    assert second.result(timeout=20) == 0
    assert {row.handled_note for row in rows.of(job, state=State.DEAD)} == {"replayed"}


def test_of_a_replay_and_a_discard_at_once_each_dead_letter_gets_one(job: Job) -> None:
    with several(2) as start_both:
        for number in range(ROUNDS):
            dead(job, 5, start=5 * number)
            assert sum(start_both(replay, discard)) == 5
    replayed = {row.replay_of for row in rows.of(job, trigger=Trigger.REPLAY)}
    noted = {row.pk for row in rows.of(job, state=State.DEAD) if row.handled_note == "replayed"}
    assert replayed == noted


def test_two_who_collect_at_once_take_each_message_once(job: Job, rejecting: Rejecting) -> None:
    with several(2) as start_both:
        for number in range(ROUNDS):
            executions = [planned(job, NOW + seconds(10 * number + each)) for each in range(5)]
            for execution in executions:
                rejecting.publish_execution(execution)
                rejecting.publish_task(f"task.{execution.pk}")
            rejecting.reject()
            both = start_both(*[partial(collect, LATER)] * 2)
            assert (sum(one.kept for one in both), sum(one.ended for one in both)) == (5, 5)
            assert rejecting.count() == 0
    assert (DeadMessage.objects.count(), Attempt.objects.count()) == (5 * ROUNDS, 5 * ROUNDS)
    assert {row.state for row in rows.of(job)} == {State.DEAD}


def test_two_copies_of_a_message_that_are_collected_at_once_end_one_attempt(rejecting: Rejecting) -> None:
    job = a_job(now=NOW, max_attempts=9)
    with several(2) as start_both:
        for number in range(ROUNDS):
            execution = planned(job, NOW + seconds(number))
            for _ in range(2):
                rejecting.publish_execution(execution)
            rejecting.reject()
            start_both(*[partial(collect, LATER, most=1)] * 2)
            collect(LATER)  # whichever found the row held left its copy
            execution.refresh_from_db()
            assert (execution.state, execution.attempt) == (State.SCHEDULED, 2)


def test_an_execution_that_an_app_holds_is_not_waited_for_and_comes_next_time(
    job: Job, rejecting: Rejecting, caplog: pytest.LogCaptureFixture
) -> None:
    held, free = planned(job, NOW), planned(job, NOW + seconds(1))
    for execution in (held, free):
        rejecting.publish_execution(execution)
    rejecting.reject()
    with transaction.atomic():
        list(Execution.objects.with_id(held.pk).select_for_update())
        assert elsewhere(partial(collect, LATER)) == Collected(ended=1, left=1)
    assert "could not be collected" not in caplog.text  # as it would be after a wait in vain
    rejecting.wait_for(1)
    assert collect(LATER) == Collected(ended=1)


def test_a_job_with_a_limit_that_an_app_holds_is_not_waited_for(
    rejecting: Rejecting, caplog: pytest.LogCaptureFixture
) -> None:
    job = a_job(now=NOW, max_concurrency=1, max_attempts=1)
    rejecting.publish_execution(planned(job, NOW))
    rejecting.reject()
    with transaction.atomic():
        concurrency.lock([job.pk])
        assert elsewhere(partial(collect, LATER)) == Collected(left=1)
    assert "could not be collected" not in caplog.text
    rejecting.wait_for(1)
    assert collect(LATER) == Collected(ended=1)
    (row,) = rows.of(job)
    assert row.state == State.DEAD


def test_a_full_queues_execution_that_an_app_holds_comes_next_time(broker: Queues, rejecting: Rejecting) -> None:
    job = a_job(now=NOW)
    held, free, last = (planned(job, NOW + seconds(number)) for number in range(3))
    lifecycle.mark_queued([held, free, last], now=LATER)
    rejecting.declare("small", {"x-max-length": 1})
    try:
        for execution in (held, free, last):
            rejecting.publish_execution(execution, queue="small")
        rejecting.wait_for(2)
    finally:
        broker.delete("small")
    with transaction.atomic():
        list(Execution.objects.with_id(held.pk).select_for_update())
        assert elsewhere(partial(collect, LATER)) == Collected(held=1, left=2)
    rejecting.wait_for(2)
    assert collect(LATER) == Collected(held=1, dropped=1)
    assert [row.state for row in rows.of(job)] == [State.SCHEDULED, State.SCHEDULED, State.QUEUED]


def test_two_who_publish_a_message_again_at_once_publish_it_once(rejecting: Rejecting) -> None:
    queue = queues.work_queue("default").name
    with several(2) as start_both:
        for number in range(ROUNDS):
            message = DeadMessage.objects.create(
                digest=str(number), queue=queue, body=b"x", error="x", fingerprint="x", collected_at=NOW
            )
            act = partial(dead_letters.replay_messages, [message.pk], now=LATER)
            answers = start_both(act, act)
            assert sorted(len(answer.replayed) for answer in answers) == [0, 1]
            assert len(rejecting.work()) == 1
