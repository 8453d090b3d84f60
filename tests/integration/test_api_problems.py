"""What cannot be done is answered with one sentence and the place to correct; never with a 500 or a stack trace."""

import re
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from django.db import DataError, InterfaceError, OperationalError
from django.test import Client

from access.roles import Role
from api import callers, pages
from api.jobs import listing
from api.shapes import MOST_ERRORS
from executions.models import Execution
from jobs.models import Job, JobVersion
from tests.calling import Caller, a_caller
from tests.making import a_job
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
TARGET = {"task": "onbeat.echo"}
GOOD = {"key": "a", "target": TARGET}


@pytest.fixture
def api() -> Caller:
    return a_caller()


def is_problem(answer: Any) -> bool:
    body = answer.body
    is_whole = {"type", "title", "status", "detail"} <= body.keys() and body["status"] == answer.status
    is_sentence = body["detail"][0].isprintable() and body["detail"].rstrip()[-1] in ".?"
    return answer.headers["Content-Type"] == "application/problem+json" and is_whole and is_sentence


# ── Bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "missing"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b'{"key": "\\u0000"}', "NUL"),
        (b'{"\\u0000": 1}', "NUL"),
        (b'{"key": "\\ud800"}', "surrogate"),
        (b'{"kwargs": {"\\udfff": 1}}', "surrogate"),
        (b'{"key": NaN}', "NaN is no number"),
        (b'{"key": -Infinity}', "-Infinity is no number"),
        (b'{"key": 1e999}', "1e999 is too large"),
        (b'{"priority": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"key": "a", "target": {"task": "x"}, "key": "b"}', "the name 'key' stands twice in one object"),
        (b"[" * 200 + b"]" * 200, "nested too deep"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 50_000, "nested too deep"),
        (b"[]", "must be an object"),
        (b"7", "must be an object"),
        (b"null", "must be an object"),
        (b'"x"', "must be an object"),
    ],
)
def test_a_body_that_cannot_be_read_is_told_so_in_a_sentence(raw: bytes, words: str, api: Caller) -> None:
    answer = api.post("/jobs", raw or b" ")
    assert (answer.status, is_problem(answer)) == (400, True)
    assert words in str(answer.body) or words == "missing"
    assert len(answer.body["detail"]) < 300


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"key": 7}, "/key", "must be text, not 7"),
        ({"key": None}, "/key", "must not be null"),
        ({"target": "onbeat.echo"}, "/target", "must be an object"),
        ({"target": {"task": "onbeat.echo", "http": {}}}, "/target/http/url", "url is missing"),
        ({"target": {"task": "onbeat.echo", "lives": True}}, "/target/lives", "There is no field 'lives'"),
        ({"args": {}}, "/args", "must be a list"),
        ({"kwargs": []}, "/kwargs", "must be an object"),
        ({"priority": True}, "/priority", "must be a whole number, not true"),
        ({"priority": 5.0}, "/priority", "must be a whole number, not 5.0"),
        ({"priority": 10}, "/priority", "must be 9 or less"),
        ({"timeout": "600"}, "/timeout", "must be a whole number, not '600'"),
        ({"timeout": 0}, "/timeout", "must be 1 or more"),
        ({"keep_result": "yes"}, "/keep_result", "must be true or false"),
        ({"overlap": "never"}, "/overlap", "must be one of allow, skip, queue, cancel_previous"),
        ({"tags": ["a", 1]}, "/tags/1", "must be text"),
        ({"retry": {"initial_dely": 1}}, "/retry/initial_dely", "did you mean 'initial_delay'?"),
        ({"retry": {"jitter": "1"}}, "/retry/jitter", "must be a number"),
        ({"schedule": "@daily"}, "/schedule", "must be an object"),
        ({"schedule": {"once": {"at": "2027-02-30T00:00:00Z"}}}, "/schedule/once/at", "such as 2026-11-01T07:30:00Z"),
        ({"schedule": {"once": {"at": "0001-01-01T00:00:00+14:00"}}}, "/schedule/once/at", "between the years"),
        ({"schedulle": None}, "/schedulle", "did you mean 'schedule'?"),
        ({"x/y~z": 1}, "/x~1y~0z", "There is no field 'x/y~z'"),
    ],
)
def test_a_value_of_another_kind_is_refused_where_it_stands(
    change: dict[str, Any], pointer: str, words: str, api: Caller
) -> None:
    answer = api.post("/jobs", {**GOOD, **change})
    assert (answer.status, answer.pointers, is_problem(answer)) == (400, [pointer], True)
    assert words in answer.body["errors"][0]["detail"]
    assert pointer in answer.body["detail"]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"key": "-a"}, "/key", "must be 1 to 200 letters"),
        ({"target": {"task": "onbeat.eco"}}, "/target/task", "did you mean 'onbeat.echo'"),
        ({"target": {"task": "nope.x"}}, "/target/task", '"lives_elsewhere": true in the target'),
        ({"target": {"task": "celery.chord"}}, "/target/task", "one of Celery's own"),
        ({"schedule": {}}, "/schedule", "one of cron, every, once, and this names none"),
        ({"schedule": {"cron": "@daily", "every": 5}}, "/schedule", "not cron and every"),
        ({"schedule": {"cron": "61 * * * *"}}, "/schedule/cron", "61"),
        ({"schedule": {"cron": "@every 5m"}}, "/schedule/cron", 'use "every" in place of "cron"'),
        ({"schedule": {"cron": "@daily", "timezone": "Mars"}}, "/schedule/timezone", "Mars"),
        ({"schedule": {"every": 60, "timezone": "UTC"}}, "/schedule/timezone", "timezone belongs to cron"),
        ({"schedule": {"once": {}}}, "/schedule/once", "at or delay"),
        ({"schedule": {"once": {"delay": 10**30}}}, "/schedule/once/delay", "longer than any calendar"),
        ({"schedule": {"once": {"at": "2020-01-01T00:00:00Z"}}}, "/schedule", "never fires after now"),
        ({"schedule": {"every": 10**12}}, "/schedule/every", "10 years"),
        ({"schedule": {"every": 60, "jitter": 10**9}}, "/schedule/jitter", "jitter must be 0 to 86400"),
        ({"schedule": {"every": 60, "misfire": {"grace": 10**10}}}, "/schedule/misfire/grace", "misfire.grace must be"),
        ({"schedule": {"every": 60, "misfire": {"limit": 10**10}}}, "/schedule/misfire/limit", "misfire.limit must be"),
        ({"retry": {"initial_delay": 10**9}}, "/retry/initial_delay", "retry.initial_delay must be 0 to"),
        ({"retry": {"max_delay": 10**9}}, "/retry/max_delay", "retry.max_delay must be 0 to"),
        ({"retry": {"retry_on": ["not a class"]}}, "/retry/retry_on", "must name error classes"),
        ({"timeout": 10**9}, "/timeout", "timeout must be 1 to"),
        ({"stop_grace": 10**9}, "/stop_grace", "stop_grace must be 0 to"),
        ({"queue": "dead-letters"}, "/queue", "not 'dead-letters'"),
        ({"owner": "a\nb"}, "/owner", "printable"),
        ({"tags": ["ä"]}, "/tags", "letters, digits"),
        ({"kwargs": {"x": "y" * 70_000}}, "/kwargs", "the limit is 65536"),
        ({"kwargs": {"__type__": 1, "__value__": 2}}, "/kwargs", "__type__"),
    ],
)
def test_a_value_that_can_be_read_and_cannot_be_is_refused_in_the_words_of_the_body(
    change: dict[str, Any], pointer: str, words: str, api: Caller
) -> None:
    answer = api.post("/jobs", {**GOOD, **change})
    assert (answer.status, answer.pointers, is_problem(answer)) == (422, [pointer], True)
    assert words in answer.body["detail"]
    assert "_seconds" not in answer.body["detail"]
    assert not Job.objects.exists()


