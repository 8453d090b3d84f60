"""A job that sends a request: what is sent, what each answer leads to, and what of it is kept."""

import json
import socket
from datetime import datetime, timedelta
from typing import Any, NoReturn

import pytest
from django.db import OperationalError
from standardwebhooks import Webhook

from callbacks import hosts, tasks
from callbacks.models import Host
from executions.models import Attempt, Execution
from executions.retry import RetryPolicy
from executions.states import State
from jobs import definitions, kept_secrets, runs
from jobs.http_target import HttpTarget
from jobs.models import Job, JobState, SecretUse
from tests.calling_back import a_callback, called
from tests.delivering import deliver
from tests.making import planned
from tests.receiver import Act, answer, drip, hang_up, huge, receiving, reset, silent
from tests.tiers import once_embedded
from tests.unit.test_web_address import HOSTILE

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("loopback_may_be_called")]


def test_the_payload_is_sent_as_json_with_what_a_receiver_wants_to_know(noon: datetime) -> None:
    receiver, execution = called(answer(204), noon=noon, kwargs={"amount": 5, "to": "Zoë"})
    (sent,) = receiver.sent
    assert (execution.state, execution.queue, execution.result) == (State.SUCCEEDED, "http", {"status": 204})
    assert sent.line == "POST /hook HTTP/1.1"
    assert json.loads(sent.body) == {"amount": 5, "to": "Zoë"}
    said = {name: sent.headers[name] for name in ("content-type", "onbeat-job", "onbeat-attempt", "onbeat-fire-time")}
    assert said == {
        "content-type": "application/json",
        "onbeat-job": "callback",
        "onbeat-attempt": "1",
        "onbeat-fire-time": noon.isoformat(),
    }
    assert sent.headers["idempotency-key"] == sent.headers["webhook-id"] == str(execution.pk)
    assert "webhook-signature" not in sent.headers


@pytest.mark.parametrize(
    ("target", "body", "kind"),
    [
        ({"body": {"fixed": True}}, b'{"fixed":true}', "application/json"),
        ({"body": [1, "é"]}, '[1,"é"]'.encode(), "application/json"),
        ({"body": "plain words"}, b"plain words", "text/plain; charset=utf-8"),
        ({"body": "<a/>", "headers": {"Content-Type": "text/xml"}}, b"<a/>", "text/xml"),
        ({"method": "PUT"}, b'{"n":1}', "application/json"),
        ({"method": "delete"}, b'{"n":1}', "application/json"),
        ({"method": "GET"}, b"", None),
        ({"method": "HEAD"}, b"", None),
    ],
)
def test_method_body_and_headers_are_the_jobs(
    noon: datetime, target: dict[str, Any], body: bytes, kind: str | None
) -> None:
    receiver, execution = called(noon=noon, kwargs={"n": 1}, **target)
    (sent,) = receiver.sent
    assert execution.state == State.SUCCEEDED
    assert sent.line.split()[0] == target.get("method", "post").upper()
    assert (sent.body, sent.headers.get("content-type")) == (body, kind)


def test_a_run_brings_its_own_payload(noon: datetime) -> None:
    with receiving() as receiver:
        job = a_callback(receiver, now=noon, kwargs={"user": 1})
        execution = Execution.objects.get(pk=runs.run(job, kwargs={"user": 2}).execution_id)
        deliver(execution)
    assert json.loads(receiver.sent[0].body) == {"user": 2}


def test_attempts_share_an_id_and_are_signed_anew_with_each_key(noon: datetime) -> None:
    old = kept_secrets.keep("billing", SecretUse.SIGNING).key
    new = kept_secrets.replace("billing").key
    with receiving(answer(503), answer(200)) as receiver:
        execution = planned(a_callback(receiver, now=noon, secret="billing", kwargs={"n": 1}), noon)
        deliver(execution)
        deliver(execution)
    first, second = receiver.sent
    assert execution.state == State.SUCCEEDED
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert [sent.headers["onbeat-attempt"] for sent in receiver.sent] == ["1", "2"]
    assert int(second.headers["webhook-timestamp"]) >= int(first.headers["webhook-timestamp"])
    for sent in receiver.sent:
        for key in (old, new):
            assert Webhook(key).verify(sent.body.decode(), sent.headers) == {"n": 1}


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_a_2xx_succeeds(noon: datetime, status: int) -> None:
    _, execution = called(answer(status), noon=noon)
    assert execution.state == State.SUCCEEDED


