"""HTTP callbacks through the REST API: jobs, secrets, hosts."""

from datetime import timedelta
from typing import Any

import pytest

from access.models import AuditEntry, IdempotentAnswer
from access.roles import Role
from callbacks import hosts
from executions.clock import database_now
from jobs import kept_secrets, signing
from jobs.http_target import HttpTarget
from jobs.models import Job, JobVersion, Secret, SecretUse
from tests.calling import Caller, a_caller
from tests.tiers import once_embedded
from tests.unit.test_web_address import HOSTILE

pytestmark = pytest.mark.django_db
URL = "https://example.com/hooks/invoices"


@pytest.fixture
def api() -> Caller:
    return a_caller()


def a_body(**http: Any) -> dict[str, Any]:
    return {"key": "invoice", "target": {"http": {"url": URL, **http}}, "kwargs": {"amount": 5}}


# ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_callback_is_created_and_answered_whole(api: Caller) -> None:
    answer = api.post("/jobs", a_body())
    assert answer.status == 201
    assert answer.body["queue"] == "http"
    assert answer.body["target"] == {
        "http": {
            "url": URL,
            "method": "POST",
            "headers": {},
            "body": None,
            "timeout": 30,
            "expected": [],
            "secret": None,
            "asynchronous": False,
        }
    }


def test_every_field_arrives_where_it_belongs(api: Caller) -> None:
    kept_secrets.keep("billing", SecretUse.SIGNING)
    kept_secrets.keep("token", SecretUse.HEADER, value="Bearer abc")
    headers = {"X-A": "b", "Authorization": {"secret": "token"}}
    http = {"method": "put", "headers": headers, "body": [1], "timeout": 5, "expected": [201, 200], "secret": "billing"}
    assert api.post("/jobs", {**a_body(**http), "queue": "slow"}).status == 201
    job = Job.objects.get()
    assert (job.task, job.queue) == ("onbeat.http", "slow")
    assert HttpTarget.stored(job.http) == HttpTarget(URL, "PUT", headers, [1], 5, (200, 201), "billing")


def test_an_answer_that_is_sent_back_changes_nothing(api: Caller) -> None:
    kept_secrets.keep("billing", SecretUse.SIGNING)
    body = api.post("/jobs", a_body(secret="billing", headers={"X-A": "b"}, body="text")).body
    assert api.put("/jobs/by-key/invoice", body).body["version"] == 1
    version = api.get("/jobs/invoice/versions/1").body["definition"]
    assert version["target"] == body["target"]


def test_a_task_may_become_a_callback_and_a_callback_a_task(api: Caller) -> None:
    api.post("/jobs", {"key": "invoice", "target": {"task": "onbeat.echo"}})
    changed = api.patch("/jobs/invoice", {"target": {"http": {"url": URL}}})
    assert (changed.status, list(changed.body["target"])) == (200, ["http"])
    back = api.patch("/jobs/invoice", {"target": {"task": "onbeat.echo"}})
    assert back.body["target"] == {"task": "onbeat.echo"}
    assert Job.objects.get().http is None


def test_a_bulk_takes_tasks_and_callbacks_side_by_side(api: Caller) -> None:
    jobs = [a_body(), {"key": "echo", "target": {"task": "onbeat.echo"}}]
    assert api.post("/bulk/jobs", {"jobs": jobs}).status == 200
    assert set(Job.objects.values_list("task", "queue")) == {("onbeat.http", "http"), ("onbeat.echo", "default")}


