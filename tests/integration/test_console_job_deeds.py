"""What people do to a job in the admin: run, pause, resume, archive, backfill."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from access.models import AuditEntry
from access.roles import Role
from executions.clock import database_now
from executions.models import Execution, RunKey
from executions.states import State, Trigger
from jobs import definitions
from jobs.models import Job, JobState, JobVersion
from jobs.recurrence import Every
from tests.making import a_job
from tests.rows import everything, of
from tests.tiers import once_embedded
from tests.visiting import Page, a_visitor, beside, confirm, said

pytestmark = [pytest.mark.django_db, once_embedded]


@pytest.fixture
def client() -> Client:
    return a_visitor(Role.EDITOR)


@pytest.fixture
def minute() -> datetime:
    """The last full one."""
    return database_now().replace(second=0, microsecond=0)


@pytest.fixture
def job(minute: datetime) -> Job:
    """Fires every minute, and was made two hours ago."""
    then = minute - timedelta(hours=2)
    return a_job(now=then, key="billing.daily", schedule=Every(60, then), args=[1], kwargs={"n": 1})


def at(job: Job, page: str) -> str:
    return f"/admin/onbeat_jobs/job/{job.pk}/{page}/"


def entry() -> AuditEntry:
    """The only one."""
    return AuditEntry.objects.get()


def typed(moment: datetime) -> str:
    """As the field of a moment sends it."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}"


# ── Run ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_press_runs_the_job_with_its_own_payload(client: Client, job: Job) -> None:
    response = client.post(at(job, "run-now"))
    (one,) = of(job)
    assert (one.trigger, one.state, one.args, one.kwargs) == (Trigger.MANUAL, State.SCHEDULED, [1], {"n": 1})
    assert response["Location"] == at(job, "change")
    assert f'<a href="/admin/onbeat_executions/execution/{one.pk}/change/"' in said(response)
    assert (entry().who, entry().through, entry().action) == ("ada", "admin", "job.run")
    assert (entry().subject, entry().after) == (
        "job:billing.daily",
        {"executions": [str(one.pk)], "is_new": True},
    )


@pytest.mark.parametrize(
    ("back", "leads"),
    [
        ("/admin/onbeat_jobs/job/?tag=a&order=next", "/admin/onbeat_jobs/job/?tag=a&order=next"),
        *((elsewhere, "") for elsewhere in ("https://evil.example/admin/", "//evil.example/admin/", "/api/v1/jobs")),
        *((elsewhere, "") for elsewhere in ("javascript:alert(1)", "", "admin/")),
    ],
)
def test_one_returns_to_the_page_of_ours_that_one_came_from(client: Client, job: Job, back: str, leads: str) -> None:
    expected = leads or at(job, "change")
    assert client.post(at(job, "run-now"), {"back": back})["Location"] == expected
    assert confirm(client, at(job, "pause"), reason="r", back=back)["Location"] == expected


@pytest.mark.parametrize(("zone", "ahead"), [("UTC", 0), ("Asia/Tokyo", 9), ("Asia/Kolkata", 5.5)])
def test_a_run_can_have_a_payload_a_moment_a_key_and_a_priority_of_its_own(
    client: Client, job: Job, minute: datetime, zone: str, ahead: float
) -> None:
    moment = minute + timedelta(days=1)
    says = {"args": '["é", {"a": null}]', "kwargs": '{"m": [2]}', "run_key": "user-7", "priority": "9"}
    response = confirm(client, at(job, "run"), **says, run_at=typed(moment + timedelta(hours=ahead)), viewer_zone=zone)
    (one,) = of(job)
    assert response["Location"] == at(job, "change")
    assert (one.trigger, one.fire_time, one.priority) == (Trigger.DELAYED, moment, 9)
    assert (one.args, one.kwargs, one.run_key) == (["é", {"a": None}], {"m": [2]}, "user-7")
    assert entry().action == "job.run"


def test_the_form_of_a_run_begins_with_the_payload_of_the_job(client: Client, job: Job) -> None:
    form = client.get(at(job, "run")).context["form"]
    assert (form["args"].value(), form["kwargs"].value()) == ("[\n  1\n]", '{\n  "n": 1\n}')


def test_a_run_key_in_use_keeps_the_run_that_has_it(client: Client, job: Job) -> None:
    for _ in range(2):
        response = confirm(client, at(job, "run"), run_key="user-7")
    assert "has a run of this key already" in said(response)
    assert (len(of(job)), RunKey.objects.count()) == (1, 1)
    assert [entry.after["is_new"] for entry in AuditEntry.objects.order_by("pk")] == [True, False]


