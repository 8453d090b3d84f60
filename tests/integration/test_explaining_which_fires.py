"""Which fires are explained: of a moment the nearest one, of a day each of them."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from executions import lifecycle
from jobs.backfill import backfill
from jobs.explaining import MOST_FIRES, MOST_TOLD, explain
from jobs.models import Job
from jobs.recurrence import Cron, Every
from jobs.verdicts import Verdict
from tests.explaining import WELL, answer, asked, stands_at
from tests.making import a_job, planned, seconds, succeeded

pytestmark = pytest.mark.django_db
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def eight(noon: datetime) -> datetime:
    """When jobs are made: fires come from nine o'clock on."""
    return noon - 4 * HOUR


@pytest.fixture
def job(eight: datetime) -> Job:
    return a_job(now=eight, key="billing", schedule=Cron("0 * * * *"))


@pytest.mark.parametrize(
    ("minutes", "fire", "remark"),
    [
        (-10, 0, "No fire was due at 2026-06-15 11:50:00 UTC; the nearest is 10 min after."),
        (10, 0, "No fire was due at 2026-06-15 12:10:00 UTC; the nearest is 10 min before."),
        (0, 0, ""),
        (-31, -60, "No fire was due at 2026-06-15 11:29:00 UTC; the nearest is 29 min before."),
    ],
)
def test_a_moment_means_the_nearest_fire(job: Job, noon: datetime, minutes: int, fire: int, remark: str) -> None:
    told = asked(job, noon + minutes * MINUTE, now=noon + DAY)
    assert [one.fire_time for one in told.fires] == [noon + fire * MINUTE]
    assert told.remark == remark


def test_before_its_first_fire_it_is_told_when_that_comes(job: Job, eight: datetime) -> None:
    one = answer(job, now=eight + MINUTE)
    assert (one.verdict, one.fire_time) == (Verdict.NOT_YET, eight + HOUR)


def test_a_day_tells_each_of_its_fires(job: Job, noon: datetime, eight: datetime) -> None:
    succeeded(job, eight + HOUR)
    lifecycle.skip([planned(job, eight + 2 * HOUR).pk], reason="expired", now=noon)
    stands_at(job, noon - HOUR)
    told = explain(job, start=eight + MINUTE, end=noon + HOUR, now=noon + MINUTE, around=WELL)
    assert [one.verdict for one in told.fires] == [
        Verdict.RAN,
        Verdict.SKIPPED,
        Verdict.UNPLANNED,
        Verdict.UNPLANNED,
        Verdict.NOT_YET,
    ]
    assert told.left_out == {}


def test_of_many_fires_those_that_went_wrong_are_told(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Every(60, noon))
    for number in range(1, 101):
        succeeded(job, noon + number * MINUTE)
    lifecycle.skip([planned(job, noon + 101 * MINUTE).pk], reason="expired", now=noon)
    stands_at(job, noon + 102 * MINUTE)
    told = explain(job, start=noon, end=noon + 101 * MINUTE, now=noon + 2 * HOUR, around=WELL)
    assert len(told.fires) == MOST_TOLD
    assert told.fires[-1].verdict is Verdict.SKIPPED
    assert told.left_out == {Verdict.NO_SUCH_JOB_THEN: 1, Verdict.RAN: 51}


def test_a_day_of_seconds_is_cut_and_says_so(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("* * * * * *"))
    told = explain(job, start=noon, end=noon + DAY, now=noon, around=WELL)
    assert len(told.fires) + sum(told.left_out.values()) == MOST_FIRES
    assert told.remark == "There are more than 2,000 fires; these are of the first 2,000."


def test_a_day_without_a_fire_says_why(noon: datetime, eight: datetime) -> None:
    job = a_job(now=eight, schedule=Cron("0 9 * * 1-5"))
    saturday = datetime(2026, 6, 20, tzinfo=UTC)
    told = explain(job, start=saturday, end=saturday + DAY - seconds(1), now=saturday + 3 * DAY, around=WELL)
    (one,) = told.fires
    assert (one.verdict, one.fire_time) == (Verdict.NOT_DUE, None)
    assert one.says == 'It was not due: its schedule then was "Every weekday at 09:00, UTC" (0 9 * * 1-5).'


def test_a_backfilled_fire_from_before_the_job_was_made_is_told_by_its_row(
    job: Job, noon: datetime, eight: datetime
) -> None:
    stands_at(job, noon + HOUR)
    backfill(job, start=eight - HOUR, end=eight - HOUR, now=noon)
    assert answer(job, eight - HOUR, now=noon + MINUTE).verdict is Verdict.WAITS


def test_however_many_fires_the_statements_stay_few(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Every(60, noon))
    for number in range(1, 40):
        succeeded(job, noon + number * MINUTE)
    stands_at(job, noon + 40 * MINUTE)

    def statements(fires: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            explain(job, start=noon, end=noon + fires * MINUTE, now=noon + DAY, around=WELL)
        return len(queries)

    assert statements(1) == statements(39) <= 7
