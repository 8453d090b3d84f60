"""Ask for ten thousand runs in one call: all or nothing, in order, in a constant number of statements."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from executions import lifecycle
from executions.models import Execution, RunKey
from jobs import runs
from jobs.models import Job
from jobs.refusals import InvalidRun
from jobs.runs import Asked, Wanted
from tests.making import a_job, planned, seconds
from tests.rows import everything

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(noon: datetime) -> Job:
    job = a_job(now=noon)
    planned(job, noon)  # the month has its table from now on
    Execution.objects.all().delete()
    return job


def statements(job: Job, wanted: list[Wanted], now: datetime) -> int:
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert len(runs.run_many(job, wanted, now=now)) == len(wanted)
    return len(asked)


def facts(asked: Asked) -> dict[str, object]:
    """Of its row, all but the id."""
    row = Execution.objects.with_id(asked.execution_id).get()
    return {
        field.attname: getattr(row, field.attname) for field in Execution._meta.concrete_fields if field.name != "id"
    }


@pytest.mark.full  # SQLite's limit on variables makes Django split long statements
@pytest.mark.parametrize("keys", ["without keys", "new keys", "keys in use", "keys to take over"])
def test_the_number_of_statements_does_not_grow_with_the_number_of_runs(keys: str, job: Job, noon: datetime) -> None:
    counts = []
    for count in (10, 2_500):
        wanted = [Wanted(run_key="" if keys == "without keys" else f"{count}-{n}") for n in range(count)]
        if keys in ("keys in use", "keys to take over"):
            asked = runs.run_many(job, wanted, now=noon)
            if keys == "keys to take over":
                lifecycle.skip([one.execution_id for one in asked], reason="x", now=noon)
        counts.append(statements(job, wanted, noon))
    assert counts[0] == counts[1]


def test_ten_thousand_runs_with_mixed_keys_are_answered_in_their_order(job: Job, noon: datetime) -> None:
    held = runs.run(job, run_key="held", delay=seconds(60), now=noon)
    free = runs.run(job, run_key="free", now=noon)
    lifecycle.skip([free.execution_id], reason="x", now=noon)
    wanted = [Wanted(kwargs={"n": n}, delay=seconds(n)) for n in range(runs.MOST_AT_ONCE - 6)]
    wanted[100:100] = [Wanted(run_key="held"), Wanted(run_key="free"), Wanted(run_key="new", kwargs={"n": "first"})]
    wanted += [Wanted(run_key="new", kwargs={"n": "second"}), Wanted(run_key="free"), Wanted(run_key="held")]
    answers = runs.run_many(job, wanted, now=noon)
    assert len(answers) == runs.MOST_AT_ONCE
    assert answers[100].execution_id == answers[-1].execution_id == held.execution_id
    assert answers[101].execution_id == answers[-2].execution_id != free.execution_id
    assert answers[102].execution_id == answers[-3].execution_id
    assert [n for n, answer in enumerate(answers) if not answer.is_new] == [100, *range(9997, 10_000)]
    stored = {row.pk: row for row in Execution.objects.exclude(pk__in=[held.execution_id, free.execution_id])}
    assert stored.keys() == {answer.execution_id for answer in answers if answer.is_new}
    for one, answer in zip(wanted, answers, strict=True):
        if answer.is_new and not one.run_key:
            row = stored[answer.execution_id]
            assert (row.kwargs, row.available_at) == (one.kwargs, noon + (one.delay or timedelta(0)))
    assert stored[answers[102].execution_id].kwargs == {"n": "first"}
    assert RunKey.objects.count() == 3


def test_each_of_many_runs_is_stored_as_if_it_was_asked_for_alone(noon: datetime) -> None:
    job = a_job(now=noon, args=["é"], kwargs={"a": [1, None]}, priority=3, queue="mail")
    wanted = [
        Wanted(),
        Wanted(delay=seconds(0)),
        Wanted(run_at=noon + seconds(5), run_key='user\'s "key" – 100 %'),
        Wanted(args=[1]),
        Wanted(args=(True,), priority=0),
        Wanted(kwargs={"deep": [{"er": 1.5}], "text": "é 😀 \\ \" ' %s \\u0000"}),
        Wanted(args=[], kwargs={}, priority=9),
    ]
    answers = runs.run_many(job, wanted, now=noon)
    many = [facts(answer) for answer in answers]
    Execution.objects.all().delete()
    alone = [facts(runs.run(job, now=noon, **vars(each))) for each in wanted]
    assert list(map(repr, many)) == list(map(repr, alone))  # True is no 1 there
    assert [row["args"] for row in many] == [["é"], ["é"], ["é"], [1], [True], ["é"], []]
    assert many[0]["kwargs"] == {"a": [1, None]}
    assert many[5]["kwargs"] == wanted[5].kwargs


@pytest.mark.parametrize("payload", [{}, {"args": [1], "kwargs": {"a": 2}}], ids=["as the job says", "given"])
def test_a_payload_that_all_have_is_sent_to_the_database_once(payload: dict[str, Any], noon: datetime) -> None:
    job = a_job(now=noon, kwargs={"a": 1})
    with CaptureQueriesContext(connection) as asked:
        runs.run_many(job, [Wanted(**payload)] * 50, now=noon)
    (insert,) = (query["sql"] for query in asked if query["sql"].startswith("INSERT INTO onbeat_execution"))
    assert insert.count('"a"') == 1
    row = {"args": [], "kwargs": {"a": 1}} | payload
    assert Execution.objects.filter(**row).count() == 50


@pytest.mark.parametrize(
    ("bad", "words"),
    [({"priority": 10}, "not 10"), ({"args": ["x" * 60]}, "the limit is 100")],
    ids=["alone", "with what the job says"],
)
def test_a_refusal_tells_which_run_it_is_about(
    bad: dict[str, Any], words: str, noon: datetime, settings: Settings
) -> None:
    settings.ONBEAT_JOBS_PAYLOAD_BYTES = 100
    job = a_job(now=noon, kwargs={"a": "x" * 60})
    with pytest.raises(InvalidRun, match=words) as refusal:
        runs.run_many(job, [Wanted(), Wanted(args=[1]), Wanted(**bad), Wanted()], now=noon)
    assert refusal.value.place == 2
    assert not Execution.objects.exists()


def test_one_bad_run_refuses_all(job: Job, noon: datetime) -> None:
    runs.run(job, run_key="held", now=noon)
    before = everything()
    wanted = [*(Wanted(run_key=f"k{n}") for n in range(50)), Wanted(run_key="held"), Wanted(priority=10)]
    with pytest.raises(InvalidRun, match="not 10"):
        runs.run_many(job, wanted, now=noon)
    assert everything() == before


def test_more_than_ten_thousand_are_refused_with_a_remedy(job: Job, noon: datetime) -> None:
    with pytest.raises(InvalidRun, match="up to 10000 runs, not 10001; send them in parts") as refusal:
        runs.run_many(job, [Wanted()] * 10_001, now=noon)
    assert refusal.value.field == "runs"
    assert not Execution.objects.exists()


def test_no_runs_are_no_trouble(job: Job, noon: datetime) -> None:
    assert runs.run_many(job, [], now=noon) == []


def test_runs_of_one_call_may_fall_into_many_months(job: Job, noon: datetime) -> None:
    wanted = [Wanted(delay=timedelta(days=31 * n), run_key=f"{n}") for n in (1, 5, 18)]
    answers = runs.run_many(job, wanted, now=noon)
    for one, answer in zip(wanted, answers, strict=True):
        assert one.delay is not None
        assert Execution.objects.with_id(answer.execution_id).get().fire_time == noon + one.delay
