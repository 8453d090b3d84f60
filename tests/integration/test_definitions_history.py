"""Every change of a job leaves a version: who, when, through what, why, and the whole definition."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from executions.retry import RetryPolicy
from executions.states import Overlap
from executions.storable import storable_text
from jobs import definitions
from jobs.misfires import Misfire
from jobs.models import Change, Job
from jobs.recurrence import Cron, Every, Within
from tests.making import a_job, every_minute, seconds

pytestmark = pytest.mark.django_db


def history(job: Job) -> list[tuple[Any, ...]]:
    return list(
        job.versions.order_by("version").values_list("version", "change", "changed_by", "through", "note", "changed_at")
    )


def test_each_verb_leaves_a_version_with_who_when_through_what_and_why(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), by="ada", through="rest")
    definitions.change(job, version=1, priority=9, by="bob", through="admin", now=noon + seconds(1))
    definitions.pause(job, reason="too loud", by="cy", through="command", now=noon + seconds(2))
    definitions.resume(job, by="di", through="python", now=noon + seconds(3))
    definitions.archive(job, reason="done with it", by="ed", through="rest", now=noon + seconds(4))
    assert history(job) == [
        (1, Change.CREATED, "ada", "rest", "", noon),
        (2, Change.CHANGED, "bob", "admin", "", noon + seconds(1)),
        (3, Change.PAUSED, "cy", "command", "too loud", noon + seconds(2)),
        (4, Change.RESUMED, "di", "python", "", noon + seconds(3)),
        (5, Change.ARCHIVED, "ed", "rest", "done with it", noon + seconds(4)),
    ]
    assert Job.objects.get(pk=job.pk).version == 5


def test_a_version_holds_the_whole_definition_as_it_was(noon: datetime) -> None:
    job = a_job(
        now=noon,
        key="report",
        schedule=Within(Cron("0 3 * * *", "Europe/Berlin"), start=noon, end=noon + timedelta(days=9)),
        args=[1],
        kwargs={"a": {"b": None}},
        queue="batch",
        priority=7,
        retry=RetryPolicy(max_attempts=2, initial_seconds=5),
        max_lost=4,
        overlap=Overlap.SKIP,
        timeout_seconds=90,
        stop_grace_seconds=3,
        keep_result=True,
        max_fires=5,
        misfire_grace_seconds=6,
        misfire=Misfire.FIRE_ALL,
        misfire_limit=7,
        jitter_seconds=8,
        owner="payments",
        tags=["x"],
    )
    definitions.change(job, version=1, args=[2], schedule=None, max_fires=None, now=noon)
    first, second = (version.definition for version in job.versions.order_by("version"))
    assert first == {
        "key": "report",
        "task": "onbeat.echo",
        "http": None,
        "args": [1],
        "kwargs": {"a": {"b": None}},
        "queue": "batch",
        "priority": 7,
        "max_attempts": 2,
        "retry": {"initial_seconds": 5},
        "max_lost": 4,
        "overlap": "SKIP",
        "max_concurrency": 1,
        "timeout_seconds": 90,
        "stop_grace_seconds": 3,
        "keep_result": True,
        "owner": "payments",
        "tags": ["x"],
        "schedule": {
            "kind": "CRON",
            "expression": "0 3 * * *",
            "timezone": "Europe/Berlin",
            "anchor_at": None,
            "start_at": first["schedule"]["start_at"],
            "end_at": first["schedule"]["end_at"],
            "max_fires": 5,
            "misfire_grace_seconds": 6,
            "misfire": "FIRE_ALL",
            "misfire_limit": 7,
            "jitter_seconds": 8,
        },
    }
    assert datetime.fromisoformat(first["schedule"]["start_at"]) == noon
    assert datetime.fromisoformat(first["schedule"]["end_at"]) == noon + timedelta(days=9)
    assert second == {**first, "args": [2], "schedule": None}


def test_the_history_keeps_moments_to_the_microsecond(noon: datetime) -> None:
    anchor = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    job = a_job(now=noon, schedule=Within(Every(60, anchor), start=anchor))
    schedule = job.versions.get().definition["schedule"]
    assert datetime.fromisoformat(schedule["anchor_at"]) == anchor
    assert datetime.fromisoformat(schedule["start_at"]) == anchor


def test_long_names_and_notes_are_cut_and_not_refused(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), by="b" * 300)
    definitions.pause(job, reason="r" * 300, by="p" * 300, now=noon)
    definitions.resume(job, by="c" * 300, now=noon + timedelta(minutes=2))
    definitions.archive(job, reason="n" * 300, now=noon + timedelta(minutes=3))
    by, paused, _, archived = job.versions.order_by("version")
    assert (by.changed_by, paused.note, paused.changed_by, archived.note) == (
        "b" * 200,
        "r" * 200,
        "p" * 200,
        "n" * 200,
    )


@pytest.mark.parametrize("text", ["a\0b", "half a pair \ud800"], ids=ascii)
def test_a_reason_that_no_database_can_hold_is_made_storable(text: str, noon: datetime) -> None:
    """Reasons are typed and pasted by people: an odd one must not keep them from pausing a job."""
    job = a_job(now=noon, schedule=every_minute(noon))
    definitions.pause(job, reason=text, by=text, now=noon)
    stored = Job.objects.get(pk=job.pk)
    assert (stored.paused_reason, stored.paused_by) == (storable_text(text, 200), storable_text(text, 200))
    assert job.versions.order_by("version")[1].note == storable_text(text, 200)
