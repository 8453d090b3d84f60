"""Runs through the REST API: now, later, many at once, by key."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from access.models import AuditEntry
from api import idempotency
from executions import at_once
from executions.clock import database_now
from executions.models import Execution
from executions.states import State, Trigger
from jobs import definitions
from jobs.models import Job
from jobs.runs import MOST_AT_ONCE
from tests.calling import Answer, Caller, a_caller
from tests.making import a_job, claimed

pytestmark = pytest.mark.django_db
TARGET = {"task": "onbeat.echo"}


@pytest.fixture
def api() -> Caller:
    return a_caller()


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon, key="mail", kwargs={"a": 1}, priority=3)


def row_of(answer: Answer) -> Execution:
    return Execution.objects.get(pk=answer.body["id"])


# ── One ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_without_a_word_is_wanted_now_as_the_job_says(api: Caller, job: Job) -> None:
    answer = api.post("/jobs/mail/runs")
    row = row_of(answer)
    assert (answer.status, answer.body["is_new"]) == (201, True)
    assert (row.trigger, row.kwargs, row.priority) == (Trigger.MANUAL, {"a": 1}, 3)
    assert row.available_at == row.fire_time + at_once.HEAD_START
    assert AuditEntry.objects.get(action="job.run").after == {"executions": [str(row.pk)], "is_new": True}


def test_a_run_takes_another_moment_payload_and_priority(api: Caller, job: Job) -> None:
    now = database_now()
    row = row_of(api.post("/jobs/mail/runs", {"delay": 3600, "kwargs": {"b": 2}, "args": [1], "priority": 9}))
    assert (row.trigger, row.args, row.kwargs, row.priority) == (Trigger.DELAYED, [1], {"b": 2}, 9)
    assert row.available_at - now == pytest.approx(timedelta(hours=1), abs=timedelta(seconds=5))
    moment = now + timedelta(days=3)
    assert row_of(api.post(f"/jobs/{job.pk}/runs", {"run_at": moment.isoformat()})).available_at == moment


@pytest.mark.parametrize(
    ("body", "status", "pointers"),
    [
        ({"delay": -1}, 400, ["/delay"]),
        ({"delay": "5"}, 400, ["/delay"]),
        ({"delay": 10**30}, 400, ["/delay"]),
        ({"delay": 10**9}, 422, ["/delay"]),
        ({"run_at": "2020-01-01T00:00:00Z"}, 422, ["/run_at"]),
        ({"run_at": "2027-01-01T00:00:00"}, 400, ["/run_at"]),
        ({"run_at": "tomorrow"}, 400, ["/run_at"]),
        ({"delay": 5, "run_at": "2027-01-01T00:00:00Z"}, 422, ["/delay"]),
        ({"kwargs": []}, 400, ["/kwargs"]),
        ({"kwargs": {"x": "y" * 70_000}}, 422, ["/kwargs"]),
        ({"run_key": "a\nb"}, 422, ["/run_key"]),
        ({"priority": 10}, 400, ["/priority"]),
        ({"when": 5}, 400, ["/when"]),
        ([], 400, [""]),
    ],
)
def test_a_run_that_cannot_be_is_refused_where_it_is_wrong(
    body: Any, status: int, pointers: list[str], api: Caller, job: Job
) -> None:
    answer = api.post("/jobs/mail/runs", body)
    assert (answer.status, [pointer or "" for pointer in answer.pointers]) == (status, pointers)
    assert not Execution.objects.exists()


def test_a_job_that_is_over_runs_no_more(api: Caller, job: Job) -> None:
    definitions.archive(job)
    assert api.post(f"/jobs/{job.pk}/runs").status == 409
    assert api.post("/jobs/mail/runs").status == 404


# ── By key ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_found_moved_and_cancelled_by_its_key(api: Caller, job: Job) -> None:
    first = api.post("/jobs/mail/runs", {"delay": 600, "run_key": "user/1 ä"})
    again = api.post("/jobs/mail/runs", {"delay": 999, "run_key": "user/1 ä"})
    assert (again.status, again.body) == (200, {"id": first.body["id"], "is_new": False})
    address = "/jobs/mail/runs/user/1%20%C3%A4"
    assert api.get(address).body["id"] == first.body["id"]
    assert api.put(address, {"delay": 7200}).body == {"outcome": "moved"}
    assert row_of(first).available_at > database_now() + timedelta(hours=1)
    assert api.put(address, {}).pointers == ["/run_at"]
    assert api.delete(f"{address}?reason=left").body == {"outcome": "cancelled"}
    assert (row_of(first).state, row_of(first).reason) == (State.CANCELLED, "left")
    for answer in (api.get(address), api.put(address, {"delay": 1}), api.delete(address)):
        assert answer.status == 404


def test_a_run_that_runs_is_not_moved_and_is_asked_to_stop(api: Caller, job: Job) -> None:
    row = row_of(api.post("/jobs/mail/runs", {"run_key": "a"}))
    claimed(row, now=database_now())
    assert api.put("/jobs/mail/runs/a", {"delay": 60}).status == 409
    assert api.delete("/jobs/mail/runs/a").body == {"outcome": "asked to stop"}


# ── Many ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_runs_are_answered_in_order_and_a_key_that_stands_twice_is_one_run(api: Caller, job: Job) -> None:
    wanted = [{"delay": 60, "run_key": "a"}, {"kwargs": {"n": 2}, "delay": 60}, {"delay": 90, "run_key": "a"}]
    answer = api.post("/jobs/mail/bulk-runs", {"runs": wanted})
    assert (answer.status, [each["is_new"] for each in answer.body["runs"]]) == (201, [True, True, False])
    assert answer.body["runs"][0]["id"] == answer.body["runs"][2]["id"]
    assert Execution.objects.get(pk=answer.body["runs"][1]["id"]).kwargs == {"n": 2}
    assert AuditEntry.objects.get(action="job.run").after["new"] == 2


def test_of_many_runs_all_are_stored_or_none_and_each_mistake_is_named(api: Caller, job: Job) -> None:
    answer = api.post("/jobs/mail/bulk-runs", {"runs": [{"delay": 1}, {"delay": -1}, {"dealy": 1}, 7]})
    assert (answer.status, answer.pointers) == (400, ["/runs/1/delay", "/runs/2/dealy", "/runs/3"])
    assert api.post("/jobs/mail/bulk-runs", {"runs": [{}] * (MOST_AT_ONCE + 1)}).status == 400
    late = api.post("/jobs/mail/bulk-runs", {"runs": [{}, {"run_at": "2020-01-01T00:00:00Z"}]})
    assert (late.status, late.pointers) == (422, ["/runs/1/run_at"])
    large = api.post("/jobs/mail/bulk-runs", {"runs": [{}, {}, {"kwargs": {"x": "y" * 70_000}}]})
    assert (large.status, large.pointers) == (422, ["/runs/2/kwargs"])
    assert not Execution.objects.exists()


def test_many_runs_take_the_same_number_of_queries_as_few(
    api: Caller, job: Job, django_assert_max_num_queries: Any
) -> None:
    api.get("/caller")  # notes that the key is used, once a minute
    counts = []
    for total in (2, 25):  # SQLite takes no more rows in one statement
        with django_assert_max_num_queries(30) as captured:
            api.post("/jobs/mail/bulk-runs", {"runs": [{"delay": 60}] * total})
        counts.append(len(captured))
    assert counts[0] == counts[1]


# ── Once ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_request_with_the_same_key_is_done_once_and_answered_alike(api: Caller, job: Job) -> None:
    calls = [api.post("/jobs/mail/runs", {"delay": 60}, Idempotency_Key="k1") for _ in range(3)]
    assert [answer.status for answer in calls] == [201] * 3
    assert len({answer.body["id"] for answer in calls}) == Execution.objects.count() == 1
    assert [answer.headers.get(idempotency.REPLAYED) for answer in calls] == [None, "true", "true"]


def test_a_created_job_is_answered_again_with_its_place_and_version(api: Caller) -> None:
    calls = [api.post("/jobs", {"key": "a", "target": TARGET}, Idempotency_Key="k") for _ in range(2)]
    assert calls[0].body == calls[1].body
    for name in ("ETag", "Location"):
        assert calls[0].headers[name] == calls[1].headers[name]
    assert api.post("/jobs", {"key": "a", "target": TARGET}, Idempotency_Key="k2").status == 409


def test_a_key_belongs_to_its_request_and_its_owner(api: Caller, job: Job) -> None:
    assert api.post("/jobs/mail/runs", {"delay": 60}, Idempotency_Key="k").status == 201
    definitions.create(key="other", task="onbeat.echo")
    for answer in (
        api.post("/jobs/mail/runs", {"delay": 61}, Idempotency_Key="k"),
        api.post("/jobs/other/runs", {"delay": 60}, Idempotency_Key="k"),
        api.post("/jobs/mail/bulk-runs", {"runs": []}, Idempotency_Key="k"),
    ):
        assert (answer.status, "another request" in answer.body["detail"]) == (422, True)
    assert a_caller().post("/jobs/mail/runs", {"delay": 61}, Idempotency_Key="k").status == 201


def test_a_refusal_is_not_kept_and_the_corrected_request_may_use_the_key(api: Caller, job: Job) -> None:
    assert api.post("/jobs/mail/runs", {"delay": -1}, Idempotency_Key="k").status == 400
    assert api.post("/jobs/mail/runs", {"run_at": "2020-01-01T00:00:00Z"}, Idempotency_Key="k").status == 422
    assert api.post("/jobs/mail/runs", {"delay": 1}, Idempotency_Key="k").status == 201


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 256])
def test_a_key_that_is_no_key_is_refused(key: str, api: Caller, job: Job) -> None:
    answer = api.post("/jobs/mail/runs", {}, Idempotency_Key=key)
    assert (answer.status, answer.pointers) == (400, ["Idempotency-Key"])


def test_an_answer_is_forgotten_after_its_day(api: Caller, job: Job) -> None:
    from access.models import IdempotentAnswer

    first = api.post("/jobs/mail/runs", {"delay": 60}, Idempotency_Key="k")
    IdempotentAnswer.objects.update(created_at=database_now() - timedelta(hours=25))
    second = api.post("/jobs/mail/runs", {"delay": 60}, Idempotency_Key="k")
    assert second.body["id"] != first.body["id"]


def test_a_replay_is_done_once_per_key(api: Caller, job: Job) -> None:
    row = row_of(api.post("/jobs/mail/runs", {"delay": 60}))
    api.post(f"/executions/{row.pk}/cancel")
    key = str(uuid4())
    calls = [api.post(f"/executions/{row.pk}/replay", {}, Idempotency_Key=key) for _ in range(2)]
    assert calls[0].body == calls[1].body
    assert Execution.objects.filter(replay_of=row.pk).count() == 1
