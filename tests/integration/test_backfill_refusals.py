"""Backfills that cannot be: refused with the field and the remedy, quickly, and nothing is stored."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples

from jobs import backfill as backfills
from jobs import definitions
from jobs.backfill import backfill, preview
from jobs.models import Job, Schedule
from jobs.recurrence import Cron, Once
from jobs.refusals import InvalidRun, NoSuchJob, Refused
from tests import rows
from tests.anything import ANYTHING
from tests.integration.minutely import a_minutely_job, minutes
from tests.making import a_job, every_minute

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_minutely_job(noon, key="billing", kwargs={"tenant": "acme"})


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"start": minutes(1), "end": minutes(2)}, "start", "is not past; what is to come fires by itself"),
        ({"start": minutes(0), "end": minutes(-2)}, "start", "comes after the end 2026-06-15T11:58:00+00:00; exchange"),
        ({"start": minutes(-0.75), "end": minutes(-0.5)}, "start", "(Every minute) has no fire from"),
        ({"per_minute": 0}, "per_minute", "a whole number from 1 to 6000, not 0"),
        ({"per_minute": 6001}, "per_minute", "not 6001"),
        ({"per_minute": 1.5}, "per_minute", "not 1.5"),
        ({"by": None}, "by", "by must be text"),
        ({"through": 1}, "through", "through must be text"),
        ({"start": timedelta(days=-10)}, "end", "more than 10000 fires from"),
        ({"start": timedelta(days=-10)}, "end", "in parts, the first up to 2026-06-12T10:39:00+00:00"),
        ({"start": timedelta(days=-25_000)}, "start", "between the years 1970 and 9900"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy_and_nothing_is_stored(
    job: Job, noon: datetime, given: dict[str, Any], field: str, says: str
) -> None:
    span: dict[str, Any] = {"start": minutes(-5), "end": minutes(0)} | given
    span |= {name: noon + span[name] for name in ("start", "end")}
    before = rows.everything()
    with pytest.raises(InvalidRun) as refusal:
        backfill(job, **span, now=noon)
    assert refusal.value.field == field
    assert says in str(refusal.value)
    assert str(refusal.value).endswith(".")
    assert rows.everything() == before
    if field not in ("by", "through"):
        with pytest.raises(InvalidRun, match=re.escape(str(refusal.value))):
            preview(job, **span, now=noon)


def test_times_without_a_zone_are_refused(job: Job, noon: datetime) -> None:
    naive = noon.replace(tzinfo=None)
    for field in ("start", "end"):
        with pytest.raises(InvalidRun, match=f"The {field} .* time zone, such as"):
            preview(job, **{"start": noon, "end": noon, field: naive}, now=noon)


@pytest.mark.parametrize("act", [preview, backfill])
def test_jobs_that_have_no_fires_are_refused(noon: datetime, act: Any) -> None:
    span = {"start": noon - minutes(5), "end": noon, "now": noon}
    a_job(now=noon, key="billing")
    with pytest.raises(NoSuchJob, match="did you mean 'billing'"):
        act("biling", **span)
    with pytest.raises(InvalidRun, match="has no schedule and so no fires; ask for runs"):
        act("billing", **span)
    archived = a_job(now=noon, key="old", schedule=every_minute(noon))
    definitions.archive(archived, now=noon)
    with pytest.raises(InvalidRun, match="is ARCHIVED and runs no more; create it anew"):
        act(archived, **span)
    with pytest.raises(NoSuchJob, match="is over; create it anew"):
        act("old", **span)
    completed = a_job(now=noon, schedule=every_minute(noon))
    Schedule.objects.filter(job=completed).update(next_fire_at=None)
    definitions.complete_ended(noon)
    with pytest.raises(InvalidRun, match="is COMPLETED"):
        act(completed, **span)


@pytest.mark.parametrize("breakage", [{"timezone": "Mars/Olympus"}, {"kind": "EVERY"}, {"kind": "NEVER"}])
def test_a_schedule_that_cannot_be_read_is_refused(noon: datetime, breakage: dict[str, str]) -> None:
    job = a_job(now=noon, key="broken", schedule=Cron("* * * * *"))
    Schedule.objects.update(**breakage)
    with pytest.raises(InvalidRun, match="of 'broken' cannot be read; give the job another one"):
        preview(job, start=noon - minutes(1), end=noon, now=noon)


def test_ten_years_of_seconds_are_refused_after_as_many_as_one_backfill_takes(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfills, "MOST_FIRES", 100)
    job = a_job(now=noon, schedule=Cron("* * * * * *"))
    asked = 0
    original = Cron.next_after

    def count(self: Cron, moment: datetime) -> datetime | None:
        nonlocal asked
        asked += 1
        return original(self, moment)

    monkeypatch.setattr(Cron, "next_after", count)
    with pytest.raises(InvalidRun, match="more than 100 fires"):
        preview(job, start=noon - timedelta(days=3650), end=noon, now=noon)
    assert asked == 101


@pytest.mark.embedded
@pytest.mark.parametrize("field", ["start", "end", "per_minute", "by", "through"])
@examples(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=ANYTHING)
def test_any_value_of_any_field_is_taken_or_refused(field: str, value: Any, noon: datetime, db: None) -> None:
    schedule = Once(noon + timedelta(days=1))
    job = Job.objects.filter(key="any").first() or a_job(now=noon, key="any", schedule=schedule)
    with pytest.raises(Refused):  # at the latest for having no fire
        backfill(job, **{"start": noon - minutes(1), "end": noon, field: value}, now=noon)
