"""What a job's schedule will do, and what it would have done: previews and backfills through the REST API."""

from datetime import timedelta

import pytest

from executions.clock import database_now
from executions.states import Trigger
from jobs.models import Job, Schedule
from jobs.recurrence import Every
from tests.calling import Caller, a_caller
from tests.making import a_job
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
TARGET = {"task": "onbeat.echo"}


@pytest.fixture
def api() -> Caller:
    return a_caller()


def test_a_schedule_that_is_not_stored_shows_its_fires_over_a_clock_change(api: Caller) -> None:
    body = {
        "schedule": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
        "after": "2027-03-26T12:00:00Z",
        "count": 3,
    }
    seen = api.post("/schedules/preview", body).body
    assert [fire["local"] for fire in seen["fires"]] == [
        "2027-03-27T02:30:00+01:00",
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T02:30:00+02:00",
    ]
    assert [fire["remark"] for fire in seen["fires"]] == ["", "moved: the clocks skip its own time that night", ""]
    assert seen["in_words"] == "Every day at 02:30, Berlin"
    assert not Job.objects.exists()


def test_a_jobs_preview_ends_with_its_last_fire(api: Caller) -> None:
    api.post("/jobs", {"key": "a", "target": TARGET, "schedule": {"every": 60, "max_fires": 2}})
    assert len(api.get("/jobs/a/preview").body["fires"]) == 2
    api.post("/jobs", {"key": "b", "target": TARGET})
    assert api.get("/jobs/b/preview").body == {"in_words": "only when asked", "fires": [], "warnings": []}


def test_a_backfill_looks_first_and_then_does_what_it_said(api: Caller) -> None:
    now = database_now()
    start = now.replace(microsecond=0) - timedelta(hours=5)
    job = a_job(now=now - timedelta(days=1), key="a", schedule=Every(3600, start))
    Schedule.objects.update(next_fire_at=start + timedelta(hours=6))
    body = {"start": start.isoformat(), "end": (start + timedelta(hours=2)).isoformat()}
    dry = api.post("/jobs/a/backfill", body)
    assert (dry.status, dry.body["dry_run"], dry.body["to_run"]) == (200, True, 3)
    assert not job.executions.exists()
    done = api.post("/jobs/a/backfill", {**body, "dry_run": False})
    assert (done.status, done.body["new"], len(done.body["fires"])) == (201, 3, 3)
    assert job.executions.filter(trigger=Trigger.BACKFILL).count() == 3
    assert api.post("/jobs/a/backfill", {**body, "dry_run": False}).body["to_run"] == 0
