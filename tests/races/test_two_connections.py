"""Two connections at once on PostgreSQL: who wins, asserted both ways."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import pytest
from django.db import connection, transaction

from beat.lease import Leases
from beat.planning import Planner
from executions import lifecycle
from executions.models import Attempt, Execution
from executions.outcomes import Finish
from executions.states import State
from jobs.models import Schedule
from tests.making import a_job, claimed, every_minute, planned, seconds

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
T = TypeVar("T")
ROUNDS = 40


def elsewhere(act: Callable[[], T]) -> T:
    """Do something on a connection of its own and close it."""

    def with_own_connection() -> T:
        try:
            with connection.cursor() as cursor:
                # A step that waits for the other's lock would wait for ever here: let it fail instead.
                cursor.execute("SET lock_timeout = '5s'")
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(with_own_connection).result(timeout=20)


def at_once(*acts: Callable[[], T]) -> list[T]:
    """Start all at the same moment, each on a connection of its own."""
    gate = threading.Barrier(len(acts))

    def act_at_gate(act: Callable[[], T]) -> T:
        try:
            connection.ensure_connection()
            gate.wait(timeout=20)
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        futures: list[Future[T]] = [pool.submit(act_at_gate, act) for act in acts]
        return [future.result(timeout=20) for future in futures]


def planner(name: str) -> Planner:
    """One without leases: the database alone has to be right."""
    alone = Leases(url="", prefix="", holder=name, life=seconds(10))
    return Planner(alone, look_ahead=seconds(5), batch_size=100)


def test_two_planners_of_one_fire_make_one_row(noon: datetime) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    for minute in range(1, ROUNDS + 1):
        now = noon + timedelta(minutes=minute)
        fires = at_once(*(partial(planner(name).plan_due, now=now) for name in ("a", "b")))
        assert sum(fires) <= 1
    # A planner that finds the row locked leaves it to the other, so after each round the fire is there.
    assert Execution.objects.count() == ROUNDS
    assert Schedule.objects.get().version == 1 + ROUNDS


def test_an_edit_that_is_not_committed_yet_makes_the_planner_pass_by(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    now = noon + seconds(60)
    with transaction.atomic():
        Schedule.objects.filter(job=job).update(next_fire_at=noon + timedelta(days=1), version=2)
        assert elsewhere(lambda: planner("other").plan_due(now=now)) == 0
    assert elsewhere(lambda: planner("other").plan_due(now=now)) == 0
    assert not Execution.objects.exists()


def test_a_plan_that_was_committed_first_is_seen_by_the_edit(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    assert elsewhere(lambda: planner("other").plan_due(now=noon + seconds(60))) == 1
    stale_edit = Schedule.objects.filter(job=job, version=1).update(next_fire_at=None)
    assert stale_edit == 0


def test_of_many_claims_exactly_one_wins(noon: datetime) -> None:
    job = a_job(now=noon)
    for number in range(ROUNDS):
        execution = planned(job, noon + seconds(number))
        claims = at_once(
            *(partial(lifecycle.claim, execution.pk, 1, worker=worker, now=noon) for worker in ("a", "b", "c"))
        )
        winners = [claim for claim in claims if claim is not None]
        assert len(winners) == 1
        execution.refresh_from_db()
        assert execution.worker == winners[0].worker


def test_a_finish_that_commits_first_beats_the_rescue(noon: datetime) -> None:
    execution = planned(a_job(now=noon), noon)
    claim = claimed(execution, now=noon)
    late = noon + timedelta(minutes=1)
    with transaction.atomic():
        assert lifecycle.succeed(claim, result=1, now=late) is Finish.SUCCEEDED
        # Not committed yet: the rescue sees a silent row, finds it locked and passes by.
        assert elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late)) == []
    assert elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late)) == []
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (State.SUCCEEDED, 1)


def test_a_rescue_that_commits_first_beats_the_finish(noon: datetime) -> None:
    execution = planned(a_job(now=noon), noon)
    claim = claimed(execution, now=noon)
    late = noon + timedelta(minutes=1)
    assert len(elsewhere(lambda: lifecycle.rescue(silent_since=late, now=late))) == 1
    assert lifecycle.succeed(claim, result=1, now=late) is Finish.REFUSED
    execution.refresh_from_db()
    assert (execution.state, execution.attempt, execution.result) == (State.SCHEDULED, 2, None)


def test_finish_and_rescue_at_once_end_the_attempt_exactly_once(noon: datetime) -> None:
    job = a_job(now=noon)
    late = noon + timedelta(minutes=1)
    for number in range(ROUNDS):
        execution = planned(job, noon + seconds(number))
        claim = claimed(execution, now=noon)
        at_once(
            lambda claim=claim: lifecycle.succeed(claim, result=1, now=late) is Finish.SUCCEEDED,
            lambda: bool(lifecycle.rescue(silent_since=late, now=late)),
        )
        execution.refresh_from_db()
        outcome = Attempt.objects.get(execution=execution).outcome
        expected = ("SUCCEEDED", 1) if outcome == "SUCCEEDED" else ("SCHEDULED", 2)
        assert (execution.state, execution.attempt) == expected
