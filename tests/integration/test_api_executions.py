"""Executions through the REST API: found, read, cancelled, hurried, replayed; one, or all that match."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from access.models import AuditEntry
from executions import finding, lifecycle
from executions.clock import database_now
from executions.models import Execution
from executions.states import State, Trigger
from jobs import runs
from tests.calling import Caller, a_caller
from tests.making import a_job, claimed, planned, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Caller:
    return a_caller()


def failed(execution: Execution, *, now: datetime, error: str = "ValueError: no") -> Execution:
    """With its next attempt waiting, or DEAD after its last."""
    lifecycle.fail(claimed(execution, now=now), error=error, kinds=("ValueError",), now=now)
    return Execution.objects.get(pk=execution.pk)


def listed(api: Caller, query: str = "") -> list[UUID]:
    found: list[UUID] = []
    address = f"/executions?limit=3&{query}"
    while address:
        answer = api.get(address)
        assert answer.status == 200, answer.body
        found += [UUID(item["id"]) for item in answer.body["items"]]
        address = answer.body["next"]
    return found


@pytest.fixture
def some(noon: datetime) -> list[Execution]:
    """Of three jobs, two queues, all states, several at one instant; the latest first."""
    jobs = [a_job(now=noon, key=f"job-{n}", queue="mail" if n else "default", max_attempts=1) for n in range(3)]
    rows: list[Execution] = []
    for number in range(24):
        job = jobs[number % 3]
        moment = noon + timedelta(microseconds=number // 6 * 100, hours=number % 4)
        trigger = Trigger.MANUAL if number % 5 else Trigger.DELAYED
        row = job.new_execution(moment, trigger=trigger, now=moment)
        lifecycle.plan([row])
        rows.append(row)
    for number, row in enumerate(rows):
        now = row.fire_time + seconds(1)
        match number % 6:
            case 0:
                lifecycle.succeed(claimed(row, now=now, worker="w1"), result={"n": number}, now=now)
            case 1:
                failed(row, now=now, error=f"Error{number % 4}: no")
            case 2:
                lifecycle.cancel([row.pk], reason="no", now=now)
            case 3:
                lifecycle.skip([row.pk], reason="overlap", now=now)
            case 4:
                claimed(row, now=now, worker="w2")
    return list(Execution.objects.select_related("job").order_by("-fire_time", "-pk"))


def matching(rows: Sequence[Execution], **wanted: Any) -> set[UUID]:
    return {row.pk for row in rows if all(getattr(row, name) in values for name, values in wanted.items())}


# ── Found ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_list_holds_each_execution_once_the_latest_fire_first(api: Caller, some: list[Execution]) -> None:
    found = listed(api)
    assert sorted(found) == sorted(row.pk for row in some)
    at = {row.pk: row.fire_time.replace(microsecond=0) for row in some}
    assert [at[pk] for pk in found] == sorted(at.values(), reverse=True)
    assert listed(api, "job=job-1") == [row.pk for row in some if row.job.key == "job-1"]


@pytest.mark.parametrize("looked_at", [4, 10_000])
def test_filters_find_what_matches_however_few_rows_a_page_looks_at(
    looked_at: int, api: Caller, some: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "LOOKED_AT", looked_at)
    fingerprint = next(row.fingerprint for row in some if row.fingerprint)
    job = some[0].job
    hour = some[0].fire_time.replace(minute=0, second=0, microsecond=0)
    questions: dict[str, set[UUID]] = {
        "": matching(some),
        f"job={job.key}": matching(some, job=[job]),
        f"job={job.pk}&state=DEAD": matching(some, job=[job], state=["DEAD"]),
        "queue=mail": matching(some, queue=["mail"]),
        "worker=w1": matching(some, worker=["w1"]),
        "worker=nobody": set(),
        "trigger=DELAYED": matching(some, trigger=["DELAYED"]),
        "trigger=delayed,manual&queue=default": matching(some, queue=["default"]),
        f"fingerprint={fingerprint}": matching(some, fingerprint=[fingerprint]),
        f"since={hour.isoformat().replace('+', '%2B')}": {row.pk for row in some if row.fire_time >= hour},
        f"until={hour.isoformat().replace('+', '%2B')}&job=job-2": {
            row.pk for row in some if row.fire_time < hour and row.job.key == "job-2"
        },
    }
    questions |= {f"state={state}": matching(some, state=[state]) for state in State}
    questions["state=DEAD,SKIPPED,running"] = matching(some, state=["DEAD", "SKIPPED", "RUNNING"])
    for query, expected in questions.items():
        found = listed(api, query)
        assert (set(found), len(found)) == (expected, len(expected)), query


def test_what_lies_far_ahead_is_not_gone_through_for_what_has_run(
    api: Caller, some: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year of reminders comes first in the list of everything."""
    monkeypatch.setattr(finding, "LOOKED_AT", 30)
    now = database_now()
    runs.run_many("job-0", [runs.Wanted(run_at=now + timedelta(days=1 + n)) for n in range(100)], now=now)
    for query in ("state=SUCCEEDED", "state=DEAD,RUNNING&queue=mail", "worker=w1"):
        assert len(api.get(f"/executions?{query}").body["items"]) >= 4, query


