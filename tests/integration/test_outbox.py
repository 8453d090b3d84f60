"""The outbox finds what is due, the most urgent first, and only what it is asked for."""

from datetime import datetime

import pytest
from django.db import connection

from executions import lifecycle, outbox
from executions.parts import Part
from executions.states import Trigger
from tests.making import a_job, planned, seconds

pytestmark = pytest.mark.django_db


def found(now: datetime, **more: object) -> list[object]:
    return [due.pk for due in outbox.most_urgent(now, **{"most": 100, **more})]  # type: ignore[arg-type]


def test_what_is_due_comes_by_priority_and_then_by_its_time(noon: datetime) -> None:
    late, soon = noon + seconds(2), noon + seconds(1)
    rows = [
        planned(a_job(now=noon, priority=priority), at) for priority, at in ((0, noon), (9, late), (9, soon), (5, noon))
    ]
    low, nine_late, nine_soon, middle = (row.pk for row in rows)
    assert found(late) == [nine_soon, nine_late, middle, low]
    assert found(soon) == [nine_soon, middle, low]
    assert found(late, most=2) == [nine_soon, nine_late]
    assert found(late, most=2, passed_by=[nine_soon]) == [nine_late, middle]
    assert found(late, most=2, passed_by={nine_soon, nine_late, middle}) == [low]


def test_what_is_over_queued_or_due_later_is_not_in_it(noon: datetime) -> None:
    due, queued, cancelled, later = (planned(a_job(now=noon), noon + seconds(n)) for n in (0, 0, 0, 9))
    lifecycle.mark_queued([queued], now=noon)
    lifecycle.cancel([cancelled.pk], reason="not wanted", now=noon)
    assert found(noon) == [due.pk]
    assert outbox.next_at(noon, until=noon + seconds(10)) == later.available_at
    assert outbox.next_at(noon, until=noon + seconds(8)) is None


def test_a_part_of_the_jobs_and_some_queues_can_be_asked_for(noon: datetime) -> None:
    mail, other = planned(a_job(now=noon, queue="mail"), noon), planned(a_job(now=noon), noon)
    assert found(noon, without=["mail"]) == [other.pk]
    assert found(noon, part=Part(64, frozenset({mail.job_id % 64}))) == [mail.pk]
    coming = planned(other.job, noon + seconds(5))
    ours, theirs = (Part(64, frozenset({row.job_id % 64})) for row in (other, mail))
    assert outbox.next_at(noon, until=noon + seconds(9), part=ours) == coming.available_at
    assert outbox.next_at(noon, until=noon + seconds(9), part=theirs) is None
    assert found(noon, part=Part(64, frozenset())) == []  # who looks after nothing finds nothing


def test_what_goes_out_is_read_as_the_row_and_its_job_have_it(noon: datetime) -> None:
    job = a_job(now=noon, args=[1, "two"], kwargs={"a": None}, priority=7, timeout_seconds=90, keep_result=True)
    row = planned(job, noon + seconds(0.25))
    (out,) = outbox.outgoing([row.pk])
    assert (out.pk, out.job_key, out.attempt, out.priority, out.queue) == (row.pk, job.key, 1, 7, "default")
    assert (out.fire_time, out.available_at, out.fire_time.utcoffset()) == (row.fire_time, row.available_at, seconds(0))
    assert (out.timeout_seconds, out.keep_result, out.is_waiting) == (90, True, False)
    assert (out.args.replace(" ", ""), out.kwargs.replace(" ", "")) == ('[1,"two"]', '{"a":null}')
    assert outbox.outgoing([row.pk], due_by=noon) == []
    assert outbox.outgoing([row.pk], due_by=row.available_at, without=["default"]) == []
    assert outbox.outgoing([]) == []


@pytest.mark.full
def test_a_look_at_a_backlog_reads_what_it_finds_and_not_the_backlog(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(now=noon)
    lifecycle.plan([job.new_execution(noon + seconds(n), trigger=Trigger.DELAYED, now=noon) for n in range(3000)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE onbeat_execution")
    look = outbox._MOST_URGENT["postgresql"]
    monkeypatch.setitem(outbox._MOST_URGENT, "postgresql", f"EXPLAIN ANALYZE {look}")
    monkeypatch.setattr(outbox.Due, "read", lambda row: row[0])
    plan = "\n".join(str(line) for line in outbox.most_urgent(noon + seconds(9999), most=10))
    assert "priority_available_at" in plan  # the index of the month
    assert "Sort Method" not in plan
    assert "Rows Removed" not in plan
    assert "rows=3000" not in plan.replace("rows=3000 width", "")  # only the guess may be so high