@pytest.mark.parametrize(
    ("says", "field", "told"),
    [
        ({"args": "[1"}, "args", "This is no JSON"),
        ({"args": "{}"}, "args", "This must be a list"),
        ({"kwargs": "[]"}, "kwargs", "This must be an object"),
        ({"kwargs": '{"a": NaN}'}, "kwargs", "NaN is no JSON number"),
        ({"run_at": "2020-01-01T00:00"}, "run_at", "is past; leave it out to run now"),
        ({"run_at": "tomorrow"}, "run_at", "is no date and time"),
        ({"run_at": "2027-01-01T00:00", "viewer_zone": "Mars/Base"}, "run_at", "is no time zone"),
        ({"run_key": "k" * 201}, "run_key", "at most 200 characters"),
        ({"run_key": "a\u200bb"}, "run_key", "printable"),
        ({"priority": "10"}, "priority", "less than or equal to 9"),
    ],
)
def test_a_run_that_cannot_be_is_told_beside_its_field(
    client: Client, job: Job, says: dict[str, str], field: str, told: str
) -> None:
    wrong = beside(confirm(client, at(job, "run"), **says))
    assert list(wrong) == [field]
    assert told in wrong[field]
    assert not Execution.objects.exists()
    assert not AuditEntry.objects.exists()


def test_what_was_typed_stays_when_a_run_is_refused(client: Client, job: Job) -> None:
    response = confirm(client, at(job, "run"), args="[1", run_key="user-7", run_at="2031-01-01T00:00")
    page = Page(response.content.decode())
    assert (page.values["run_key"], page.values["run_at"]) == ("user-7", "2031-01-01T00:00")
    assert "[1" in page.text


# ── Pause and resume ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_paused_for_a_reason_until_a_moment_of_the_viewers_zone(client: Client, job: Job) -> None:
    until = datetime(2031, 6, 15, 12, 0, tzinfo=UTC)
    response = confirm(
        client, at(job, "pause"), reason="the bank is closed", until="2031-06-15T21:00", viewer_zone="Asia/Tokyo"
    )
    job.refresh_from_db()
    assert (job.state, job.paused_reason, job.paused_by, job.paused_until) == (
        JobState.PAUSED,
        "the bank is closed",
        "ada",
        until,
    )
    assert Page(said(response)).text == "billing.daily is paused until 2031-06-15 12:00:00 UTC ."
    assert 'datetime="2031-06-15T12:00:00+00:00"' in said(response)
    assert (entry().action, entry().note) == ("job.pause", "the bank is closed")
    assert (entry().before["state"], entry().after["state"]) == ("ACTIVE", "PAUSED")
    version = JobVersion.objects.latest("pk")
    assert (version.changed_by, version.through, version.note) == ("ada", "admin", "the bank is closed")


@pytest.mark.parametrize(
    ("says", "field", "told"),
    [
        ({"reason": ""}, "reason", "This field is required."),
        ({"reason": "r" * 201}, "reason", "at most 200 characters"),
        ({"until": "2020-01-01T00:00"}, "until", "past"),
        ({"until": "2031-03-30T02:30", "viewer_zone": "Europe/Berlin"}, "until", "The clocks of Europe/Berlin skip"),
    ],
)
def test_a_pause_that_cannot_be_is_told_beside_its_field(
    client: Client, job: Job, says: dict[str, str], field: str, told: str
) -> None:
    before = everything()
    wrong = beside(confirm(client, at(job, "pause"), **{"reason": "r", **says}))
    assert list(wrong) == [field]
    assert told in wrong[field]
    assert everything() == before


def test_a_press_resumes_a_job_and_makes_up_for_nothing(client: Client, job: Job) -> None:
    definitions.pause(job, reason="r", now=database_now() - timedelta(minutes=30))
    response = client.post(at(job, "resume"))
    job.refresh_from_db()
    assert (job.state, job.paused_reason) == (JobState.ACTIVE, "")
    assert "fires again" in said(response)
    assert {row.state for row in of(job)} == {State.SKIPPED}
    assert (entry().action, entry().before["state"], entry().after["state"]) == ("job.resume", "PAUSED", "ACTIVE")


def test_resuming_a_job_that_fires_changes_nothing(client: Client, job: Job) -> None:
    before = everything()
    client.post(at(job, "resume"))
    assert everything() == before
    assert not AuditEntry.objects.exists()


# ── Archive ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_archived_after_a_word_of_warning(client: Client, job: Job) -> None:
    page = client.get(at(job, "archive")).content.decode()
    assert "cannot be brought back" in page
    assert "ob-danger" in page
    confirm(client, at(job, "archive"), reason="moved away")
    job.refresh_from_db()
    assert job.state == JobState.ARCHIVED
    assert (entry().action, entry().note, entry().after["state"]) == ("job.archive", "moved away", "ARCHIVED")


