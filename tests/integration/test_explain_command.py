"""`explain`: one answer for people and for scripts, with the remedy to type."""

import json
import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from beat.models import Beat
from executions import lifecycle, queues
from executions.clock import database_now
from jobs import definitions
from jobs.models import Job, Schedule
from jobs.recurrence import Cron, Every
from jobs.verdicts import Verdict
from terminal.explain import TONES, around
from tests import rows
from tests.making import a_job, planned, succeeded
from tests.tiers import once_full
from workers.models import Worker

pytestmark = [pytest.mark.django_db, once_full]
BERLIN = "Europe/Berlin"
WINTER = datetime(2026, 2, 1, 12, tzinfo=UTC)  # past, whatever the clock of the database says
FIRE = datetime(2026, 2, 2, 6, 30, tzinfo=UTC)  # 07:30 in Berlin
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture
def job() -> Job:
    return a_job(now=WINTER, key="billing.daily", schedule=Cron("30 7 * * *", BERLIN))


def explain(*arguments: str) -> list[str]:
    before = rows.whole_database()
    output = StringIO()
    call_command("explain", *arguments, stdout=output)
    assert rows.whole_database() == before
    return output.getvalue().splitlines()


def as_json(*arguments: str) -> Any:
    (line,) = explain(*arguments, "--json")
    return json.loads(line)


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        explain(*arguments)
    assert error.value.returncode == 2
    text = str(error.value)
    assert text.isprintable()
    return text


def test_a_moment_without_an_offset_is_read_in_the_zone_of_the_job(job: Job) -> None:
    row = succeeded(job, FIRE, after=2, ran=30)
    lines = explain("billing.daily", "--at", "2026-02-02T07:30")
    assert lines[0].startswith("2026-02-02 07:30:00 CET (2026-02-02 06:30:00 UTC), ")
    assert lines[0].endswith(" ago")
    assert lines[1] == "It ran: attempt 1 succeeded at 2026-02-02 06:30:32 UTC."
    assert [line.split("  ")[0] for line in lines[2:7]] == ["planned", "started", "ended", "attempt 1", "execution"]
    assert lines[6].endswith(str(row.pk))
    assert explain("billing.daily", "--at", "2026-02-02T06:30Z") == lines


def test_a_script_reads_the_verdict(job: Job) -> None:
    row = succeeded(job, FIRE)
    told = as_json("billing.daily", "--at", "2026-02-02T07:30")
    (fire,) = told.pop("fires")
    assert fire.pop("facts")["attempt 1"].startswith("SUCCEEDED")
    assert fire == {
        "fire_time": "2026-02-02T06:30:00Z",
        "verdict": "RAN",
        "says": "It ran: attempt 1 succeeded at 2026-02-02 06:30:00 UTC.",
        "remedy": None,
        "execution_id": str(row.pk),
    }
    assert told == {
        "job": "billing.daily",
        "asked": {"from": "2026-02-02T06:30:00Z", "to": "2026-02-02T06:30:00Z"},
        "timezone": BERLIN,
        "remark": "",
        "left_out": {},
        "next_fire_at": "2026-02-02T06:30:00Z",
        "next": told["next"],
    }


def test_a_date_alone_is_the_whole_day_of_the_jobs_zone() -> None:
    a_job(now=WINTER, key="nightly", schedule=Cron("0 0,12 * * *", BERLIN))
    told = as_json("nightly", "--at", "2026-02-03")
    assert told["asked"] == {"from": "2026-02-02T23:00:00Z", "to": "2026-02-03T22:59:59.999999Z"}
    assert [fire["fire_time"] for fire in told["fires"]] == ["2026-02-02T23:00:00Z", "2026-02-03T11:00:00Z"]


def test_the_fires_of_a_day_stand_in_lines_and_those_alike_together() -> None:
    job = a_job(now=WINTER, key="pulse", schedule=Every(600, WINTER))
    for number in range(1, 4):
        lifecycle.skip([planned(job, WINTER + number * 10 * MINUTE).pk], reason="expired", now=WINTER)
    succeeded(job, WINTER + 40 * MINUTE)
    definitions.archive(job, by="anna", now=WINTER + 45 * MINUTE)
    lines = explain("pulse", "--at", "2026-02-01")
    assert lines[0].split() == ["UTC", "FIRES", "VERDICT", "WHY"]
    told = [re.split(r"\s{2,}", line) for line in lines]
    assert ["02-01 12:10:00 to 12:30:00", "3", "SKIPPED", "It did not run: expired."] in told
    assert ["02-01 12:40:00", "1", "RAN", "It ran: attempt 1 succeeded at 2026-02-01 12:40:00 UTC."] in told
    text = "\n".join(lines)
    assert "more: 27 NO_SUCH_JOB_THEN, 67 OVER" in text
    assert lines[-1] == "The job is ARCHIVED: it fires no more."