def test_a_body_in_chunks_is_refused_and_not_taken_for_an_empty_one(api: Caller, noon: datetime) -> None:
    a_job(now=noon, key="a")
    # As a server hands it on: without its length, so that Django reads nothing.
    environ = {"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""}
    response = Client().post("/api/v1/jobs/a/runs", headers={"Authorization": f"Bearer {api.secret}"}, **environ)
    assert (response.status_code, response.json()["title"]) == (411, "Length Required")
    assert not Execution.objects.exists()


def test_who_makes_very_many_mistakes_is_told_of_the_first_hundred(api: Caller, noon: datetime) -> None:
    a_job(now=noon, key="a")
    many = api.post("/jobs/a/bulk-runs", {"runs": [1] * 9000})
    assert (many.status, len(many.body["errors"])) == (400, MOST_ERRORS)
    names = api.post("/jobs", {f"field-{number}": 1 for number in range(5000)})
    assert (names.status, len(names.body["errors"])) == (400, MOST_ERRORS + 2)  # and the two that are missing
    too_many = api.post("/jobs/a/bulk-runs", {"runs": [1] * 20_000})
    assert (too_many.pointers, too_many.body["errors"][0]["detail"]) == (
        ["/runs"],
        "This must hold up to 10000, not 20000.",
    )


@pytest.mark.parametrize(
    "condition", [{"state": []}, {"trigger": []}, {"worker": ""}, {"queue": ""}, {"fingerprint": ""}, {"job": ""}]
)
def test_an_empty_condition_of_a_sweep_does_not_mean_everything(condition: Any, api: Caller, noon: datetime) -> None:
    a_job(now=noon, key="a")
    answer = api.post("/executions/cancel", {"filter": {"job": "a", **condition}, "dry_run": False})
    assert (answer.status, answer.pointers) == (400, [f"/filter/{next(iter(condition))}"])


def test_all_wrong_places_are_named_at_once(api: Caller) -> None:
    answer = api.post("/jobs", {"target": {"task": 1}, "timeout": "x", "retry": {"a": 1}})
    assert answer.pointers == ["/target/task", "/timeout", "/retry/a", "/key"]
    assert answer.body["detail"] == "4 things in the request have to be corrected."


def test_a_body_beyond_the_limit_is_too_large(api: Caller, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 2000
    answer = api.post("/jobs", {**GOOD, "owner": "x" * 3000})
    assert (answer.status, is_problem(answer)) == (413, True)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_that_is_not_said_to_be_json_is_not_guessed_at(content_type: str, api: Caller) -> None:
    answer = api.call("POST", "/jobs", GOOD, Content_Type=content_type)
    assert (answer.status, is_problem(answer)) == (415, True)


# ── Addresses and queries ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["/nothing", "/jobs/", "/jobs/1/nothing", "/executions/1", "/jobs/a%00b", "/jobs/%ff", "/jobs/by-key/"]
)
def test_an_address_that_leads_nowhere_is_answered_in_json(path: str, api: Caller) -> None:
    answer = api.get(path)
    assert (answer.status, is_problem(answer)) == (404, True)


def test_a_method_that_an_address_does_not_take_is_told_which_it_takes(api: Caller) -> None:
    answer = api.delete("/jobs")
    assert (answer.status, answer.headers["Allow"], is_problem(answer)) == (405, "GET, HEAD, POST", True)
    assert a_caller(Role.VIEWER).delete("/jobs").status == 405  # whatever the role


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/jobs?limit=0", "limit"),
        ("/jobs?limit=201", "limit"),
        ("/jobs?limit=x", "limit"),
        ("/jobs?limit=99999999999999999999", "limit"),
        ("/jobs?order=size", "order"),
        ("/jobs?state=ALIVE", "state"),
        ("/jobs?stat=ACTIVE", "stat"),
        ("/jobs?search=%00", "search"),
        ("/jobs?cursor=%00", "cursor"),
        ("/jobs?cursor=W10", "cursor"),
        ("/jobs?cursor=WyJhIiwgMTAwMDAwMDAwMDAwMDAwMDAwMDAwMDBd", "cursor"),
        ("/executions?cursor=WyIwMDAxLTAxLTAxVDAwOjAwOjAwKzE0OjAwIiwgImZmZmZmZmZmZmZmZiJd", "cursor"),
        (f"/executions?cursor={pages.written('2026-01-01T00:00:00Z', UUID(int=2**128 - 1))}", "cursor"),
        (f"/executions?cursor={pages.written('0001-01-01T00:00:00+14:00', UUID(int=1))}", "cursor"),
        (f"/executions?cursor={pages.written('2026-01-01T00:00:00', UUID(int=1))}", "cursor"),
        ("/executions?since=yesterday", "since"),
        ("/executions?trigger=", "trigger"),
        ("/statistics?since=2000-01-01T00:00:00Z", "since"),
        ("/jobs/a/preview?count=1000", "count"),
        ("/jobs/a/diff", "since"),
    ],
)
def test_a_query_that_cannot_be_is_refused_by_its_parameter(
    path: str, parameter: str, api: Caller, noon: datetime
) -> None:
    a_job(now=noon, key="a")
    answer = api.get(path)
    assert (answer.status, answer.pointers, is_problem(answer)) == (400, [parameter], True)