@pytest.mark.parametrize("act", [answer(408), answer(425), answer(429), answer(500), answer(503), reset, hang_up])
def test_what_may_go_better_is_tried_again_by_policy(noon: datetime, act: Act) -> None:
    _, execution = called(act, noon=noon)
    assert (execution.state, execution.attempt, execution.reason) == (State.SCHEDULED, 2, "waits for its retry")


def test_a_slow_drip_is_a_timeout_that_is_tried_again(noon: datetime) -> None:
    _, execution = called(drip, noon=noon, timeout_seconds=1)
    assert (execution.state, execution.attempt) == (State.SCHEDULED, 2)
    assert execution.error.startswith("Unanswered: POST http://127.0.0.1:")
    assert execution.error.endswith("no whole answer within 1 s")


def test_an_endless_answer_is_cut(noon: datetime) -> None:
    _, execution = called(huge, noon=noon)
    kept = Attempt.objects.get(execution=execution.pk).response
    assert (execution.state, kept["is_cut"], len(kept["body"])) == (State.SUCCEEDED, True, 4096)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 422])
def test_a_definite_no_gives_up_at_once(noon: datetime, status: int) -> None:
    receiver, execution = called(answer(status, location="/elsewhere"), noon=noon)
    assert (execution.state, execution.attempt, len(receiver.sent)) == (State.DEAD, 1, 1)
    assert f"answered {status}" in execution.error
    assert "Traceback" not in execution.error


def test_a_policy_may_name_our_errors(noon: datetime) -> None:
    _, execution = called(answer(503), noon=noon, retry=RetryPolicy(give_up_on=("AnsweredLater",)))
    assert execution.state == State.DEAD


@pytest.mark.parametrize(
    ("asked", "seconds"), [("120", 120), ("5", 30), ("999999", 3600)], ids=["longer", "shorter", "too long"]
)
def test_retry_after_is_honoured_up_to_a_cap_and_never_hurries(noon: datetime, asked: str, seconds: int) -> None:
    _, execution = called(answer(429, retry_after=asked), noon=noon)
    ended = Attempt.objects.get(execution=execution.pk).finished_at
    assert execution.available_at - ended == timedelta(seconds=seconds)


def test_a_410_pauses_the_job_and_says_why(noon: datetime) -> None:
    receiver, execution = called(answer(410), noon=noon)
    job = Job.objects.get(key="callback")
    assert (execution.state, job.state) == (State.DEAD, JobState.PAUSED)
    assert job.paused_reason == f"POST {receiver.url()} answered 410 Gone"
    assert job.versions.first().through == "worker"


def test_a_410_of_a_url_that_was_changed_meanwhile_pauses_nothing(noon: datetime) -> None:
    with receiving(answer(410)) as receiver:
        job = a_callback(receiver, now=noon)
        as_it_was = Job.objects.get(pk=job.pk)
        definitions.change(job, version=1, http=HttpTarget(receiver.url("/new")))
        tasks._pause(as_it_was, "answered 410 Gone")
    job.refresh_from_db()
    assert job.state == JobState.ACTIVE


def test_status_duration_headers_and_the_beginning_of_the_body_are_kept(noon: datetime) -> None:
    receiver, execution = called(answer(200, b"done", x_request_id="7", set_cookie="sid=1"), noon=noon)
    kept = Attempt.objects.get(execution=execution.pk).response
    assert 0 <= kept.pop("seconds") < 60
    assert kept == {
        "request": f"POST {receiver.url()}",
        "status": 200,
        "headers": {"content-length": "4", "x-request-id": "7", "set-cookie": "[redacted]"},
        "body": "done",
        "is_cut": False,
    }


