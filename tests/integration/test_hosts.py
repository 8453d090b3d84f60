"""How many calls a host gets, when it rests, and how those that wait come back."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from callbacks import hosts
from callbacks.hosts import NotNow, take
from callbacks.models import Host, HostCall
from executions import lifecycle
from executions.models import Attempt, Execution
from executions.retry import RetryPolicy
from executions.states import State
from jobs import runs
from tests.calling_back import a_callback, called
from tests.delivering import deliver
from tests.making import a_job, claimed, planned
from tests.receiver import answer, receiving

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("loopback_may_be_called")]
SHOP = "https://shop.example"
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _two_at_once(settings: Any) -> None:
    settings.ONBEAT_CALLBACKS_PER_HOST = 2


def taken(now: datetime, execution: uuid.UUID | None = None, *, seconds: float = 30) -> Any:
    return take(SHOP, execution or uuid.uuid4(), 1, seconds=seconds, now=now)


def failed(now: datetime, times: int = hosts.FAILURES_UNTIL_REST) -> Host:
    for _ in range(times):
        hosts.went_wrong(SHOP, "it answered 500", began=now, now=now)
    return Host.objects.get()


# ── Places ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_gives_its_place_back(noon: datetime) -> None:
    called(noon=noon)
    assert (Host.objects.count(), HostCall.objects.count()) == (1, 0)


def test_what_finds_no_place_waits_with_its_attempt(noon: datetime, settings: Any) -> None:
    settings.ONBEAT_CALLBACKS_PER_HOST = 1
    with receiving() as receiver:
        execution = planned(a_callback(receiver, now=noon), noon)
        host = Host.objects.create(origin=receiver.url("").rstrip("/"), used_at=noon)
        later = datetime.now(UTC) + timedelta(hours=1)
        HostCall.objects.create(host=host, execution_id=uuid.uuid4(), attempt=1, taken_at=later, until=later)
        deliver(execution)
        assert (execution.state, execution.attempt, receiver.connections) == (State.SCHEDULED, 1, 0)
        assert execution.reason == f"waits: 1 at once may call {host.origin}"
        HostCall.objects.all().delete()
        Execution.objects.update(available_at=noon)  # its time has come
        deliver(execution)
    assert (execution.state, Attempt.objects.count()) == (State.SUCCEEDED, 1)


def test_a_place_is_free_again_when_its_time_is_over(noon: datetime) -> None:
    assert isinstance(taken(noon, seconds=1), HostCall)
    assert isinstance(taken(noon, seconds=1), HostCall)
    assert isinstance(taken(noon + 60 * SECOND), NotNow | HostCall)
    assert isinstance(taken(noon + 61 * SECOND), HostCall)


def test_the_place_of_a_dead_worker_is_free_when_its_attempt_is_over(noon: datetime) -> None:
    job = a_job(now=noon)
    running, lost = planned(job, noon), planned(job, noon + SECOND)
    for execution in (running, lost):
        claimed(execution, now=noon)
        assert isinstance(taken(noon, execution.pk, seconds=3600), HostCall)
    Execution.objects.filter(pk=lost.pk).update(attempt=2, state=State.SCHEDULED)
    assert isinstance(taken(noon + 5 * SECOND), NotNow)  # it may not have been claimed yet
    assert isinstance(taken(noon + 10 * SECOND), HostCall)
    assert isinstance(taken(noon + 20 * SECOND), HostCall)  # that one was never claimed
    assert set(HostCall.objects.values_list("execution_id", flat=True)) >= {running.pk}


def test_another_copy_of_the_same_message_needs_no_second_place(noon: datetime) -> None:
    execution = uuid.uuid4()
    assert isinstance(taken(noon, execution), HostCall)
    assert taken(noon, execution) is None
    assert HostCall.objects.count() == 1


def test_those_who_wait_come_back_in_a_line(noon: datetime) -> None:
    for _ in range(2):
        taken(noon)
    turns = [taken(noon).until for _ in range(40)]
    assert turns[0] == noon + 2 * SECOND
    assert turns == sorted(turns)
    assert turns[-1] - turns[20] == pytest.approx(19 * SECOND / 2 / 2, abs=SECOND)  # two places, twice as many comers


def test_the_line_of_a_fast_host_is_short(noon: datetime) -> None:
    for _ in range(30):
        taken(noon).delete()
        hosts.went_well(SHOP, seconds=0.1, now=noon)
    for _ in range(2):
        taken(noon)
    turns = [taken(noon).until for _ in range(200)]
    assert turns[-1] - noon < 10 * SECOND


def test_a_run_that_was_moved_is_not_pulled_back_by_an_old_message(noon: datetime) -> None:
    execution_id = runs.run(a_job(now=noon), delay=timedelta(hours=1), now=noon).execution_id
    tomorrow = noon + timedelta(days=1)
    assert lifecycle.move(execution_id, to=tomorrow, now=noon)
    assert not lifecycle.postpone(execution_id, 1, reason="full", until=noon + SECOND, now=noon)
    assert Execution.objects.get(pk=execution_id).available_at == tomorrow


def test_what_is_postponed_is_due_later_than_anybody_publishes_ahead(noon: datetime) -> None:
    from executions.at_once import HEAD_START

    execution = planned(a_job(now=noon), noon)
    assert lifecycle.postpone(execution.pk, 1, reason="full", until=noon, now=noon)
    execution.refresh_from_db()
    assert execution.available_at > noon + HEAD_START


# ── Rests ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failing_host_rests_visibly_and_burns_no_attempts(noon: datetime) -> None:
    with receiving(*[answer(500)] * 6, answer(200)) as receiver:
        job = a_callback(receiver, now=noon, retry=RetryPolicy(max_attempts=1))
        executions = [planned(job, noon + timedelta(minutes=n)) for n in range(9)]
        for execution in executions[:7]:
            deliver(execution)
        assert [execution.state for execution in executions[:5]] == [State.DEAD] * 5
        waiting = executions[5]
        assert (waiting.state, waiting.attempt, len(receiver.sent)) == (State.SCHEDULED, 1, 5)
        assert "rests until" in waiting.reason
        assert "5 failures in a row, the last: it answered 500 Internal Server Error" in waiting.reason
        assert waiting.available_at == Host.objects.get().rests_until
        assert executions[6].available_at > waiting.available_at
        # After its rest one call is tried; it fails, and the host rests for longer.
        Host.objects.update(rests_until=noon)
        deliver(executions[7])
        assert executions[7].state == State.DEAD
        longer = Host.objects.get()
        assert longer.rests == 2
        Host.objects.update(rests_until=noon)
        deliver(executions[8])
    assert executions[8].state == State.SUCCEEDED
    well = Host.objects.get()
    assert (well.failures, well.rests, well.rests_until) == (0, 0, None)


def test_each_rest_is_twice_as_long_up_to_a_limit(noon: datetime) -> None:
    now, rests = noon, []
    failed(noon, hosts.FAILURES_UNTIL_REST - 1)
    for _ in range(8):
        host = failed(now, 1)
        rests.append((host.rests_until - now).total_seconds())
        now = host.rests_until
    assert rests == [30, 60, 120, 240, 480, 900, 900, 900]


def test_after_a_rest_one_call_tries_the_host(noon: datetime) -> None:
    over = failed(noon).rests_until
    assert isinstance(taken(noon), NotNow)
    trial = taken(over)
    assert isinstance(trial, HostCall)
    assert isinstance(taken(over), NotNow)
    hosts.went_well(SHOP, seconds=1, now=over)
    assert isinstance(taken(over), HostCall)


def test_calls_that_were_under_way_when_a_rest_began_do_not_prolong_it(noon: datetime) -> None:
    host = failed(noon)
    late = host.rests_until + SECOND
    hosts.went_wrong(SHOP, "it answered 500", began=noon, now=late)
    assert Host.objects.get().rests_until == host.rests_until
    hosts.went_wrong(SHOP, "it answered 500", began=late, now=late)
    assert Host.objects.get().rests == 2


@pytest.mark.parametrize(("status", "failures"), [(404, 0), (200, 0), (429, 4), (408, 4), (500, 5)])
def test_who_answers_is_well_and_who_asks_for_patience_is_neither(status: int, failures: int, noon: datetime) -> None:
    with receiving(*[answer(500)] * 4, answer(status)) as receiver:
        job = a_callback(receiver, now=noon, retry=RetryPolicy(max_attempts=1))
        for n in range(5):
            deliver(planned(job, noon + timedelta(minutes=n)))
    assert Host.objects.get().failures == failures


def test_a_host_that_nobody_calls_any_more_is_forgotten(noon: datetime) -> None:
    taken(noon).delete()
    month = noon + hosts.FORGOTTEN_AFTER + SECOND
    take("https://other.example", uuid.uuid4(), 1, seconds=30, now=month)
    assert set(Host.objects.values_list("origin", flat=True)) == {"https://other.example"}
    take("https://other.example", uuid.uuid4(), 1, seconds=30, now=month + hosts.FORGOTTEN_AFTER)
    take("https://third.example", uuid.uuid4(), 1, seconds=30, now=month + hosts.FORGOTTEN_AFTER + SECOND)
    assert Host.objects.count() == 2
