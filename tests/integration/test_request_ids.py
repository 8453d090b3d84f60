"""The name of a request goes with all that came of it: its answer, its lines, the executions that it asked for."""

import json
import logging
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from structlog.contextvars import bound_contextvars

from access.roles import Role
from executions import events, lifecycle, messages
from executions.clock import database_now
from executions.log_lines import JsonLines
from executions.messages import REQUEST_HEADER, delivery, of_execution
from executions.models import Execution
from executions.request_ids import HEADER
from executions.states import State, Trigger
from jobs import runs
from jobs.models import Job
from jobs.recurrence import Every
from tests.calling import Caller, a_caller
from tests.furnished import ROOT
from tests.making import a_job, claimed, given_up, outgoing, planned
from tests.visiting import a_visitor, confirm
from workers import context, runner

pytestmark = pytest.mark.django_db
ASKED = "asked-1:of.the_test"


@pytest.fixture
def api() -> Caller:
    return a_caller()


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon, key="mail")


@pytest.fixture
def lines() -> Iterator[Any]:
    """What is logged meanwhile, as JSON."""
    handler = logging.StreamHandler(StringIO())
    handler.setFormatter(JsonLines())
    logging.getLogger().addHandler(handler)
    yield lambda: [json.loads(line) for line in handler.stream.getvalue().splitlines()]
    logging.getLogger().removeHandler(handler)


# ── Of a request ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("brought", ["a", "A-9_z.:", "x" * 64, str(uuid.UUID(int=7))])
def test_a_plain_name_that_is_brought_is_taken_and_sent_back(client: Client, brought: str) -> None:
    assert client.get("/health/live", headers={HEADER: brought})[HEADER] == brought


@pytest.mark.parametrize(
    "brought", ["", " ", "x" * 65, "a b", "a\nb", "a\r\nSet-Cookie: x=1", "é", "a\x00", "${jndi:x}", "<b>", "a\n", "'"]
)
def test_another_one_is_not_taken_but_a_new_one_made(client: Client, brought: str) -> None:
    first, second = (client.get("/health/live", headers={HEADER: brought})[HEADER] for _ in range(2))
    assert uuid.UUID(first).hex == first
    assert first != second


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/v1/jobs/none", 404), ("/nowhere", 404), ("/api/v1/jobs", 401), ("/metrics", 403), ("/health/ready", 503)],
)
def test_errors_have_it_as_well(client: Client, path: str, status: int) -> None:
    if status == 404:
        client.force_login(User.objects.create_superuser("root"))
    answer = client.get(path, headers={HEADER: ASKED}, REMOTE_ADDR="10.0.0.1")
    assert (answer.status_code, answer[HEADER]) == (status, ASKED)


def test_a_name_of_this_server_that_is_not_allowed_is_refused_with_it(client: Client) -> None:
    answer = client.get("/admin/login/", headers={HEADER: ASKED}, SERVER_NAME="elsewhere.example")
    assert (answer.status_code, answer[HEADER]) == (400, ASKED)


def test_what_django_says_of_a_refused_request_carries_its_name_and_is_said_once(client: Client, lines: Any) -> None:
    client.get("/nowhere", headers={HEADER: ASKED})
    (line,) = lines()
    assert (line["event"], line["request"], line["logger"]) == ("Not Found: /nowhere", ASKED, "django.request")


