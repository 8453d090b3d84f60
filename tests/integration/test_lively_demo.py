"""The demo data: an installation with something of everything that the admin shows."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from access.models import ApiKey, AuditEntry
from console.dashboard.figures import figures
from examples.lively_demo import present
from examples.lively_demo.filling import HasJobs, fill
from executions.clock import database_now
from executions.dead_letter_groups import groups_of_jobs
from executions.models import Execution
from jobs.models import Job, JobState, JobVersion
from tests.making import a_job

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]


@pytest.fixture(autouse=True)
def patience(settings: Any) -> None:
    """A machine with much else to do makes the data and looks at it in more seconds than a beat may be silent."""
    settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS = settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS = 300


def test_it_is_made_in_a_database_without_jobs_only() -> None:
    a_job(now=database_now())
    with pytest.raises(HasJobs):
        fill()
    assert not Execution.objects.exists()


def test_it_has_something_of_everything(admin_client: Client) -> None:
    now = database_now()
    fill(now)
    assert {state for (state,) in Execution.objects.values_list("state").distinct()} == {
        *("SCHEDULED", "QUEUED", "RUNNING", "SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED")
    }
    assert len(groups_of_jobs(limit=10)) == 2
    assert Job.objects.get(state=JobState.PAUSED).paused_reason
    assert JobVersion.objects.filter(version=3).exists()
    assert ApiKey.objects.exists()
    assert AuditEntry.objects.filter(action="job.change").exists()
    seen = figures(now)
    assert {concern.title for concern in seen.concerns} >= {"1 worker silent", "The queue media grows"}
    assert "bad" not in {concern.tone for concern in seen.concerns}
    assert admin_client.get("/admin/").status_code == 200


def test_at_noon_its_forecast_has_a_pile(noon: datetime) -> None:
    """Not at any time: for minutes of each day the pile of the day is over, and that of the next not yet seen."""
    fill(noon)
    assert figures(noon).piles


def test_nothing_becomes_silent_or_late_as_long_as_it_gives_signs_of_life() -> None:
    now = database_now()
    fill(now - timedelta(minutes=7))
    present.give_signs_of_life(now)
    titles = {concern.title for concern in figures(now).concerns}
    assert "1 worker silent" in titles
    assert not [title for title in titles if "late" in title or "beat" in title.lower()]
