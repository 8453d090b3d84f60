"""Jobs are made and changed by the form of the admin: whatever is refused is told beside its field."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from access.models import AuditEntry
from access.roles import Role
from executions.clock import database_now
from executions.retry import RetryPolicy
from jobs import definitions
from jobs.http_target import HttpTarget
from jobs.models import Job, JobVersion, Kind, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from tests.making import a_job
from tests.rows import everything, schedule_of
from tests.tiers import once_embedded
from tests.visiting import a_visitor, beside, said

pytestmark = [pytest.mark.django_db, once_embedded]
ADD = "/admin/onbeat_jobs/job/add/"
NEW = {"key": "billing.daily", "target": "task", "task": "onbeat.echo", "kind": "cron", "cron": "0 3 * * *"}
NEW |= {"timezone": "Europe/Berlin", "viewer_zone": "UTC", "args": "[1]", "kwargs": '{"n": 1}', "priority": "7"}
NEW |= {"max_attempts": "3", "backoff": "linear", "initial_delay": "30", "max_delay": "600", "retry_jitter": "0.5"}
NEW |= {"max_lost": "3", "stop_grace": "30", "overlap": "allow", "misfire": "skip", "owner": "me", "tags": "a, b"}


@pytest.fixture
def client() -> Client:
    return a_visitor(Role.EDITOR)


def make(client: Client, **says: Any) -> HttpResponse:
    return client.post(ADD, {**NEW, **says})


def edit(client: Client, job: Job, **says: Any) -> HttpResponse:
    """Send the form as it is shown, but for what somebody typed."""
    address = f"/admin/onbeat_jobs/job/{job.pk}/edit/"
    form = client.get(address).context["form"]
    shown: dict[str, Any] = {}
    for field in form:
        value = field.value()
        if isinstance(value, datetime):
            value = f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"
        if value is not None and value is not False:
            shown[field.name] = "on" if value is True else value
    return client.post(address, {**shown, "viewer_zone": "UTC", **says})


# ── Make ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_made_as_the_form_says_it(client: Client) -> None:
    response = make(client, queue="slow", timeout="60", retry_on="KeyError, app.Error", keep_result="on")
    job = Job.objects.get()
    schedule = schedule_of(job)
    assert (response["Location"], said(response)) == (
        f"/admin/onbeat_jobs/job/{job.pk}/change/",
        "billing.daily is made.",
    )
    assert (job.task, job.args, job.kwargs, job.queue, job.priority) == ("onbeat.echo", [1], {"n": 1}, "slow", 7)
    assert (job.owner, job.tags, job.timeout_seconds, job.keep_result) == ("me", ["a", "b"], 60, True)
    assert RetryPolicy.stored({**job.retry, "max_attempts": job.max_attempts}) == RetryPolicy(
        max_attempts=3,
        backoff="LINEAR",
        initial_seconds=30,
        cap_seconds=600,
        jitter=0.5,
        retry_on=("KeyError", "app.Error"),
    )
    assert (schedule.kind, schedule.expression, schedule.timezone) == (Kind.CRON, "0 3 * * *", "Europe/Berlin")
    assert schedule.misfire == "SKIP"
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.through, entry.action, entry.subject) == (
        *("ada", "admin", "job.create"),
        "job:billing.daily",
    )
    assert entry.after["owner"] == "me"
    version = JobVersion.objects.get()
    assert (version.changed_by, version.through) == ("ada", "admin")


@pytest.mark.parametrize(
    ("says", "kind", "expression"),
    [
        ({"kind": "every", "every": "90"}, Kind.EVERY, "90"),
        ({"kind": "once", "once_at": "2031-06-15T12:00"}, Kind.ONCE, "2031-06-15T12:00:00+00:00"),
        (
            {"kind": "once", "once_at": "2031-06-15T21:00", "viewer_zone": "Asia/Tokyo"},
            Kind.ONCE,
            "2031-06-15T12:00:00+00:00",
        ),
        ({"cron": "@hourly", "timezone": ""}, Kind.CRON, "@hourly"),
    ],
)
def test_each_kind_of_schedule_can_be_made(client: Client, says: dict[str, str], kind: Kind, expression: str) -> None:
    make(client, **says)
    schedule = Schedule.objects.get()
    assert (schedule.kind, schedule.expression) == (kind, expression)


def test_a_job_may_have_no_schedule_whatever_is_left_in_its_fields(client: Client) -> None:
    make(client, kind="none", cron="nonsense", once_at="2031-06-15T12:00")
    assert Job.objects.get().key == "billing.daily"
    assert not Schedule.objects.exists()


def test_a_schedule_may_have_bounds_jitter_and_a_number_of_fires(client: Client) -> None:
    make(client, start="2031-01-01T00:00", end="2032-01-01T00:00", max_fires="9", jitter="30", misfire_grace="60")
    schedule = Schedule.objects.get()
    assert (schedule.start_at, schedule.end_at) == (
        datetime(2031, 1, 1, tzinfo=UTC),
        datetime(2032, 1, 1, tzinfo=UTC),
    )
    assert (schedule.max_fires, schedule.jitter_seconds, schedule.misfire_grace_seconds) == (9, 30, 60)


def test_a_job_may_send_an_http_request(client: Client, settings: Settings) -> None:
    settings.ONBEAT_CALLBACKS_URL = "https://onbeat.example"
    http = {"url": "https://example.com/hook", "method": "PUT", "headers": '{"X-Team": "billing"}'}
    make(client, target="http", args="", **http, http_timeout="7", expected="200, 201", asynchronous="on")
    target = HttpTarget.stored(Job.objects.get().http)
    assert (target.url, target.method, target.headers) == ("https://example.com/hook", "PUT", {"X-Team": "billing"})
    assert (target.timeout_seconds, list(target.expected), target.is_asynchronous) == (7, [200, 201], True)


def test_a_task_that_lives_elsewhere_is_not_looked_for(client: Client) -> None:
    make(client, task="their.task", lives_elsewhere="on")
    assert Job.objects.get().task == "their.task"


@pytest.mark.parametrize(
    ("says", "field", "told"),
    [
        ({"key": ""}, "key", "This field is required."),
        ({"key": "<script>"}, "key", "<script>"),
        ({"key": "taken"}, "key", "There is a job 'taken' already"),
        ({"task": ""}, "task", ""),
        ({"task": "no.such.task"}, "task", "no.such.task"),
        ({"cron": ""}, "cron", ""),
        ({"cron": "61 * * * *"}, "cron", "61"),
        ({"cron": "0 0 31 2 *"}, "cron", ""),
        ({"timezone": "Europe/Berln"}, "timezone", "did you mean 'Europe/Berlin'"),
        ({"args": "[1"}, "args", "This is no JSON"),
        ({"kwargs": "[]"}, "kwargs", "This must be an object"),
        ({"kwargs": '{"a": "\\u0000"}'}, "kwargs", ""),
        ({"kind": "every", "every": ""}, "every", ""),
        ({"kind": "every", "every": "0"}, "every", "greater than or equal to 1"),
        ({"kind": "once", "once_at": ""}, "once_at", ""),
        ({"kind": "once", "once_at": "2020-01-01T00:00"}, "once_at", "never fires after now"),
        ({"kind": "once", "once_at": "soon"}, "once_at", "is no date and time"),
        ({"start": "2032-01-01T00:00", "end": "2031-01-01T00:00"}, "end", ""),
        ({"queue": "no queue"}, "queue", ""),
        ({"priority": "10"}, "priority", "less than or equal to 9"),
        ({"retry_jitter": "2"}, "retry_jitter", "less than or equal to 1"),
        ({"retry_on": "not a name"}, "retry_on", ""),
        ({"tags": "a tag"}, "tags", ""),
        ({"overlap": "skip", "max_concurrency": "0"}, "max_concurrency", "greater than or equal to 1"),
        ({"target": "http", "args": "", "url": ""}, "url", ""),
        ({"target": "http", "args": "", "url": "ftp://example.com"}, "url", ""),
        ({"target": "http", "args": "", "url": "https://example.com", "headers": "{"}, "headers", "This is no JSON"),
        ({"target": "http", "args": "", "url": "https://example.com", "expected": "9"}, "expected", ""),
        ({"target": "http", "args": "", "url": "https://example.com", "expected": "1" * 5000}, "expected", ""),
        ({"target": "http", "args": "", "url": "https://example.com", "secret": "none"}, "secret", ""),
        ({"target": "http", "args": "[1]", "url": "https://example.com"}, "args", ""),
    ],
)
def test_what_is_refused_is_told_beside_its_field(client: Client, says: dict[str, str], field: str, told: str) -> None:
    a_job(now=database_now(), key="taken")
    before = everything()
    wrong = beside(make(client, **says))
    assert field in wrong, wrong
    assert told in wrong[field]
    assert everything() == before
    assert not AuditEntry.objects.exists()


def test_what_was_typed_stays_when_it_is_refused(client: Client) -> None:
    response = make(client, cron="61 * * * *", owner="somebody", start="2031-01-01T00:00")
    form = response.context["form"]
    assert "Nothing was saved." in response.content.decode()
    assert [form[name].value() for name in ("cron", "owner", "start")] == [
        *("61 * * * *", "somebody"),
        "2031-01-01T00:00",
    ]


# ── Change ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def job() -> Job:
    return a_job(now=database_now(), key="billing.daily", schedule=Cron("0 3 * * *", "Europe/Berlin"), kwargs={"n": 1})


def test_a_job_is_changed_and_what_changed_is_told(client: Client, job: Job) -> None:
    response = edit(client, job, cron="30 4 * * *", owner="me")
    job.refresh_from_db()
    assert (job.version, job.owner, schedule_of(job).expression) == (2, "me", "30 4 * * *")
    assert "is at version 2" in said(response)
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.action, entry.before["owner"], entry.after["owner"]) == ("ada", "job.change", "", "me")
    assert "kwargs" not in entry.after


NOW = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
SOME = {
    "task": {"schedule": Cron("H 3 * * 1-5", "America/New_York"), "max_fires": 9, "jitter_seconds": 30},
    "interval": {"schedule": Every(90, NOW), "retry": RetryPolicy(max_attempts=1, retry_on=("KeyError",))},
    "once": {"schedule": Once(NOW + timedelta(days=2000))},
    "bounds": {"schedule": Within(Every(90, NOW), NOW, NOW + timedelta(days=2000))},
    "moments": {"schedule": Once(NOW + timedelta(days=2000, microseconds=123_456))},
    "bounds of moments": {"schedule": Within(Every(9, NOW), NOW + timedelta(microseconds=5), None)},
    "none": {"args": [1, "é"], "tags": ["a", "b"], "owner": "me", "timeout_seconds": 7, "keep_result": True},
    "limits": {"overlap": "QUEUE", "max_concurrency": 2, "queue": "slow", "priority": 0},
    "request": {
        "task": "",
        "http": HttpTarget("https://example.com/a?b=c", headers={"X": "y"}, expected=(200, 204), body={"n": [1]}),
    },
}


@pytest.mark.parametrize("name", SOME)
def test_a_form_that_is_sent_as_it_was_shown_changes_nothing(client: Client, name: str) -> None:
    fields = {"task": "onbeat.echo", **SOME[name]}
    job = definitions.create(key="k", **fields, now=database_now())
    before = everything()
    assert edit(client, job).status_code == 302
    assert everything() == before
    assert not AuditEntry.objects.exists()


def test_a_request_keeps_its_body_which_has_no_field(client: Client) -> None:
    http = HttpTarget("https://example.com/hook", body={"fixed": [True]})
    job = definitions.create(key="call", http=http, now=database_now())
    edit(client, job, url="https://example.com/other")
    target = HttpTarget.stored(Job.objects.get().http)
    assert (target.url, target.body) == ("https://example.com/other", {"fixed": [True]})


def test_a_moment_of_an_hour_that_comes_twice_stays_the_one_it_was(client: Client) -> None:
    """Berlin's clocks show 02:30 twice that night; the page writes the second of them."""
    second = datetime(2031, 10, 26, 1, 30, tzinfo=UTC)
    job = definitions.create(key="k", task="onbeat.echo", schedule=Once(second), now=database_now())
    edit(client, job, once_at="2031-10-26T02:30:00", viewer_zone="Europe/Berlin", owner="me")
    assert schedule_of(job).recurrence == Once(second)


