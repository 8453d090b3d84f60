"""Jobs through the REST API: as people write them, read, changed and found again."""

from datetime import datetime
from typing import Any

import pytest

from api.jobs.examples import ONE_OFF, RECURRING
from tests.calling import Caller, a_caller

pytestmark = pytest.mark.django_db

MINIMAL: dict[str, Any] = {"key": "a", "target": {"task": "onbeat.echo"}}


@pytest.fixture
def api() -> Caller:
    return a_caller()


def test_a_job_is_created_as_it_was_written_and_answered_with_what_became_of_it(api: Caller) -> None:
    answer = api.post("/jobs", RECURRING)
    assert answer.status == 201
    job = answer.body
    assert {name: job[name] for name in ("key", "kwargs", "queue", "priority", "timeout")} == {
        name: RECURRING[name] for name in ("key", "kwargs", "queue", "priority", "timeout")
    }
    assert (job["state"], job["version"]) == ("ACTIVE", 1)
    assert job["schedule"]["cron"] == "0 3 * * *"
    assert job["schedule_in_words"] == "Every day at 03:00, Los Angeles"
    assert job["next_fire_at"] > job["created_at"]
    assert job["retry"]["backoff"] == "exponential"
    assert job["last_execution"] is None
    assert answer.headers["ETag"] == '"1"'
    assert api.get(answer.headers["Location"]).body == job
    assert api.get("/jobs/daily-invoice-gen").body == api.get("/jobs/by-key/daily-invoice-gen").body == job


def test_a_job_that_fires_once_says_when(api: Caller) -> None:
    job = api.post("/jobs", ONE_OFF).body
    assert job["schedule"]["once"]["at"] == job["next_fire_at"]
    seconds = datetime.fromisoformat(job["next_fire_at"]) - datetime.fromisoformat(job["created_at"])
    assert seconds.total_seconds() == pytest.approx(3600, abs=1)