def test_the_address_is_looked_at_again_when_it_is_called(noon: datetime, settings: Any) -> None:
    with receiving() as receiver:
        execution = planned(a_callback(receiver, now=noon), noon)
        settings.ONBEAT_CALLBACKS_NETWORKS = []
        deliver(execution)
    assert (execution.state, receiver.connections) == (State.DEAD, 0)
    assert execution.error == "Forbidden: The address 127.0.0.1 is not a public one; " + (
        "ONBEAT_CALLBACKS_NETWORKS allows networks of your own."
    )


STORABLE = {name: url for name, url in HOSTILE.items() if "\0" not in url}  # no database takes that one


@once_embedded
@pytest.mark.parametrize("url", STORABLE.values(), ids=STORABLE)
def test_a_hostile_url_that_was_stored_behind_our_back_is_refused_before_any_socket(
    url: str, noon: datetime, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ONBEAT_CALLBACKS_NETWORKS, settings.ONBEAT_CALLBACKS_PORTS = [], ["80", "443"]
    job = definitions.create(key="callback", http=HttpTarget("https://example.com/"), now=noon)
    execution = planned(job, noon)
    Job.objects.update(http={"url": url})
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, _must_not_be_called)
    deliver(execution)
    assert (execution.state, execution.attempt) == (State.DEAD, 1)
    assert execution.error.startswith("Forbidden: ")


def _must_not_be_called(*_args: Any, **_more: Any) -> NoReturn:
    raise AssertionError("a socket was opened")


def test_a_url_that_was_changed_meanwhile_is_called_by_the_next_attempt(noon: datetime) -> None:
    with receiving(answer(503)) as wrong, receiving() as right:
        job = a_callback(wrong, now=noon)
        execution = planned(job, noon)
        deliver(execution)
        definitions.change(job, version=1, http=HttpTarget(right.url()))
        deliver(execution)
    assert (execution.state, len(wrong.sent), len(right.sent)) == (State.SUCCEEDED, 1, 1)


def test_a_secret_that_is_gone_is_told_by_name(noon: datetime) -> None:
    kept_secrets.keep("billing", SecretUse.SIGNING)
    with receiving() as receiver:
        execution = planned(a_callback(receiver, now=noon, secret="billing"), noon)
        kept_secrets.Secret.objects.all().delete()  # behind our back
        deliver(execution)
    assert (execution.state, receiver.connections) == (State.DEAD, 0)
    assert execution.error == "GaveUp: a secret of the job cannot be used: 'billing' is gone"


def test_the_task_without_a_job_sends_nothing(noon: datetime) -> None:
    from callbacks.tasks import http

    with pytest.raises(Exception, match="there is no request to send"):
        http.apply(kwargs={"url": "http://127.0.0.1/"}).get()


def test_what_a_receiver_says_back_about_secrets_is_blackened(noon: datetime) -> None:
    kept_secrets.keep("token", SecretUse.HEADER, value="Bearer 7b1f9c-token", now=noon)
    says_it_back = [
        answer(401, b"the key 7b1f9c-token is not known", x_key="7b1f9c-token"),
        lambda connection, _sent: connection.sendall(b"7b1f9c-token is no HTTP\r\n\r\n"),
    ]
    headers = {"Authorization": {"secret": "token"}}
    for number, act in enumerate(says_it_back):
        receiver, execution = called(act, noon=noon, key=f"job-{number}", headers=headers)
        assert receiver.sent[0].headers["authorization"] == "Bearer 7b1f9c-token"
        told = [*Execution.objects.values(), *Attempt.objects.values(), *Host.objects.values()]
        assert execution.error
        assert "7b1f9c" not in repr(told)


def test_what_the_answer_was_counts_also_when_nobody_can_note_how_the_host_did(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: Any, **_more: Any) -> NoReturn:
        raise OperationalError("the database is away")

    monkeypatch.setattr(hosts, "went_well", away)
    monkeypatch.setattr(hosts, "went_wrong", away)
    states = [called(answer(status), noon=noon, key=f"job-{status}")[1] for status in (200, 503, 404)]
    assert [execution.state for execution in states] == [State.SUCCEEDED, State.SCHEDULED, State.DEAD]
    assert "503" in states[1].error


def test_the_time_limit_of_the_job_ends_a_call_as_well(noon: datetime) -> None:
    _, execution = called(silent, noon=noon, timeout_seconds=30, limit=1)
    assert "no whole answer within 0.95 s" in execution.error