def test_without_its_confirmation_a_deed_is_only_shown(client: Client, job: Job) -> None:
    before = everything()
    for page in ("run", "pause", "archive", "backfill"):
        assert client.post(at(job, page), {"reason": "r"}).status_code == 200
    assert everything() == before


@pytest.mark.parametrize("page", ["run", "pause", "archive", "backfill"])
def test_a_job_that_is_over_refuses_every_deed_and_says_so(
    client: Client, job: Job, minute: datetime, page: str
) -> None:
    definitions.archive(job)
    before = everything()
    says = {"reason": "r", "start": typed(minute - timedelta(minutes=5)), "end": typed(minute), "per_minute": "5"}
    assert "ARCHIVED" in beside(confirm(client, at(job, page), **says))[""]
    assert everything() == before


@pytest.mark.parametrize("page", ["run-now", "resume"])
def test_a_press_on_a_job_that_is_over_is_told_on_the_next_page(client: Client, job: Job, page: str) -> None:
    definitions.archive(job)
    before = everything()
    assert "ARCHIVED" in said(client.post(at(job, page)))
    assert everything() == before


@pytest.mark.parametrize("page", ["run", "pause", "archive", "backfill", "edit", "versions", "change", "history"])
@pytest.mark.parametrize("pk", ["999999", "no-number", "9" * 30, "²"])
def test_a_job_that_is_not_there_is_not_found(client: Client, page: str, pk: str) -> None:
    assert client.get(f"/admin/onbeat_jobs/job/{pk}/{page}/").status_code == 404


# ── Backfill ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def passed(job: Job, minute: datetime) -> Job:
    """Nothing of its last hour ran."""
    definitions.pause(job, reason="r", now=minute - timedelta(minutes=60, seconds=30))
    return job


def stretch(minute: datetime, minutes: int = 10) -> dict[str, Any]:
    first = minute - timedelta(minutes=minutes)
    return {"start": typed(first), "end": typed(minute - timedelta(minutes=1)), "per_minute": "60"}


def test_a_backfill_is_looked_at_before_it_runs(client: Client, passed: Job, minute: datetime) -> None:
    before = everything()
    look = confirm(client, at(passed, "backfill"), **stretch(minute), preview="yes")
    page = Page(look.content.decode())
    assert look.status_code == 200
    assert "10 of 10 fires would run" in page.text
    assert "Run these 10 fires" in page.text
    assert everything() == before
    assert not AuditEntry.objects.exists()
    done = confirm(client, at(passed, "backfill"), **stretch(minute), previewed=page.values["previewed"])
    assert said(done) == "10 fires of billing.daily will run."
    assert {(row.trigger, row.state) for row in of(passed, skipped_until=None)} == {(Trigger.BACKFILL, State.SCHEDULED)}
    assert (entry().action, entry().after["to_run"]) == ("job.backfill", 10)


@pytest.mark.parametrize("changed", [{"per_minute": "59"}, {"viewer_zone": "Asia/Tokyo"}, {"end": ""}, {"start": ""}])
def test_a_range_that_nobody_looked_at_does_not_run(
    client: Client, passed: Job, minute: datetime, changed: dict[str, str]
) -> None:
    look = confirm(client, at(passed, "backfill"), **stretch(minute), preview="yes")
    previewed = Page(look.content.decode()).values["previewed"]
    before = everything()
    response = confirm(client, at(passed, "backfill"), **{**stretch(minute), "previewed": previewed, **changed})
    assert response.status_code in (200, 422)
    assert everything() == before
    assert not AuditEntry.objects.exists()


def test_running_at_once_only_looks(client: Client, passed: Job, minute: datetime) -> None:
    before = everything()
    response = confirm(client, at(passed, "backfill"), **stretch(minute))
    assert "would run" in response.content.decode()
    assert everything() == before


@pytest.mark.parametrize(
    ("says", "field"),
    [
        ({"per_minute": "0"}, "per_minute"),
        ({"start": "2031-01-01T00:00", "end": "2031-01-02T00:00"}, "start"),
        ({"end": "2020-01-01T00:00"}, "start"),
    ],
)
def test_a_backfill_that_cannot_be_is_told_beside_its_field(
    client: Client, passed: Job, minute: datetime, says: dict[str, str], field: str
) -> None:
    assert field in beside(confirm(client, at(passed, "backfill"), **{**stretch(minute), **says}))
