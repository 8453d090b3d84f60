"""Months without a table: made once, by whoever comes first, and apart from the transaction that needs them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import connection, transaction

from executions import lifecycle, partitions
from executions.models import Execution
from executions.partitions import Month
from executions.states import Trigger
from jobs import runs
from tests.making import a_job
from tests.races.connections import elsewhere, several

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
FAR = datetime(2033, 1, 15, tzinfo=UTC)
ROUNDS = 12


@pytest.fixture(autouse=True)
def _no_months_are_left() -> Iterator[None]:
    before = partitions.existing()
    yield
    with connection.cursor() as cursor:
        for month in set(partitions.existing()) - set(before):
            for parent in partitions.PARENTS:
                cursor.execute(f'DROP TABLE "{parent}_{month}"')


def test_a_month_that_two_make_at_once_is_made_once(noon: datetime) -> None:
    month = Month.of(FAR)
    with several(2) as start_both:
        for _ in range(ROUNDS):
            wanted = [month, month.following]
            made = start_both(*(partial(partitions.make, order) for order in (wanted, wanted[::-1])))
            assert sorted(made[0] + made[1]) == wanted
            assert set(wanted) <= set(partitions.existing())
            month = month.following.following


def test_runs_at_once_in_a_month_without_a_table_are_all_stored(noon: datetime) -> None:
    job = a_job(now=noon)
    with several(3) as start_all:
        for number in range(ROUNDS):
            moment = FAR + timedelta(days=31 * number)
            asked = start_all(*(partial(runs.run, job, run_at=moment, now=noon) for _ in range(3)))
            assert Execution.objects.with_ids([each.execution_id for each in asked]).count() == 3


@pytest.mark.parametrize("is_kept", [True, False], ids=["committed", "rolled back"])
def test_the_table_stays_and_the_row_shares_the_fate_of_the_apps_transaction(noon: datetime, is_kept: bool) -> None:
    job = a_job(now=noon)
    with transaction.atomic():
        before = runs.run(job, now=noon)
        far = runs.run(job, run_at=FAR, now=noon)
        after = runs.run(job, now=noon)
        # The table is there for everybody at once; the row is not.
        assert Month.of(FAR) in elsewhere(partitions.existing)
        assert elsewhere(Execution.objects.count) == 0
        transaction.set_rollback(not is_kept)
    assert Month.of(FAR) in partitions.existing()
    expected = {before.execution_id, far.execution_id, after.execution_id} if is_kept else set()
    assert set(Execution.objects.values_list("pk", flat=True)) == expected


def test_a_month_is_made_while_others_write(noon: datetime) -> None:
    """Somebody's long transaction has rows of its own in the table, and a run far ahead does not wait for it."""
    job = a_job(now=noon)
    with transaction.atomic():
        lifecycle.plan([job.new_execution(noon, trigger=Trigger.MANUAL, now=noon)])
        list(Execution.objects.select_for_update())
        asked = elsewhere(lambda: runs.run(job, run_at=FAR, now=noon))
    assert Execution.objects.with_id(asked.execution_id).exists()


def test_a_transaction_that_needs_two_missing_months_gets_both(noon: datetime) -> None:
    job = a_job(now=noon)
    moments = [FAR, FAR + timedelta(days=100)]
    with transaction.atomic():
        asked = runs.run_many(job, [runs.Wanted(run_at=moment) for moment in moments], now=noon)
    assert Execution.objects.with_ids([each.execution_id for each in asked]).count() == 2