def test_an_unknown_job_is_answered_with_the_nearest(api: Caller, noon: datetime) -> None:
    a_job(now=noon, key="daily-report")
    for path in ("/jobs/daily-reprot", "/jobs/daily-reprot/preview", "/executions?job=daily-reprot"):
        answer = api.get(path)
        assert (answer.status, answer.body["detail"]) == (
            404,
            "There is no job 'daily-reprot'; did you mean 'daily-report'?",
        )


# ── Who asks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whoever_does_not_say_who_they_are_is_told_how(noon: datetime) -> None:
    answer = Caller().get("/jobs")
    assert (answer.status, is_problem(answer)) == (401, True)
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="onbeat"'
    unknown = Caller("onbeat_aaaaaaaaaaaa_" + "x" * 43).get("/jobs")
    assert (unknown.status, unknown.body["detail"][:27]) == (401, "The API key is not known; c")


def test_a_role_that_is_too_small_is_told_which_one_is_needed() -> None:
    answer = a_caller(Role.OPERATOR).post("/jobs", GOOD)
    assert (answer.status, is_problem(answer)) == (403, True)
    assert answer.body["detail"].startswith("This needs the role editor and the operator (")
    assert not Job.objects.exists()


def test_a_session_needs_the_csrf_token_and_a_role() -> None:
    user = get_user_model().objects.create_user("anna", password="x", is_staff=True)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    told = client.get("/api/v1/jobs")
    assert (told.status_code, told.json()["detail"][:24]) == (403, "anna has no role here; a")
    user.is_superuser = True
    user.save()
    assert client.get("/api/v1/caller").json()["role"] == "admin"
    refused = client.post("/api/v1/jobs", GOOD, content_type="application/json")
    assert (refused.status_code, "CSRF" in refused.json()["detail"]) == (403, True)
    client.get("/admin/")
    token = client.cookies["csrftoken"].value
    headers = {"X-CSRFToken": token}
    assert client.post("/api/v1/jobs", GOOD, content_type="application/json", headers=headers).status_code == 201
    assert JobVersion.objects.get().changed_by == "anna"