def test_the_key_cannot_be_changed(client: Client, job: Job) -> None:
    edit(client, job, key="stolen", owner="me")
    job.refresh_from_db()
    assert (job.key, job.owner) == ("billing.daily", "me")


def test_a_change_that_began_from_an_older_version_is_told_and_not_saved(client: Client, job: Job) -> None:
    definitions.change(job, version=1, priority=1)
    before = everything()
    told = beside(edit(client, job, owner="me", version="1"))[""]
    assert "was changed meanwhile" in told
    assert everything() == before
    assert not AuditEntry.objects.exists()


def test_a_refused_change_is_told_beside_its_field(client: Client, job: Job) -> None:
    before = everything()
    assert "61" in beside(edit(client, job, cron="61 * * * *"))["cron"]
    assert everything() == before


def test_a_job_that_is_over_cannot_be_changed(client: Client, job: Job) -> None:
    definitions.archive(job)
    before = everything()
    assert "ARCHIVED" in beside(edit(client, job, owner="me", version=""))[""]
    assert everything() == before


def test_a_schedule_that_cannot_be_read_can_be_replaced(client: Client, job: Job) -> None:
    Schedule.objects.filter(job=job).update(timezone="Nowhere/Land")
    assert edit(client, job, timezone="UTC").status_code == 302
    assert schedule_of(job).timezone == "UTC"