def test_a_page_that_fails_says_so_with_its_name(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executions.metrics_view._is_asked_here", lambda _: 1 / 0)
    answer = Client(raise_request_exception=False).get("/metrics", headers={HEADER: ASKED})
    assert (answer.status_code, answer[HEADER]) == (500, ASKED)
    (line,) = [line for line in lines() if line["level"] == "error"]
    assert line["request"] == ASKED
    assert "ZeroDivisionError" in line["exception"]


def test_it_is_forgotten_before_the_next_request(client: Client, lines: Any) -> None:
    for path in ("/health/live", "/nowhere"):
        client.get(path, headers={HEADER: ASKED})
        assert events.request_id() == ""
    before = len(lines())
    client.get("/nowhere")
    assert [line["request"] for line in lines()[before:]] != [ASKED]
    logging.getLogger("somebody").warning("between requests")
    assert "request" not in lines()[-1]


@pytest.mark.parametrize("other", ["GET /some/path", "x" * 300, "\x00", "<WSGIRequest>"])
def test_what_another_calls_a_request_is_no_id_of_ours(other: str, job: Job) -> None:
    """structlog's names are everybody's."""
    with bound_contextvars(request=other):
        assert events.request_id() == ""
        assert Execution.objects.get(pk=runs.run(job).execution_id).request_id == ""


# ── Of the executions that it asked for ──────────────────────────────────────────────────────────────────────────


def test_runs_now_later_and_many_keep_it(api: Caller, job: Job) -> None:
    for path, body in (
        ("/jobs/mail/runs", None),
        ("/jobs/mail/runs", {"delay": 3600}),
        ("/jobs/mail/runs", {"run_key": "one"}),
        ("/jobs/mail/bulk-runs", {"runs": [{"kwargs": {"n": n}} for n in range(3)]}),
    ):
        before = set(Execution.objects.values_list("pk", flat=True))
        answer = api.post(path, body, X_Request_Id=ASKED)
        assert answer.status in (200, 201), answer
        assert answer.headers[HEADER] == ASKED
        new = Execution.objects.exclude(pk__in=before)
        assert new
        assert set(new.values_list("request_id", flat=True)) == {ASKED}


def test_a_second_request_for_the_same_run_changes_nothing_of_it(api: Caller, job: Job) -> None:
    for name in (ASKED, "another"):
        api.post("/jobs/mail/runs", {"run_key": "one"}, X_Request_Id=name)
    assert Execution.objects.get().request_id == ASKED


def test_a_replay_has_that_of_who_asked_for_the_replay(api: Caller, job: Job, noon: datetime) -> None:
    dead = given_up(job, noon, error="no")
    answer = api.post(f"/executions/{dead.pk}/replay", X_Request_Id=ASKED)
    assert answer.status in (200, 201), answer
    assert Execution.objects.get(replay_of=dead.pk).request_id == ASKED


def test_fires_of_a_backfill_have_that_of_who_asked_for_it(api: Caller) -> None:
    now = database_now()
    a_job(now=now - timedelta(hours=3), key="hourly", schedule=Every(seconds=3600, anchor=now - timedelta(hours=3)))
    body = {"start": (now - timedelta(hours=3)).isoformat(), "end": now.isoformat(), "dry_run": False}
    answer = api.post("/jobs/hourly/backfill", body, X_Request_Id=ASKED)
    assert answer.status in (200, 201), answer
    assert set(Execution.objects.values_list("request_id", flat=True)) == {ASKED}
    skipped = Execution.objects.filter(trigger=Trigger.BACKFILL)
    assert skipped.update(state=State.SKIPPED, trigger=Trigger.SCHEDULE) > 0
    api.post("/jobs/hourly/backfill", body, X_Request_Id="another")
    assert set(Execution.objects.values_list("request_id", flat=True)) == {"another"}


def test_a_run_asked_for_on_a_page_has_one(job: Job) -> None:
    visitor = a_visitor(Role.OPERATOR)
    answer = confirm(visitor, f"{ROOT}onbeat_jobs/job/{job.pk}/run/")
    assert answer.status_code == 302, answer.content.decode()
    assert Execution.objects.get().request_id == answer[HEADER]


def test_a_fire_of_a_schedule_and_a_run_of_code_have_none(job: Job, noon: datetime) -> None:
    assert planned(job, noon).request_id == ""
    assert Execution.objects.get(pk=runs.run(job).execution_id).request_id == ""


def test_it_is_shown_wherever_an_execution_is_shown_in_full(api: Caller, job: Job) -> None:
    pk = api.post("/jobs/mail/runs", X_Request_Id=ASKED).body["id"]
    assert api.get(f"/executions/{pk}").body["request_id"] == ASKED
    said = StringIO()
    call_command("executions", "show", str(pk), stdout=said)
    assert any(line.split() == ["request", ASKED] for line in said.getvalue().splitlines()), said.getvalue()
    page = a_visitor(Role.VIEWER).get(f"{ROOT}onbeat_executions/execution/{pk}/change/")
    assert f"request {ASKED}" in page.content.decode()


# ── On its way to the handler ────────────────────────────────────────────────────────────────────────────────────


def sent(row: Execution) -> dict[str, Any]:
    (message,) = map(of_execution, outgoing(row))
    return message.headers


def test_it_travels_in_the_header_where_there_is_one(job: Job, noon: datetime) -> None:
    with events.about(request=ASKED):
        asked = Execution.objects.get(pk=runs.run(job).execution_id)
    assert sent(asked)[REQUEST_HEADER] == ASKED
    read = delivery(sent(asked))
    assert read is not None
    assert read.request_id == ASKED
    assert REQUEST_HEADER not in sent(planned(job, noon))


@pytest.mark.parametrize("header", [None, ""])
def test_a_message_of_the_last_release_is_read(job: Job, noon: datetime, header: str | None) -> None:
    """It has no such header, or one that a broker made empty."""
    headers = sent(planned(job, noon))
    assert messages.REQUEST_HEADER not in headers
    for said in (headers, headers | {REQUEST_HEADER: header}):
        read = delivery(said)
        assert read is not None
        assert (read.request_id, read.job_key, read.attempt) == ("", "mail", 1)


def test_a_handler_knows_it_and_all_lines_of_the_run_carry_it(job: Job, lines: Any) -> None:
    with events.about(request=ASKED):
        row = Execution.objects.get(pk=runs.run(job).execution_id)
    read = delivery(sent(row))
    assert read is not None
    seen: list[str] = []

    def work() -> None:
        seen.append(context.current().request_id)
        logging.getLogger("billing").warning("paid")
        seen.append(Execution.objects.get(pk=runs.run(job).execution_id).request_id)

    runner.run(read, worker="w", call=work)
    assert seen == [ASKED, ASKED]  # what a handler asks for came of the same request
    names = {"execution": str(row.pk), "job": "mail", "attempt": 1, "request": ASKED}
    said = [line for line in lines() if line["event"] in ("paid", "succeeded")]
    assert [line["event"] for line in said] == ["paid", "succeeded"]
    assert [{name: line[name] for name in names} for line in said] == [names, names]
    logging.getLogger("billing").warning("free again")
    assert not {"execution", "job", "attempt", "request"} & set(lines()[-1])


def test_a_retry_carries_it_too(job: Job) -> None:
    with events.about(request=ASKED):
        row = Execution.objects.get(pk=runs.run(job).execution_id)
    now = database_now()
    lifecycle.fail(claimed(row, now=now), error="no", now=now)
    row.refresh_from_db()
    assert sent(row)[REQUEST_HEADER] == ASKED