# ── Limits ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_asks_too_often_is_told_when_to_come_again(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "_limit", callers.RateLimit())
    settings.ONBEAT_API_REQUESTS_PER_MINUTE = 3
    one, other = a_caller(), a_caller()
    assert [one.get("/caller").status for _ in range(4)] == [200, 200, 200, 429]
    answer = one.post("/jobs", GOOD)
    assert (answer.status, is_problem(answer)) == (429, True)
    assert 1 <= int(answer.headers["Retry-After"]) <= 20
    assert other.get("/caller").status == 200
    assert not Job.objects.exists()
    viewer = a_caller(Role.VIEWER)
    assert [viewer.post("/jobs", GOOD).status for _ in range(4)] == [403, 403, 403, 429]


def test_whoever_guesses_keys_is_stopped_by_address(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "_limit", callers.RateLimit())
    monkeypatch.setattr(callers, "_DENIED_PER_MINUTE", 2)
    guess = Caller("onbeat_x")
    assert [guess.get("/jobs").status for _ in range(3)] == [401, 401, 429]
    # A header that anybody can send does not make another address of it.
    assert guess.get("/jobs", X_Forwarded_For="10.1.1.1").status == 429


# ── Nobody's fault ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("gone")])
def test_a_database_that_is_away_is_answered_with_when_to_come_again(
    error: Exception, api: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_query: Any) -> None:
        raise error

    monkeypatch.setattr(listing, "page", fail)
    answer = api.get("/jobs")
    assert (answer.status, answer.headers["Retry-After"], is_problem(answer)) == (503, "5", True)
    assert "gone" not in str(answer.body)


def test_a_value_that_the_database_does_not_take_is_bad_input(api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_query: Any) -> None:
        raise DataError("secret details")

    monkeypatch.setattr(listing, "page", fail)
    answer = api.get("/jobs")
    assert (answer.status, is_problem(answer)) == (400, True)
    assert "secret" not in str(answer.body)


def test_an_error_that_nobody_foresaw_shows_nothing_of_itself(api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_query: Any) -> None:
        raise ZeroDivisionError("secret details")

    monkeypatch.setattr(listing, "page", fail)
    client = Client(raise_request_exception=False)
    response = client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {api.secret}"})
    assert (response.status_code, response.headers["Content-Type"]) == (500, "application/problem+json")
    assert "secret" not in response.content.decode()
    assert "Traceback" not in response.content.decode()


def test_a_refused_change_leaves_nothing_behind(api: Caller, noon: datetime) -> None:
    a_job(now=noon, key="b")
    before = Job.objects.count(), JobVersion.objects.count(), Execution.objects.count()
    bad = {"jobs": [{"key": "new", "target": TARGET}, {"key": "b", "target": TARGET, "queue": "dead-letters"}]}
    answer = api.post("/bulk/jobs", bad)
    assert (answer.status, answer.pointers) == (422, ["/jobs/1/queue"])
    assert (Job.objects.count(), JobVersion.objects.count(), Execution.objects.count()) == before


# ── The documentation ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_of_the_documentation_asks_nobody_elsewhere(client: Client) -> None:
    page = client.get("/api/docs")
    assert page.status_code == 200
    text = page.content.decode()
    addresses = re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    (script,) = [address for address in addresses if not address.startswith("/static/")]
    assert script.startswith("/api/docs?")
    assert '"validatorUrl": null' in client.get(script).content.decode()
    for address in addresses:
        assert client.get(address).status_code == 200, address
