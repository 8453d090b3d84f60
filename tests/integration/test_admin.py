"""The admin shows jobs, executions, beats and workers, and changes nothing by itself."""

from datetime import datetime

import pytest
from django.test import Client

from beat.models import Beat
from callbacks import hosts
from executions import lifecycle
from executions.clock import database_now
from executions.models import DeadMessage, Execution
from jobs import definitions
from jobs.http_target import HttpTarget
from jobs.models import Job, Schedule
from jobs.recurrence import Cron
from tests.making import a_job, claimed, planned

pytestmark = pytest.mark.django_db
PAGES = ["onbeat_jobs/job", "onbeat_executions/execution", "onbeat_beat/beat", "onbeat_workers/worker"]
PAGES += ["onbeat_executions/deadmessage", "onbeat_callbacks/host"]


@pytest.fixture
def execution(noon: datetime) -> Execution:
    job = a_job(now=noon, key="billing.daily", schedule=Cron("0 3 * * *", "America/Los_Angeles"))
    one = planned(job, noon)
    lifecycle.fail(claimed(one, now=noon), error="<script>alert(1)</script>", now=noon)
    return one


@pytest.mark.parametrize("page", PAGES)
def test_each_list_opens(admin_client: Client, execution: Execution, page: str) -> None:
    assert admin_client.get(f"/admin/{page}/").status_code == 200


def test_the_job_list_shows_schedule_and_next_fire(admin_client: Client, execution: Execution) -> None:
    page = admin_client.get("/admin/onbeat_jobs/job/").content.decode()
    assert "billing.daily" in page
    assert "Every day at 03:00, Los Angeles" in page
    assert "2026-06-16 10:00:00" in page


def test_a_callback_shows_where_it_goes_without_its_query(admin_client: Client, noon: datetime) -> None:
    definitions.create(key="call", http=HttpTarget("https://example.com/hook?token=7b1f"), now=noon)
    page = admin_client.get("/admin/onbeat_jobs/job/").content.decode()
    assert "POST https://example.com/hook?…" in page
    assert "7b1f" not in page


def test_a_host_that_rests_is_seen_with_the_reason(admin_client: Client) -> None:
    now = database_now()
    for _ in range(5):
        hosts.went_wrong("https://down.example", "it answered 500", began=now, now=now)
    page = admin_client.get("/admin/onbeat_callbacks/host/").content.decode()
    assert all(text in page for text in ("https://down.example", "resting", "it answered 500"))


def test_pages_carry_the_products_name(admin_client: Client) -> None:
    assert "<title>Site administration | Onbeat</title>" in admin_client.get("/admin/").content.decode()


def test_an_execution_shows_its_attempts_and_escapes_what_users_wrote(
    admin_client: Client, execution: Execution
) -> None:
    page = admin_client.get(f"/admin/onbeat_executions/execution/{execution.pk}/change/").content.decode()
    assert "attempt 1: FAILED" in page
    assert "<script>alert(1)" not in page


@pytest.mark.parametrize("page", PAGES)
def test_nothing_can_be_added(admin_client: Client, page: str) -> None:
    assert admin_client.get(f"/admin/{page}/add/").status_code == 403


def test_nothing_can_be_changed_or_deleted(admin_client: Client, execution: Execution) -> None:
    for address in (
        f"/admin/onbeat_executions/execution/{execution.pk}/delete/",
        f"/admin/onbeat_executions/execution/{execution.pk}/change/",
        f"/admin/onbeat_jobs/job/{execution.job_id}/delete/",
        f"/admin/onbeat_jobs/job/{execution.job_id}/change/",
    ):
        assert admin_client.post(address, {"post": "yes", "key": "stolen"}).status_code == 403
    assert Job.objects.get().key == "billing.daily"


def test_a_stranger_is_sent_to_the_login(client: Client) -> None:
    response = client.get("/admin/onbeat_jobs/job/")
    assert response.status_code == 302
    assert "/admin/login/" in response["Location"]


def test_a_jobs_page_shows_its_history(admin_client: Client, noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("0 3 * * *"))
    definitions.pause(job, reason="the bank is closed", by="ada", now=noon)
    page = admin_client.get(f"/admin/onbeat_jobs/job/{job.pk}/change/").content.decode()
    assert "the bank is closed" in page
    assert "ada" in page


def test_a_job_whose_schedule_cannot_be_read_does_not_break_the_list(admin_client: Client, noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("0 3 * * *"))
    Schedule.objects.filter(job=job).update(timezone="Nowhere/Land")
    page = admin_client.get("/admin/onbeat_jobs/job/")
    assert page.status_code == 200
    assert "cannot be read" in page.content.decode()


def test_the_page_of_beats_says_what_each_looks_after_and_what_is_amiss(admin_client: Client, noon: datetime) -> None:
    facts = {"host": "h", "pid": 1, "started_at": noon, "ticked_at": noon}
    Beat.objects.create(name="well", shards=40, lateness_seconds=0.0123, **facts)
    Beat.objects.create(name="ill", shards=24, lateness_seconds=75, refusal="clock off", is_broker_away=True, **facts)
    page = admin_client.get("/admin/onbeat_beat/beat/").content.decode()
    for text in ("40 of 64", "12 ms", "75.0 s", "clock off; cannot reach the broker"):
        assert text in page


def test_an_execution_shows_what_its_error_is_like_and_how_far_it_was(
    admin_client: Client, execution: Execution
) -> None:
    Execution.objects.update(checkpoint={"page": 7077}, progress={"note": "nearly there"})
    page = admin_client.get(f"/admin/onbeat_executions/execution/{execution.pk}/change/").content.decode()
    execution.refresh_from_db()
    assert all(said in page for said in (execution.fingerprint, "7077", "nearly there"))


def test_a_dead_message_shows_how_large_its_body_is_and_not_what_it_holds(admin_client: Client, noon: datetime) -> None:
    message = DeadMessage.objects.create(
        digest="d", queue="q", task="their.task", headers={"a": "<script>alert(1)</script>"}, body=b"hush-hush" * 111,
        error="No worker could take its message.", fingerprint="f", collected_at=noon,
    )  # fmt: skip
    assert "their.task" in admin_client.get("/admin/onbeat_executions/deadmessage/").content.decode()
    page = admin_client.get(f"/admin/onbeat_executions/deadmessage/{message.pk}/change/").content.decode()
    assert "999" in page
    assert "hush" not in page
    assert "<script>alert(1)" not in page