@once_embedded
@pytest.mark.parametrize("url", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_url_is_refused_when_the_job_is_saved(api: Caller, url: str) -> None:
    answer = api.post("/jobs", a_body(url=url))
    if "\x00" in url:
        assert answer.status == 400
    else:
        assert (answer.status, answer.pointers) == (422, ["/target/http/url"])
    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    ("http", "pointer"),
    [
        ({"method": "CONNECT"}, "/target/http/method"),
        ({"method": "GET", "body": 1}, "/target/http/body"),
        ({"timeout": 0}, "/target/http/timeout"),
        ({"timeout": 3601}, "/target/http/timeout"),
        ({"expected": [100]}, "/target/http/expected"),
        ({"expected": ["200"]}, "/target/http/expected/0"),
        ({"secret": "nobody"}, "/target/http/secret"),
        ({"secret": "not a name"}, "/target/http/secret"),
        ({"asynchronous": True}, "/target/http/asynchronous"),
        ({"headers": {"X-A": {"secret": "nobody"}}}, "/target/http/headers"),
        ({"headers": {"X-A": {"secret": "a", "more": 1}}}, "/target/http/headers"),
        ({"headers": {"X-A": 5}}, "/target/http/headers"),
        ({"headers": {"X-A": "a\r\nX-B: c"}}, "/target/http/headers"),
        ({"headers": {"X-A": "a\nb"}}, "/target/http/headers"),
        ({"headers": {"X-A": "Zoë"}}, "/target/http/headers"),
        ({"headers": {"X-A": " a"}}, "/target/http/headers"),
        ({"headers": {"X A": "a"}}, "/target/http/headers"),
        ({"headers": {"X-A:": "a"}}, "/target/http/headers"),
        ({"headers": {"": "a"}}, "/target/http/headers"),
        ({"headers": {"X-A": "a", "x-a": "b"}}, "/target/http/headers"),
        ({"headers": {f"X-{n}": "a" for n in range(51)}}, "/target/http/headers"),
        *(
            ({"headers": {name: "a"}}, "/target/http/headers")
            for name in ("Host", "content-length", "Transfer-Encoding", "Connection", "TE", "Upgrade", "Expect")
        ),
        *(
            ({"headers": {name: "a"}}, "/target/http/headers")
            for name in ("webhook-id", "Webhook-Signature", "Onbeat-Job", "Idempotency-Key", "Proxy-Authorization")
        ),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place(api: Caller, http: dict[str, Any], pointer: str) -> None:
    answer = api.post("/jobs", a_body(**http))
    assert (answer.status in (400, 422), answer.pointers) == (True, [pointer])
    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"target": {}}, "/target"),
        ({"target": {"task": "onbeat.echo", "http": {"url": URL}}}, "/target"),
        ({"target": {"task": "onbeat.http"}}, "/target/task"),
        ({"target": {"http": {"url": URL}}, "args": [1]}, "/args"),
        ({"target": {"http": {}}}, "/target/http/url"),
        ({"target": {"http": {"url": URL, "uri": URL}}}, "/target/http/uri"),
    ],
)
def test_a_target_is_a_task_or_a_request(api: Caller, body: dict[str, Any], pointer: str) -> None:
    answer = api.post("/jobs", {"key": "invoice", **body})
    assert (answer.status in (400, 422), answer.pointers) == (True, [pointer])


def test_a_run_with_positional_arguments_is_refused(api: Caller) -> None:
    api.post("/jobs", a_body())
    answer = api.post("/jobs/invoice/runs", {"args": [1]})
    assert (answer.status, answer.pointers) == (422, ["/args"])


# ── Secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_signing_key_is_made_and_answered_once(api: Caller) -> None:
    made = api.put("/secrets/billing", {"use": "signing"})
    assert made.status == 201
    key = made.body["key"]
    assert len(signing.key_bytes(key)) == 32
    listed = api.get("/secrets")
    assert [(secret["name"], secret["use"], secret["keys"]) for secret in listed.body["secrets"]] == [
        ("billing", "signing", 1)
    ]
    again = api.put("/secrets/billing", {"use": "signing"})
    assert (again.status, again.body["keys"]) == (200, 2)
    told = str([listed, *AuditEntry.objects.values(), *IdempotentAnswer.objects.values()])
    assert key not in told
    assert [entry.action for entry in AuditEntry.objects.filter(subject="secret:billing").order_by("pk")] == [
        "secret.create",
        "secret.replace",
    ]


def test_a_value_that_was_given_is_answered_to_nobody(api: Caller) -> None:
    made = api.put("/secrets/token", {"use": "header", "value": "Bearer very-s3cret"})
    assert (made.status, "key" in made.body) == (201, False)
    assert "s3cret" not in str([made, api.get("/secrets"), *AuditEntry.objects.values()])