def test_one_backfill_is_the_remedy_of_several_fires_in_a_row() -> None:
    job = a_job(now=WINTER, key="pulse", schedule=Every(600, WINTER))
    for number in range(1, 5):
        lifecycle.skip([planned(job, WINTER + number * 10 * MINUTE).pk], reason="expired", now=WINTER)
    Schedule.objects.update(next_fire_at=WINTER + 3650 * DAY)
    lines = explain("pulse", "--at", "2026-02-01")
    remedies = [line for line in lines if line.startswith("Remedy: ")]
    assert remedies == ["Remedy: ./onbeat jobs backfill pulse --from 2026-02-01T12:10:00Z --to 2026-02-01T12:40:00Z"]
    call_command(*remedies[0].removeprefix("Remedy: ./onbeat ").split(), "--yes", stdout=StringIO())
    assert {row.trigger for row in rows.of(job)} == {"BACKFILL"}


def test_who_paused_it_and_how_to_resume_it_is_told(job: Job) -> None:
    definitions.pause(job, reason="month end", by="anna", now=WINTER)
    lines = explain("billing.daily")
    assert lines[1] == "It did not run: paused by anna: month end."
    assert "Remedy: ./onbeat jobs resume billing.daily" in lines
    assert lines[-1] == "It is paused by anna, until somebody resumes it."


def test_a_job_that_is_over_is_found_by_its_key(job: Job) -> None:
    succeeded(job, FIRE)
    Schedule.objects.update(next_fire_at=FIRE + DAY)
    definitions.archive(job, reason="moved", by="anna", now=FIRE + MINUTE)
    assert as_json("billing.daily")["fires"][0]["verdict"] == "RAN"
    assert as_json(str(job.pk), "--at", "2026-02-03T07:30")["fires"][0]["verdict"] == "OVER"


def test_of_two_jobs_with_one_key_the_open_one_is_meant(job: Job) -> None:
    definitions.archive(job, now=WINTER)
    again = a_job(now=WINTER + DAY, key="billing.daily", schedule=Cron("@daily"))
    succeeded(again, WINTER + 1.5 * DAY)
    assert as_json("billing.daily", "--at", "2026-02-03T00:00Z")["fires"][0]["verdict"] == "RAN"


def test_the_beats_of_this_moment_are_told_of_what_none_has_planned(job: Job) -> None:
    (fire,) = as_json("billing.daily")["fires"]
    assert (fire["verdict"], fire["remedy"]) == ("UNPLANNED", "./onbeat doctor")
    assert "no beat ticks: none has ticked yet" in fire["says"]


def test_what_is_around_is_read_from_the_registries() -> None:
    now = database_now()
    assert around(now).consumed == frozenset()
    assert any("no beat ticks" in trouble for trouble in around(now).troubles)
    name = queues.work_queue("default").name
    Worker.objects.create(name="w", host="h", pid=1, queues=[name], started_at=now, heartbeat_at=now)
    Worker.objects.create(name="gone", host="h", pid=2, queues=["old"], started_at=now, heartbeat_at=now - DAY)
    Beat.objects.create(name="b", host="h", pid=3, started_at=now, ticked_at=now, seen_at=now, is_broker_away=True)
    seen = around(now)
    assert seen.consumed == {name}
    assert seen.beats == "1 ticking"
    assert seen.troubles == ("1 of 1 beats cannot reach the broker: executions wait in the database until it is back",)


def test_every_verdict_has_its_colour() -> None:
    assert set(TONES) == set(Verdict)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["biling.daily"], "There is no job 'biling.daily'; did you mean 'billing.daily'?"),
        (["999999"], "There is no job '999999'; create it first, or look for its key."),
        (["billing.daily", "--at", "soon"], "--at 'soon' is no moment; write a date such as 2026-11-01"),
        (["billing.daily", "--at", "2026-02-30"], "--at '2026-02-30' is no moment"),
        (["billing.daily", "--at", "0001-01-02"], "must lie between the years 1970 and 9900."),
        (["billing.daily", "--at", "9999-12-30"], "must lie between the years 1970 and 9900."),
        (["billing.daily", "--at", "0001-01-01T00:00+05:00"], "is no moment; write a date such as"),
    ],
)
def test_a_refusal_is_one_sentence(job: Job, arguments: list[str], says: str) -> None:
    assert says in refusal(*arguments)