def test_a_list_takes_the_same_number_of_queries_however_long_it_is(
    api: Caller, noon: datetime, django_assert_max_num_queries: Any
) -> None:
    api.get("/caller")  # notes that the key is used, once a minute
    counts = []
    for total in (1, 40):
        while Execution.objects.count() < total:
            planned(a_job(now=noon), noon + seconds(Execution.objects.count()))
        with django_assert_max_num_queries(8) as captured:
            assert len(api.get("/executions?queue=default&limit=200").body["items"]) == total
        counts.append(len(captured))
    assert counts[0] == counts[1]


# ── Read ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_execution_is_read_with_its_attempts_and_what_happened_when(api: Caller, noon: datetime) -> None:
    job = a_job(now=noon, key="flaky", kwargs={"a": 1}, max_attempts=2)
    row = planned(job, noon)
    lifecycle.mark_queued([row], now=noon)
    failed(row, now=noon + seconds(1))
    read = api.get(f"/executions/{row.pk}").body
    assert (read["job"], read["state"], read["attempt"], read["kwargs"]) == ("flaky", "SCHEDULED", 2, {"a": 1})
    assert [(each["number"], each["outcome"]) for each in read["attempts"]] == [(1, "FAILED")]
    assert [each["what"] for each in read["timeline"]] == [
        "stored",
        "in the queue default",
        "attempt 1 began on worker@here",
        "attempt 1: FAILED",
    ]
    assert read["why"].startswith("It is due since 2026-06-15 12:00:")
    claim = claimed(Execution.objects.get(pk=row.pk), now=noon + timedelta(hours=1))
    lifecycle.cancel([row.pk], reason="no", now=noon + timedelta(hours=1, minutes=1))
    lifecycle.stop(claim, now=noon + timedelta(hours=1, minutes=2))
    assert [each["what"] for each in api.get(f"/executions/{row.pk}").body["timeline"]][4:] == [
        "attempt 2 began on worker@here",
        "asked to stop",
        "attempt 2: CANCELLED",
        "CANCELLED",
    ]
    answer = api.get(f"/executions/{uuid4()}")
    assert (answer.status, "There is no execution" in answer.body["detail"]) == (404, True)


def test_why_it_did_not_run_is_said_in_a_sentence(api: Caller, some: list[Execution], noon: datetime) -> None:
    said = {row.state: api.get(f"/executions/{row.pk}").body["why"] for row in some}
    assert said["SKIPPED"] == "It did not run: overlap."
    assert said["CANCELLED"].endswith("UTC: no.")
    assert said["DEAD"].endswith("It waits for a person.")
    assert "runs on w2 since" in said["RUNNING"]
    job = a_job(now=noon, key="stretch")
    row = job.new_skipped_row(noon, noon + timedelta(hours=2), 3, reason="paused: holidays", now=noon)
    lifecycle.record_skipped([row], now=noon)
    words = "3 fires from 2026-06-15 12:00:00 UTC to 2026-06-15 14:00:00 UTC did not run: paused: holidays."
    assert api.get(f"/executions/{row.pk}").body["why"] == words


# ── Acted on ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_execution_is_cancelled_or_asked_to_stop_or_it_is_too_late(api: Caller, noon: datetime) -> None:
    job = a_job(now=noon)
    waiting, running = planned(job, noon), planned(job, noon + seconds(1))
    claimed(running, now=noon + seconds(1))
    assert api.post(f"/executions/{waiting.pk}/cancel", {"reason": "left"}).body == {"outcome": "cancelled"}
    assert api.post(f"/executions/{running.pk}/cancel").body == {"outcome": "asked to stop"}
    too_late = api.post(f"/executions/{waiting.pk}/cancel")
    assert (too_late.status, too_late.body["detail"]) == (409, "It is CANCELLED and can no longer be cancelled.")
    assert Execution.objects.get(pk=waiting.pk).reason == "left"
    assert AuditEntry.objects.filter(action="execution.cancel").count() == 2


