"""Statements that the server keeps: it finds out a few times how to do them, and not for each execution."""

from collections import Counter
from datetime import datetime

import pytest
from django.db import connection

from executions import lifecycle, partitions
from executions.outcomes import Claim, Finish
from executions.partitions import Month
from tests.making import a_job, planned, seconds

pytestmark = [pytest.mark.full, pytest.mark.django_db]
RUNS = 12
_FEW = 5  # times that PostgreSQL plans for the values before it compares
_PLANS = """
SELECT sum(custom_plans), sum(generic_plans) FROM pg_prepared_statements
WHERE statement LIKE '%%UPDATE onbeat_execution%%' AND position(%s in statement) > 0
"""


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[Month]:
    counted: Counter[Month] = Counter()
    monkeypatch.setattr(partitions, "_asked", counted)
    return counted


def plans_made(*, saying: str) -> tuple[int, int]:
    """For the values of a call, and for all."""
    with connection.cursor() as cursor:
        cursor.execute(_PLANS, [saying])
        for_values, for_all = cursor.fetchone()
        return for_values or 0, for_all or 0


def run_some(noon: datetime) -> None:
    partitions.make_ahead(noon)
    job = a_job(now=noon)
    for n in range(RUNS):
        claim = lifecycle.claim(planned(job, noon + seconds(n)).pk, 1, worker="one@here", now=noon + seconds(n))
        assert isinstance(claim, Claim)
        assert lifecycle.succeed(claim, result=None, now=noon + seconds(n)) is Finish.SUCCEEDED


def test_a_claim_and_a_finish_are_planned_once_however_many_months_have_tables(
    noon: datetime, asked: Counter[Month]
) -> None:
    asked[Month.of(noon)] = partitions._WELL_FILLED
    before = plans_made(saying="fire_time >= '2026-06-01")
    run_some(noon)
    for_values, for_all = plans_made(saying="fire_time >= '2026-06-01")
    assert for_values - before[0] <= 2 * _FEW
    assert for_all - before[1] >= 2 * (RUNS - _FEW)


def test_no_plan_is_kept_of_a_month_that_may_be_nearly_empty(noon: datetime, asked: Counter[Month]) -> None:
    """It would read the whole table for each call when there are many rows."""
    before = plans_made(saying="")
    run_some(noon)
    for_values, for_all = plans_made(saying="")
    assert asked[Month.of(noon)] == 2 * RUNS
    assert (for_values - before[0], for_all - before[1]) == (2 * RUNS, 0)


def test_the_last_month_that_an_id_can_name_has_an_end() -> None:
    last = datetime.fromisoformat("9999-12-01T00:00+00:00")
    words = [partitions.month_in_words(last) for _ in range(partitions._WELL_FILLED + 1)]
    assert words[0] == ""
    assert words[-1] == "AND fire_time >= '9999-12-01 00:00+00' AND fire_time < '10000-01-01 00:00+00'"
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM onbeat_execution WHERE true " + words[-1])
        assert cursor.fetchone() == (0,)
