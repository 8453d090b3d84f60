"""Who watches executions is told of each change once, and a look is one statement that indexes lead."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from executions import lifecycle, watching
from executions.finding import Sought
from executions.models import Attempt, Execution
from executions.states import State
from executions.watching import Watch
from jobs.models import Job
from tests.making import a_job, asked_for, claimed, planned, seconds, succeeded

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon, key="billing", max_attempts=3)


def told(rows: list[Execution]) -> list[tuple[str, str, int]]:
    return [(row.job.key, row.state, row.attempt) for row in rows]


def test_each_change_is_told_once(job: Job, noon: datetime) -> None:
    watch = Watch(Sought())
    assert watch.look(noon) == []
    row = planned(job, noon + seconds(1))
    assert told(watch.look(noon)) == [("billing", State.SCHEDULED, 1)]
    assert watch.look(noon) == []
    claim = claimed(row, now=noon + seconds(1))
    assert told(watch.look(noon + seconds(1))) == [("billing", State.RUNNING, 1)]
    lifecycle.fail(claim, error="no", now=noon + seconds(2))
    assert told(watch.look(noon + seconds(2))) == [("billing", State.SCHEDULED, 2)]
    assert watch.look(noon + seconds(3)) == []


def test_the_first_look_tells_what_is_not_over(job: Job, noon: datetime) -> None:
    succeeded(job, noon - seconds(2))
    claimed(planned(job, noon - timedelta(hours=3)), now=noon)
    planned(job, noon - seconds(1))
    assert sorted(told(Watch(Sought()).look(noon))) == [
        ("billing", State.RUNNING, 1),
        ("billing", State.SCHEDULED, 1),
    ]


def test_what_begins_and_ends_between_two_looks_is_told(job: Job, noon: datetime) -> None:
    watch = Watch(Sought())
    watch.look(noon)
    succeeded(job, noon)
    old = planned(job, noon - timedelta(days=2))  # as a backfill makes it
    lifecycle.succeed(claimed(old, now=noon), result=None, now=noon + seconds(0.1))
    assert told(watch.look(noon + seconds(1))) == [("billing", State.SUCCEEDED, 1)] * 2
    assert watch.look(noon + seconds(2)) == []
    assert watch.look(noon + seconds(60)) == []


def test_an_attempt_that_is_committed_after_a_later_one_is_told(job: Job, noon: datetime) -> None:
    first, second = (planned(job, noon - timedelta(hours=hours)) for hours in (5, 6))
    watch = Watch(Sought())
    watch.look(noon)
    for row, number in ((first, 1000), (second, 900)):  # the number of the second was given before
        lifecycle.succeed(claimed(row, now=noon), result=None, now=noon)
        Attempt.objects.filter(execution=row.pk).update(id=number)
        assert told(watch.look(noon + seconds(1))) == [("billing", State.SUCCEEDED, 1)]
    assert watch.look(noon + seconds(2)) == []


def test_what_waits_and_is_cancelled_is_told_however_old_it_is(job: Job, noon: datetime) -> None:
    row = planned(job, noon)
    watch = Watch(Sought())
    watch.look(noon)
    later = noon + timedelta(hours=2)
    assert watch.look(later) == []
    lifecycle.cancel([row.pk], reason="not wanted", now=later)
    assert told(watch.look(later)) == [("billing", State.CANCELLED, 1)]
    assert watch.are_all_over


def test_what_is_taken_back_is_forgotten(job: Job, noon: datetime) -> None:
    row = planned(job, noon)
    watch = Watch(Sought())
    watch.look(noon)
    assert not watch.are_all_over
    Execution.objects.filter(pk=row.pk).delete()
    assert watch.look(noon + seconds(1)) == []
    assert watch.are_all_over


def test_of_very_many_each_has_its_turn(job: Job, noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_MOST_NAMED", 2)
    rows = asked_for(job, 6, now=noon)
    watch = Watch(Sought())
    assert len(watch.look(noon)) == 6
    later = noon + timedelta(hours=1)
    watch.look(later)
    lifecycle.cancel([row.pk for row in rows], reason="no", now=later)
    seen = [row.pk for each in range(4) for row in watch.look(later + seconds(each))]
    assert sorted(seen) == sorted(row.pk for row in rows)


def test_only_what_matches_is_told(job: Job, noon: datetime) -> None:
    other = a_job(now=noon, key="other", queue="mail")
    of_job, of_queue = Watch(Sought(job_id=job.pk)), Watch(Sought(queue="mail"))
    of_state = Watch(Sought(states=(State.RUNNING,)))
    for watch in (of_job, of_queue, of_state):
        watch.look(noon)
    claim = claimed(planned(job, noon), now=noon)
    planned(other, noon)
    assert told(of_job.look(noon)) == [("billing", State.RUNNING, 1)]
    assert told(of_queue.look(noon)) == [("other", State.SCHEDULED, 1)]
    assert told(of_state.look(noon)) == [("billing", State.RUNNING, 1)]
    lifecycle.succeed(claim, result=None, now=noon)
    assert of_state.look(noon) == []


def test_who_comes_back_to_a_state_is_told_again(job: Job, noon: datetime) -> None:
    row = planned(job, noon)
    watch = Watch(Sought(states=(State.QUEUED,)))
    watch.look(noon)
    lifecycle.mark_queued([row], now=noon)
    assert told(watch.look(noon)) == [("billing", State.QUEUED, 1)]
    lifecycle.hold([row], reason="full", until=noon + seconds(3))
    assert watch.look(noon + seconds(1)) == []
    lifecycle.mark_queued([row], now=noon + seconds(3))
    assert told(watch.look(noon + seconds(3))) == [("billing", State.QUEUED, 1)]


def test_a_look_without_a_change_is_one_statement(job: Job, noon: datetime, django_assert_num_queries: Any) -> None:
    planned(job, noon)
    watch = Watch(Sought(job_id=job.pk))
    watch.look(noon)
    with django_assert_num_queries(1):
        watch.look(noon + seconds(1))


def test_no_look_reads_a_whole_table(job: Job, noon: datetime) -> None:
    planned(job, noon)
    watch = Watch(Sought())
    watch.look(noon)
    statement = watch._statement(noon)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
        plan = statement.explain()
        assert "Seq Scan" not in plan
    else:
        plan = statement.explain()
        assert "SCAN onbeat_attempt" not in plan
        assert plan.count("SCAN onbeat_execution") == plan.count("SCAN onbeat_execution USING INDEX")