def test_a_retry_that_waits_comes_now(api: Caller, noon: datetime) -> None:
    now = database_now()
    row = failed(planned(a_job(now=now), now), now=now)
    assert row.available_at > now + seconds(10)
    assert api.post(f"/executions/{row.pk}/retry-now").status == 200
    assert Execution.objects.get(pk=row.pk).available_at <= database_now()
    assert api.post(f"/executions/{row.pk}/retry-now").status == 409


def test_what_is_over_is_replayed_with_the_same_payload_or_another(api: Caller, noon: datetime) -> None:
    job = a_job(now=noon, kwargs={"a": 1}, max_attempts=1)
    dead = failed(planned(job, noon), now=noon)
    same = api.post(f"/executions/{dead.pk}/replay", {"note": "mended"})
    other = api.post(f"/executions/{dead.pk}/replay", {"kwargs": {"a": 2}})
    assert (same.status, same.body["replay_of"]) == (201, str(dead.pk))
    kwargs = [Execution.objects.get(pk=answer.body["id"]).kwargs for answer in (same, other)]
    assert kwargs == [{"a": 1}, {"a": 2}]
    assert Execution.objects.get(pk=dead.pk).handled_note == "mended"
    assert api.post(f"/executions/{same.body['id']}/replay").status == 409


def sweep(api: Caller, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """From the dry run to the end; all answers."""
    answers = [api.post(path, body).body]
    while answers[-1]["next"] is not None:
        assert len(answers) < 50
        answers.append(api.post(path, answers[-1]["next"]).body)
    return answers


def test_everything_that_matches_is_cancelled_a_batch_at_a_time(api: Caller, some: list[Execution]) -> None:
    still_open = [row for row in some if row.state in ("SCHEDULED", "RUNNING")]
    answers = sweep(
        api, "/executions/cancel", {"filter": {"until": "2099-01-01T00:00:00Z"}, "batch": 3, "note": "stop"}
    )
    assert (answers[0]["dry_run"], answers[0]["remaining"]) == (True, len(still_open))
    assert [answer["remaining"] for answer in answers[1:]] == [5, 2, 0]
    assert sum(answer["done"] for answer in answers) == len(matching(some, state=["SCHEDULED"]))
    assert sum(answer["asked_to_stop"] for answer in answers) == len(matching(some, state=["RUNNING"]))
    assert Execution.objects.filter(state="CANCELLED", reason="stop").count() == 4
    assert AuditEntry.objects.filter(action="execution.cancel").count() == 3


def test_everything_that_matches_is_replayed_once_and_what_comes_meanwhile_is_left_alone(
    api: Caller, some: list[Execution]
) -> None:
    over = matching(some, state=["SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED"])
    answers = sweep(api, "/executions/replay", {"filter": {"since": "2026-01-01T00:00:00Z"}, "batch": 5})
    assert sum(answer["done"] for answer in answers) == answers[0]["remaining"] == len(over)
    replays = Execution.objects.filter(trigger=Trigger.REPLAY)
    assert sorted(replays.values_list("replay_of", flat=True)) == sorted(over)
    again = api.post("/executions/replay", {"filter": {"state": ["DEAD"]}}).body
    assert (again["remaining"], again["next"]) == (0, None)


def test_what_is_stored_after_the_dry_run_is_left_alone(api: Caller, some: list[Execution], noon: datetime) -> None:
    dry = api.post("/executions/cancel", {"filter": {"job": "job-2"}}).body
    now = database_now()
    late = runs.run("job-2", delay=timedelta(hours=1), now=now)
    done = api.post("/executions/cancel", dry["next"]).body
    assert done["done"] + done["asked_to_stop"] == dry["remaining"] > 0
    assert Execution.objects.get(pk=late.execution_id).state == State.SCHEDULED


def test_a_sweep_without_any_condition_is_refused(api: Caller, some: list[Execution]) -> None:
    for path in ("/executions/cancel", "/executions/replay"):
        for body in ({"filter": {}}, {"filter": {"created_before": "2099-01-01T00:00:00Z"}, "dry_run": False}):
            answer = api.post(path, body)
            assert (answer.status, answer.pointers) == (422, ["/filter"])
    assert api.post("/executions/cancel", {"filter": {"job": "job-0", "stat": "DEAD"}}).pointers == ["/filter/stat"]