def test_a_job_with_secrets_shows_their_names_alone(api: Caller) -> None:
    api.put("/secrets/token", {"use": "header", "value": "Bearer very-s3cret"})
    api.post("/jobs", a_body(headers={"Authorization": {"secret": "token"}}))
    pages = [api.get(path) for path in ("/jobs", "/jobs/invoice", "/jobs/invoice/versions", "/audit")]
    assert "s3cret" not in str([pages, *JobVersion.objects.values()])
    assert pages[1].body["target"]["http"]["headers"] == {"Authorization": {"secret": "token"}}


@pytest.mark.parametrize(
    ("name", "body", "pointer"),
    [
        ("billing", {}, "/use"),
        ("billing", {"use": "other"}, "/use"),
        ("billing", {"use": "signing", "value": "short"}, "/value"),
        ("billing", {"use": "header"}, "/value"),
        ("billing", {"use": "signing", "value": ""}, "/value"),
        ("billing", {"use": "header", "value": ["hunter2"]}, "/value"),
        ("billing", {"use": "signing", "hosts": ["https://a.example"]}, "/hosts"),
        ("billing", {"use": "header", "value": "a\nb"}, "/value"),
        ("billing", {"use": "signing", "overlap": -1}, "/overlap"),
        ("-x", {"use": "signing"}, "/name"),
    ],
)
def test_a_secret_that_cannot_be_is_refused(api: Caller, name: str, body: dict[str, Any], pointer: str) -> None:
    answer = api.put(f"/secrets/{name}", body)
    assert (answer.status in (400, 422), answer.pointers) == (True, [pointer])
    assert "hunter2" not in str(answer.body)
    assert Secret.objects.count() == 0


def test_a_plain_value_of_a_header_that_tells_of_a_secret_is_warned_of(api: Caller) -> None:
    body = a_body(headers={"Authorization": "Bearer 7b1f", "X-Plain": "x"})
    (said,) = [text for text in api.post("/jobs", body).body["warnings"] if "header" in text]
    assert "can read the value of its header Authorization: keep it as a secret" in said


def test_the_use_of_a_secret_stays(api: Caller) -> None:
    api.put("/secrets/billing", {"use": "signing"})
    answer = api.put("/secrets/billing", {"use": "header", "value": "a"})
    assert (answer.status, answer.pointers) == (422, ["/use"])


def test_a_secret_is_removed_when_no_job_names_it(api: Caller) -> None:
    api.put("/secrets/billing", {"use": "signing"})
    api.post("/jobs", a_body(secret="billing"))
    assert api.delete("/secrets/billing").status == 409
    api.delete("/jobs/invoice")
    assert api.delete("/secrets/billing").body == {"removed": "billing"}
    assert api.delete("/secrets/billing").status == 404


def test_an_editor_sees_names_and_changes_nothing() -> None:
    editor = a_caller(Role.EDITOR)
    assert editor.get("/secrets").status == 200
    assert editor.put("/secrets/billing", {"use": "signing"}).status == 403
    assert a_caller(Role.OPERATOR).get("/secrets").status == 403


# ── Hosts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_host_that_rests_is_told_with_the_reason(api: Caller) -> None:
    now = database_now()
    for _ in range(hosts.FAILURES_UNTIL_REST):
        hosts.went_wrong("https://down.example", "the connection failed: Connection refused", began=now, now=now)
    hosts.went_wrong("https://shaky.example", "it answered 500", began=now, now=now)
    (down, shaky) = api.get("/hosts").body["hosts"]
    assert (down["origin"], down["state"], down["failures"], down["calls"]) == ("https://down.example", "resting", 5, 0)
    assert down["last_error"] == "the connection failed: Connection refused"
    assert (shaky["state"], shaky["rests_until"]) == ("failing", None)
    hosts.went_well("https://down.example", seconds=1, now=now + timedelta(minutes=1))
    assert {host["state"] for host in api.get("/hosts").body["hosts"]} == {"well", "failing"}
