"""A receiver that answers 202 and tells the end later, or never."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from api import callers
from beat.upkeep.rescue import rescue_lost_workers
from beat.upkeep.unheard import end_unheard
from executions import lifecycle, why
from executions.models import Attempt, Execution
from executions.retry import RetryPolicy
from executions.states import Outcome, Overlap, State
from jobs import definitions, kept_secrets
from jobs.http_target import HttpTarget
from jobs.models import SecretUse
from jobs.refusals import InvalidDefinition
from tests.delivering import deliver
from tests.making import claimed, planned
from tests.receiver import Receiver, answer, receiving

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _here(settings: Any, loopback_may_be_called: None) -> None:
    settings.ONBEAT_CALLBACKS_URL = "https://onbeat.example"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(answer(202, b"queued")) as started:
        yield started


def accepted(receiver: Receiver, noon: datetime, **fields: Any) -> Execution:
    """An execution whose receiver promised to tell its end."""
    target = HttpTarget(receiver.url(), is_asynchronous=True)
    job = definitions.create(key="report", http=target, now=noon, **fields)
    execution = planned(job, noon)
    deliver(execution)
    return execution


def deliver_when_due(execution: Execution) -> None:
    """Its retry, as if the hours had passed."""
    Execution.objects.filter(pk=execution.pk).update(available_at=execution.fire_time)
    deliver(execution)


def tell(receiver: Receiver, *, request: int = -1, **body: Any) -> Any:
    """As a receiver does, by the URL of a request that it got."""
    url = receiver.sent[request].headers["onbeat-completion-url"]
    assert url.startswith("https://onbeat.example/api/v1/completions/")
    return Client().post(url.removeprefix("https://onbeat.example"), body, content_type="application/json")


def test_it_stays_running_until_the_receiver_tells_its_success(receiver: Receiver, noon: datetime) -> None:
    execution = accepted(receiver, noon, timeout_seconds=600)
    assert (execution.state, execution.heartbeat_at) == (State.RUNNING, None)
    assert execution.awaited_until == execution.started_at + timedelta(minutes=10)
    assert "was accepted by its receiver, which tells the end until" in why.in_words(execution, now=noon)
    answered = tell(receiver, status="succeeded", result={"rows": 12})
    execution.refresh_from_db()
    assert (answered.status_code, answered.json()) == (200, {"state": "SUCCEEDED"})
    assert (execution.state, execution.result, execution.awaited_until) == (State.SUCCEEDED, {"rows": 12}, None)
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.response["status"], attempt.response["body"]) == ("SUCCEEDED", 202, "queued")


def test_no_beat_takes_its_worker_for_lost(receiver: Receiver, noon: datetime) -> None:
    execution = accepted(receiver, noon)
    lifecycle.heartbeat([(execution.pk, 1)], worker=execution.worker, now=noon)  # on its way when the 202 came
    assert rescue_lost_workers(datetime.now(UTC) + HOUR / 2) == 0
    assert lifecycle.claim_of(execution.pk, 1, worker=execution.worker) is None  # its child died afterwards
    execution.refresh_from_db()
    assert execution.state == State.RUNNING


def test_a_failure_that_is_told_is_tried_again_by_policy(receiver: Receiver, noon: datetime) -> None:
    execution = accepted(receiver, noon)
    assert tell(receiver, status="failed", error="the disk is full").json() == {"state": "SCHEDULED"}
    execution.refresh_from_db()
    assert (execution.attempt, execution.error) == (2, "ToldToFail: the disk is full")
    deliver(execution)
    assert tell(receiver, status="failed", final=True).json() == {"state": "DEAD"}
    assert [a.outcome for a in Attempt.objects.order_by("number")] == [Outcome.FAILED, Outcome.FAILED]


def test_progress_is_kept_and_ends_nothing(receiver: Receiver, noon: datetime) -> None:
    execution = accepted(receiver, noon)
    assert tell(receiver, status="progress", done=3, total=10, note="pages").json() == {"state": "RUNNING"}
    execution.refresh_from_db()
    assert execution.progress == {"done": 3, "total": 10, "note": "pages"}


def test_silence_is_a_timeout_that_is_tried_again(receiver: Receiver, noon: datetime) -> None:
    execution = accepted(receiver, noon, retry=RetryPolicy(max_attempts=2))
    assert execution.awaited_until is not None
    assert end_unheard(execution.awaited_until - timedelta(seconds=1)) == 0
    assert end_unheard(execution.awaited_until) == 1
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (State.SCHEDULED, 2)
    assert "No word came from the receiver in time" in execution.error
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.response["status"]) == (Outcome.TIMED_OUT, 202)
    deliver_when_due(execution)
    assert execution.awaited_until is not None
    end_unheard(execution.awaited_until)
    execution.refresh_from_db()
    assert execution.state == State.DEAD


def test_what_is_told_of_an_attempt_that_is_over_changes_nothing(receiver: Receiver, noon: datetime) -> None:
    execution = accepted(receiver, noon)
    assert execution.awaited_until is not None
    end_unheard(execution.awaited_until)
    deliver_when_due(execution)
    late = tell(receiver, request=0, status="succeeded")
    execution.refresh_from_db()
    assert (late.status_code, execution.state, execution.attempt) == (409, State.RUNNING, 2)
    assert late.json()["detail"] == "Attempt 1 is over, and nothing that is told of it counts any more."


def test_the_same_end_may_be_told_twice(receiver: Receiver, noon: datetime) -> None:
    accepted(receiver, noon)
    assert [tell(receiver, status="succeeded").status_code for _ in range(2)] == [200, 200]
    assert tell(receiver, status="failed").status_code == 409
    assert Attempt.objects.count() == 1


def test_a_receiver_may_be_faster_than_the_worker_that_called_it(noon: datetime) -> None:
    """The end is told before the 202 is recorded."""
    target = HttpTarget("http://127.0.0.1:1024/", is_asynchronous=True)
    execution = planned(definitions.create(key="report", http=target, now=noon), noon)
    claim = claimed(execution, now=noon)
    lifecycle.succeed(claim, result="at once", now=noon)
    answered = replace(claim, response={"status": 202})
    assert lifecycle.await_end(answered, until=noon + HOUR, now=noon) == "refused"
    execution.refresh_from_db()
    assert (execution.state, execution.result, execution.awaited_until) == (State.SUCCEEDED, "at once", None)
    assert Attempt.objects.get().response == {"status": 202}


def test_a_cancel_ends_it_though_no_worker_holds_it(receiver: Receiver, noon: datetime) -> None:
    execution = accepted(receiver, noon)
    lifecycle.cancel([execution.pk], reason="by test", now=noon)
    assert end_unheard(noon) == 1
    execution.refresh_from_db()
    assert (execution.state, Attempt.objects.get().outcome) == (State.CANCELLED, Outcome.CANCELLED)
    assert tell(receiver, status="succeeded").status_code == 409


def test_a_cancel_that_came_before_the_202_counts(noon: datetime) -> None:
    target = HttpTarget("http://127.0.0.1:1024/", is_asynchronous=True)
    execution = planned(definitions.create(key="report", http=target, now=noon), noon)
    claim = claimed(execution, now=noon)
    lifecycle.cancel([execution.pk], reason="by test", now=noon)
    assert lifecycle.await_end(claim, until=noon + HOUR, now=noon) == "cancelled"


def test_it_counts_as_running_for_its_jobs_limit(receiver: Receiver, noon: datetime) -> None:
    execution = accepted(receiver, noon, overlap=Overlap.QUEUE)
    follower = planned(execution.job, noon + HOUR)
    deliver(follower)
    assert (follower.state, follower.is_waiting) == (State.SCHEDULED, True)
    tell(receiver, status="succeeded")
    follower.refresh_from_db()
    assert follower.available_at <= datetime.now(UTC)  # woken
    deliver(follower)
    assert follower.state == State.RUNNING


@pytest.mark.parametrize("part", ["id", "attempt", "signature"])
def test_a_url_that_is_not_signed_for_this_attempt_tells_nothing(receiver: Receiver, noon: datetime, part: str) -> None:
    execution = accepted(receiver, noon)
    url = receiver.sent[0].headers["onbeat-completion-url"].removeprefix("https://onbeat.example")
    *rest, execution_id, attempt, signature = url.split("/")
    changed = {
        "id": [planned(execution.job, noon + HOUR).pk.__str__(), attempt, signature],
        "attempt": [execution_id, "2", signature],
        "signature": [execution_id, attempt, signature[:-1] + ("A" if signature[-1] != "A" else "B")],
    }
    answered = Client().post(
        "/".join([*rest, *changed[part]]), {"status": "succeeded"}, content_type="application/json"
    )
    assert answered.status_code == 404
    execution.refresh_from_db()
    assert execution.state == State.RUNNING


def test_no_log_has_an_address_that_still_counts(
    receiver: Receiver, noon: datetime, caplog: pytest.LogCaptureFixture
) -> None:
    accepted(receiver, noon)
    url = receiver.sent[0].headers["onbeat-completion-url"].removeprefix("https://onbeat.example")
    logging.getLogger("django.request").addHandler(caplog.handler)
    assert tell(receiver, status="nonsense").status_code == 400
    assert Client().get(url).status_code == 405
    assert "/completions/" in caplog.text
    assert url.rpartition("/")[2] not in caplog.text
    assert tell(receiver, status="succeeded").status_code == 200


def test_who_guesses_is_told_to_stop_and_locks_nothing(
    receiver: Receiver, noon: datetime, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "_DENIED_PER_MINUTE", 5)
    execution = accepted(receiver, noon)
    guess = f"/api/v1/completions/{execution.pk}/1/guess"
    statuses = []
    with django_assert_num_queries(0):
        for _ in range(10):
            statuses.append(
                Client(REMOTE_ADDR="192.0.2.7").post(guess, {}, content_type="application/json").status_code
            )
    assert (statuses[:5], statuses[-1]) == ([404] * 5, 429)


def test_a_receiver_tells_so_many_words_a_minute(
    receiver: Receiver, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "_TOLD_PER_MINUTE", 5)
    accepted(receiver, noon)
    statuses = [tell(receiver, status="progress", done=number).status_code for number in range(10)]
    assert (statuses[:5], statuses[-1]) == ([200] * 5, 429)


def test_secrets_that_are_told_back_are_blackened(receiver: Receiver, noon: datetime) -> None:
    kept_secrets.keep("token", SecretUse.HEADER, value="Bearer 7b1f9c-token", now=noon)
    target = HttpTarget(receiver.url(), headers={"Authorization": {"secret": "token"}}, is_asynchronous=True)
    job = definitions.create(key="report", http=target, now=noon)
    for number, word in enumerate(
        (
            {"status": "failed", "error": "you sent 7b1f9c-token"},
            {"status": "progress", "done": 1, "note": "got 7b1f9c-token"},
            {"status": "succeeded", "result": {"echo": ["7b1f9c-token"]}},
        )
    ):
        execution = planned(job, noon + number * HOUR)
        deliver(execution)
        assert tell(receiver, **word).status_code == 200
    assert "7b1f9c" not in repr([*Execution.objects.values(), *Attempt.objects.values()])
    assert Execution.objects.filter(result={"echo": ["[redacted]"]}).count() == 1


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/status"),
        ({"status": "done"}, "/status"),
        ({"status": "succeeded", "error": "x"}, "/error"),
        ({"status": "failed", "result": 1}, "/result"),
        ({"status": "progress"}, "/done"),
        ({"status": "progress", "done": "3"}, "/done"),
        ({"status": "succeeded", "resutl": 1}, "/resutl"),
    ],
)
def test_words_that_cannot_be_read_are_pointed_at(
    receiver: Receiver, noon: datetime, body: dict[str, Any], pointer: str
) -> None:
    execution = accepted(receiver, noon)
    answered = tell(receiver, **body)
    assert answered.status_code in (400, 422)
    assert answered.json()["errors"][0]["pointer"] == pointer
    execution.refresh_from_db()
    assert execution.state == State.RUNNING


def test_without_an_address_of_this_installation_it_is_refused(noon: datetime, settings: Any) -> None:
    settings.ONBEAT_CALLBACKS_URL = ""
    with pytest.raises(InvalidDefinition, match="set ONBEAT_CALLBACKS_URL"):
        definitions.create(key="x", http=HttpTarget("http://127.0.0.1:1024/", is_asynchronous=True), now=noon)


def test_a_result_that_is_told_later_is_kept_by_no_backend_of_celery(noon: datetime) -> None:
    target = HttpTarget("http://127.0.0.1:1024/", is_asynchronous=True)
    with pytest.raises(InvalidDefinition, match="read it from the execution"):
        definitions.create(key="x", http=target, keep_result=True, now=noon)
