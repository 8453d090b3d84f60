"""Who holds a job's lock and falls silent: others wait for it for a while, and not until somebody comes."""

from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from executions import concurrency, database_line, lifecycle
from executions.clock import database_now
from executions.database_line import hurried
from executions.models import Execution
from executions.outcomes import Claim, Held
from tests.making import a_job, asked_for
from tests.races.connections import waits_for_us
from tests.waiting import wait_until
from workers.patience import AWAY

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _nobody_set_a_limit(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat of another test may have run in this process, on this very connection."""
    monkeypatch.setattr(database_line, "_is_process_hurried", False)
    with connection.cursor() as cursor:
        cursor.execute("RESET idle_in_transaction_session_timeout")


@pytest.fixture
def execution() -> Execution:
    now = database_now()
    (asked,) = asked_for(a_job(now=now, max_concurrency=1), 1, now=now)
    return asked


def limit() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('idle_in_transaction_session_timeout')")
        return str(cursor.fetchone()[0])


def test_a_worker_that_freezes_with_a_lock_holds_up_its_job_only_for_a_while(
    execution: Execution, settings: Any
) -> None:
    settings.DATABASE_ANSWER_SECONDS = 1
    claims: list[Future[Claim | Held | None]] = []

    def freeze_with_the_lock() -> None:
        with transaction.atomic():
            with hurried():
                concurrency.lock([execution.job_id])
            claims.append(waits_for_us(partial(lifecycle.claim, execution.pk, 1, worker="w", now=database_now())))
            wait_until(claims[0].done, what="the other has the lock, while we do nothing")
            limit()  # as if we went on

    with pytest.raises(AWAY):  # so a worker tries its step again
        freeze_with_the_lock()
    connection.close()
    assert isinstance(claims[0].result(), Claim)


def test_the_limit_is_over_with_the_transaction_since_handlers_share_the_connection(execution: Execution) -> None:
    with transaction.atomic(), hurried():
        concurrency.lock([execution.job_id])
        assert limit() == "30s"
    assert limit() == "0"


def test_who_is_not_hurried_may_hold_a_lock_for_as_long_as_it_takes(execution: Execution) -> None:
    with transaction.atomic():
        concurrency.lock([execution.job_id])
        assert limit() == "0"


def test_a_limit_that_somebody_set_stays(execution: Execution) -> None:
    with transaction.atomic(), hurried(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        concurrency.lock([execution.job_id])
        assert limit() == "5s"
