"""Rows that are stored many at a time are stored as each of them says."""

from datetime import datetime

import pytest
from django.db import DataError, transaction

from executions import lifecycle
from executions.models import Execution
from executions.states import State, Trigger
from jobs.models import Job
from tests.making import a_job, seconds

pytestmark = pytest.mark.django_db


def rows_of(job: Job, count: int, now: datetime) -> list[Execution]:
    return [job.new_execution(now + seconds(n), trigger=Trigger.DELAYED, now=now) for n in range(count)]


def stored() -> list[Execution]:
    return list(Execution.objects.order_by("fire_time"))


def facts(row: Execution) -> dict[str, object]:
    return {field.attname: getattr(row, field.attname) for field in Execution._meta.concrete_fields}


def test_every_column_is_stored_as_it_was_said(noon: datetime) -> None:
    rows = rows_of(a_job(now=noon, args=[1, "two"], kwargs={"a": None}), 3, noon)
    rows[1].state, rows[1].finished_at, rows[1].reason = State.SKIPPED, noon, "a reason"
    rows[1].skipped_count, rows[1].skipped_until = 3, noon + seconds(9)
    rows[2].replay_of, rows[2].is_waiting, rows[2].run_key = rows[0].pk, True, 'user\'s "key" – 100 %'
    rows[2].available_at, rows[2].result, rows[2].priority = noon + seconds(60), "text", 9
    lifecycle.plan(rows)
    assert [facts(row) for row in stored()] == [facts(row) for row in rows]


@pytest.mark.parametrize("count", [1, 2])
def test_one_row_is_stored_like_many(count: int, noon: datetime) -> None:
    rows = rows_of(a_job(now=noon), count, noon)
    lifecycle.plan(rows)
    assert [facts(row) for row in stored()] == [facts(row) for row in rows]


def test_payloads_that_python_takes_for_equal_are_kept_apart(noon: datetime) -> None:
    rows = rows_of(a_job(now=noon), 4, noon)
    for row, value in zip(rows, (1, True, 0, False), strict=True):
        row.args, row.kwargs = [value], {"value": value}
    lifecycle.plan(rows)
    assert [(row.args[0], row.kwargs["value"]) for row in stored()] == [(1, 1), (True, True), (0, 0), (False, False)]
    assert [type(row.args[0]) for row in stored()] == [int, bool, int, bool]


def test_payloads_of_every_kind_arrive_as_they_were_given(noon: datetime) -> None:
    payloads = [{}, {"deep": [{"er": [None, 1.5, "é 😀 \\ \" '"]}]}, {"large": 2**62, "negative": -0.1}, {"": []}]
    rows = rows_of(a_job(now=noon), len(payloads), noon)
    for row, payload in zip(rows, payloads, strict=True):
        row.kwargs = payload
    lifecycle.plan(rows)
    assert [row.kwargs for row in stored()] == payloads


@pytest.mark.full  # SQLite keeps text of any length
def test_text_that_is_too_long_is_refused_and_not_cut(noon: datetime) -> None:
    rows = rows_of(a_job(now=noon), 2, noon)
    rows[1].run_key = "x" * 201
    with pytest.raises(DataError), transaction.atomic():
        lifecycle.plan(rows)
    assert stored() == []


def test_a_fire_that_has_its_row_keeps_it_and_the_others_are_stored(noon: datetime) -> None:
    job = a_job(now=noon)
    first = job.new_execution(noon, trigger=Trigger.SCHEDULE, now=noon)
    lifecycle.plan([first])
    again = [job.new_execution(noon + seconds(n), trigger=Trigger.SCHEDULE, now=noon) for n in range(2)]
    lifecycle.plan(again)
    assert [row.pk for row in stored()] == [first.pk, again[1].pk]
