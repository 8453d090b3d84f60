"""Who had to wait for somebody's lock is not taken for silent when the lock is gone."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from executions import concurrency, lifecycle
from executions.clock import database_now
from executions.messages import Delivery
from executions.models import Execution
from tests.making import a_job, asked_for, claimed, seconds
from tests.races.connections import waits_for_us
from tests.waiting import wait_until
from workers import runner

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]

WAIT = seconds(2)
SILENCE = seconds(1.5)


def hold_the_table(_job_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("LOCK TABLE onbeat_execution IN ACCESS EXCLUSIVE MODE")


def hold_the_job(job_id: int) -> None:
    concurrency.lock([job_id])


def wait_for_us(act: Callable[[], Any], hold: Callable[[int], None], job_id: int) -> None:
    """Let it wait for our lock for longer than silence may last here."""
    with transaction.atomic():
        hold(job_id)
        done = waits_for_us(act)
        began = database_now()
        wait_until(lambda: database_now() - began > WAIT, what="two seconds have passed")
    done.result(timeout=20)


def silent() -> list[Any]:
    return list(Execution.objects.silent_since(database_now() - SILENCE))


def test_a_heartbeat_that_waited_says_the_moment_after_that() -> None:
    now = database_now()
    (execution,) = asked_for(a_job(now=now), 1, now=now)
    claim = claimed(execution, now=now)

    def say() -> None:
        lifecycle.heartbeat([(execution.pk, 1)], worker=claim.worker, now=database_now())

    wait_for_us(say, hold_the_table, execution.job_id)
    assert silent() == []


@pytest.mark.parametrize("hold", [hold_the_job, hold_the_table])
def test_a_claim_that_waited_gives_a_sign_of_life_before_its_work_begins(hold: Callable[[int], None]) -> None:
    now = database_now()
    (execution,) = asked_for(a_job(now=now, max_concurrency=1), 1, now=now)
    ours = Delivery(execution.pk, 1, execution.fire_time, execution.job.key)
    seen: list[list[Any]] = []

    def run() -> None:
        runner.run(ours, worker="w", call=lambda: seen.append(silent()))

    wait_for_us(run, hold, execution.job_id)
    assert seen == [[]]
