"""Callbacks on several connections: a host's places, a worker that puts off and a beat that publishes, two who end."""

import uuid
from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from beat.upkeep.unheard import end_unheard
from callbacks.hosts import NotNow, take
from callbacks.models import Host, HostCall
from executions import lifecycle
from executions.models import Attempt, Execution
from executions.outcomes import Finish
from executions.states import State
from tests.making import a_job, claimed, planned
from tests.races.connections import at_once, elsewhere, several, waits_for_us

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
SHOP = "https://shop.example"


def taken(now: datetime) -> Any:
    try:
        return take(SHOP, uuid.uuid4(), 1, seconds=30, now=now)
    finally:
        connection.close()


def test_no_host_gets_more_calls_than_it_may_however_many_come_at_once(noon: datetime) -> None:
    with several(16) as all_at_once:
        for _ in range(5):
            answers = all_at_once(*[partial(taken, noon)] * 16)
            assert Counter(type(each) for each in answers) == {HostCall: 8, NotNow: 8}
            HostCall.objects.all().delete()
    assert Host.objects.count() == 1


def test_after_a_rest_one_of_many_tries_the_host(noon: datetime) -> None:
    Host.objects.create(origin=SHOP, failures=5, rests=1, rests_until=noon, used_at=noon)
    answers = at_once(*[partial(taken, noon)] * 10)
    assert Counter(type(each) for each in answers) == {HostCall: 1, NotNow: 9}


def test_what_a_worker_puts_off_while_a_beat_calls_it_queued_is_not_left_without_a_message(noon: datetime) -> None:
    execution = planned(a_job(now=noon), noon)
    with transaction.atomic():
        assert lifecycle.mark_queued([execution], now=noon) == 1
        put_off = waits_for_us(
            lambda: lifecycle.postpone(execution.pk, 1, reason="full", until=noon + timedelta(minutes=5), now=noon)
        )
    assert put_off.result(timeout=60)
    execution.refresh_from_db()
    assert (execution.state, execution.available_at) == (State.SCHEDULED, noon + timedelta(minutes=5))


def test_a_beat_that_comes_later_leaves_what_was_put_off(noon: datetime) -> None:
    execution = planned(a_job(now=noon), noon)
    assert lifecycle.postpone(execution.pk, 1, reason="full", until=noon, now=noon)
    assert lifecycle.mark_queued([execution], now=noon) == 0
    execution.refresh_from_db()
    assert execution.state == State.SCHEDULED


def awaited(noon: datetime, **fields: Any) -> Execution:
    execution = planned(a_job(now=noon, **fields), noon)
    assert lifecycle.await_end(claimed(execution, now=noon), until=noon, now=noon) is Finish.AWAITED
    return execution


def test_of_a_word_and_the_end_of_its_time_one_counts(noon: datetime) -> None:
    for number in range(10):
        execution = awaited(noon, key=f"job-{number}")
        claim = lifecycle.claim_from_elsewhere(execution.pk, 1)
        assert claim is not None
        told, timed_out = at_once(
            lambda claim=claim: lifecycle.succeed(claim, result=1, now=noon),
            lambda pk=execution.pk: lifecycle.end_unheard(pk, 1, now=noon),
        )
        assert (told is Finish.REFUSED) != (timed_out is Finish.REFUSED)
        assert Attempt.objects.filter(execution=execution.pk).count() == 1


@pytest.mark.parametrize("fields", [{}, {"max_concurrency": 1}])
def test_no_beat_waits_for_an_app_that_holds_what_was_not_heard_of(noon: datetime, fields: dict[str, int]) -> None:
    execution = awaited(noon, **fields)
    with transaction.atomic():
        lifecycle.cancel([execution.pk], reason="by an app", now=noon)
        assert elsewhere(lambda: end_unheard(noon)) == 0
    assert elsewhere(lambda: end_unheard(noon)) == 1
    execution.refresh_from_db()
    assert execution.state == State.CANCELLED
