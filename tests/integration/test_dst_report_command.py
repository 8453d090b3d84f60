"""`dst_report`: which schedules the next clock changes touch, told to people and to scripts."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from executions.clock import database_now
from jobs import clock_change_report, definitions
from jobs.clock_change_report import Report, schedules
from jobs.models import Schedule
from jobs.recurrence import Cron, Every, Once, Within
from tests import rows
from tests.making import a_job
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
BERLIN = "Europe/Berlin"
WINTER = datetime(2026, 12, 1, tzinfo=UTC)
SPRING = datetime(2027, 3, 28, 1, 0, tzinfo=UTC)
A_YEAR = ("--days", "370")  # both changes of each zone that has two, whatever the day is


def dst_report(*arguments: str) -> list[str]:
    output = StringIO()
    call_command("dst_report", *arguments, stdout=output)
    return output.getvalue().splitlines()


def as_json(*arguments: str) -> Any:
    (line,) = dst_report(*arguments, "--json")
    return json.loads(line)


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        dst_report(*arguments)
    assert error.value.returncode == 2
    text = str(error.value)
    assert text.isprintable()
    return text


def reported(*, days: int = 180) -> Report:
    return clock_change_report.report(schedules(), now=WINTER, days=days)


def touched(report: Report) -> dict[tuple[str, str], tuple[str, int, tuple[str, ...]]]:
    return {
        (change.zone.key, one.expression): (one.touch.effect, one.jobs, one.keys)
        for change in report.changes
        for one in change.touched
    }


def test_equal_schedules_are_told_as_one_with_the_first_keys() -> None:
    for number in range(5):
        a_job(now=WINTER, key=f"billing.{number}", schedule=Cron("30 2 * * *", BERLIN))
    a_job(now=WINTER, key="pulse", schedule=Cron("*/5 * * * *", BERLIN))
    a_job(now=WINTER, key="morning", schedule=Cron("0 9 * * *", BERLIN))
    found = reported()
    assert [(one.zone.key, one.change.instant, one.touched_jobs, one.shifted) for one in found.changes] == [
        (BERLIN, SPRING, 6, 6)
    ]
    assert touched(found) == {
        (BERLIN, "30 2 * * *"): ("MOVED", 5, ("billing.0", "billing.1", "billing.2")),
        (BERLIN, "*/5 * * * *"): ("FEWER", 1, ("pulse",)),
    }


def test_changes_are_told_soonest_first_and_what_has_none_is_counted() -> None:
    a_job(now=WINTER, schedule=Cron("0 0 * * *", "Africa/Cairo"))
    a_job(now=WINTER, schedule=Cron("0 0 * * *", "America/New_York"))
    a_job(now=WINTER, schedule=Cron("0 0 * * *", BERLIN))
    a_job(now=WINTER, schedule=Cron("0 0 * * *", "Asia/Tokyo"))
    a_job(now=WINTER, schedule=Cron("0 0 * * *"))
    a_job(now=WINTER, schedule=Every(60, WINTER))
    a_job(now=WINTER, schedule=Once(WINTER + timedelta(days=100)))
    a_job(now=WINTER)
    found = reported()
    assert [one.zone.key for one in found.changes] == ["America/New_York", BERLIN, "Africa/Cairo"]
    these = found.untouched
    assert (these.intervals, these.once, these.steady, these.unreadable) == (1, 1, 2, 0)
    assert len(reported(days=365).changes) == 6


def test_paused_jobs_count_and_those_that_are_over_do_not() -> None:
    paused = a_job(now=WINTER, key="paused", schedule=Cron("30 2 * * *", BERLIN))
    definitions.pause(paused, reason="", now=WINTER)
    definitions.archive(a_job(now=WINTER, schedule=Cron("30 2 * * *", BERLIN)), now=WINTER)
    assert touched(reported())[BERLIN, "30 2 * * *"][1:] == (1, ("paused",))


def test_what_has_its_end_or_its_last_fire_before_the_change_is_not_touched() -> None:
    cron = Cron("30 2 * * *", BERLIN)
    a_job(now=WINTER, key="ends", schedule=Within(cron, end=SPRING - timedelta(days=1)))
    a_job(now=WINTER, key="begins", schedule=Within(cron, start=SPRING + timedelta(days=1)))
    a_job(now=WINTER, key="three", schedule=cron, max_fires=3)
    a_job(now=WINTER, key="enough", schedule=cron, max_fires=118)  # the last is that of this night
    a_job(now=WINTER, key="one-less", schedule=cron, max_fires=117)
    assert touched(reported()) == {(BERLIN, "30 2 * * *"): ("MOVED", 1, ("enough",))}


def test_an_h_is_looked_at_for_each_key() -> None:
    keys = [f"job-{number}" for number in range(50)]
    for key in keys:
        a_job(now=WINTER, key=key, schedule=Cron("H H(1-3) * * *", BERLIN))
    in_gap = {key for key in keys if Cron("H H(1-3) * * *", BERLIN, key).fields.hour.values == (2,)}
    (change,) = reported().changes
    assert change.touched_jobs == len(in_gap) > 0
    assert {key for one in change.touched for key in one.keys} <= in_gap


def test_what_cannot_be_read_is_counted_and_stops_nothing() -> None:
    a_job(now=WINTER, key="broken", schedule=Cron("30 2 * * *", BERLIN))
    a_job(now=WINTER, key="gone", schedule=Cron("30 2 * * *", BERLIN))
    a_job(now=WINTER, key="well", schedule=Cron("30 2 * * *", BERLIN))
    Schedule.objects.filter(job__key="broken").update(expression="soon")
    Schedule.objects.filter(job__key="gone").update(timezone="Mars/Olympus")
    found = reported()
    assert found.untouched.unreadable == 2
    assert touched(found)[BERLIN, "30 2 * * *"][2] == ("well",)


def test_many_schedules_are_read_in_one_statement() -> None:
    for number in range(30):
        a_job(now=WINTER, schedule=Cron(f"{number} 2 * * *", BERLIN))
    with CaptureQueriesContext(
        connection,
    ) as queries:
        reported()
    assert len(queries) == 1


def test_a_person_reads_each_change_with_whom_it_touches() -> None:
    a_job(now=database_now(), key="billing", schedule=Cron("30 2 * * *", BERLIN))
    a_job(now=database_now(), schedule=Every(60, WINTER))
    before = rows.everything()
    lines = dst_report(*A_YEAR)
    text = "\n".join(lines)
    assert "the clocks go forward from 02:00 to 03:00 (" in text
    assert "the clocks go back from 03:00 to 02:00 (" in text
    assert any(
        line.split("  ")[0] == "MOVED" and "02:30 does not exist: it fires at 03:00 CEST (01:00 UTC) instead" in line
        for line in lines
    )
    assert "02:30 comes twice: it fires the first time only, at 02:30 CEST (00:30 UTC)" in text
    assert "1 job keeps its time of day, which by UTC is 1 h earlier from then on." in lines
    assert lines[-1] == "Never touched: 1 interval."
    assert rows.everything() == before


def test_a_script_reads_the_same() -> None:
    a_job(now=database_now(), key="billing", schedule=Cron("30 2 * * *", BERLIN))
    found = as_json(*A_YEAR)
    assert found["untouched"] == {"intervals": 0, "once": 0, "steady": 0, "unreadable": 0}
    changes = {one["shift_seconds"]: one for one in found["changes"]}
    forward = changes[3600]
    assert (forward["zone"], forward["offset_before"], forward["offset_after"]) == (BERLIN, "+01:00", "+02:00")
    (one,) = forward["touched"]
    assert one.pop("first_time") == one.pop("last_time") == f"{forward['at'][:10]}T02:30:00"
    assert one == {
        "cron": "30 2 * * *",
        "effect": "MOVED",
        "says": "02:30 does not exist: it fires at 03:00 CEST (01:00 UTC) instead",
        "fires_at": forward["at"],
        "fires_usually": 1,
        "fires_that_day": 1,
        "jobs": 1,
        "keys": ["billing"],
    }
    assert changes[-3600]["touched"][0]["effect"] == "ONCE"


def test_one_zone_or_one_job_can_be_asked_for() -> None:
    now = database_now()
    a_job(now=now, key="billing", schedule=Cron("30 2 * * *", BERLIN))
    a_job(now=now, key="nine", schedule=Cron("0 9 * * *", BERLIN))
    a_job(now=now, key="elsewhere", schedule=Cron("30 2 * * *", "America/New_York"))
    assert {one["zone"] for one in as_json(*A_YEAR, "--zone", "America/New_York")["changes"]} == {"America/New_York"}
    keys = {key for one in as_json(*A_YEAR, "--job", "billing")["changes"] for key in one["touched"][0]["keys"]}
    assert keys == {"billing"}
    assert dst_report(*A_YEAR, "--job", "nine")[-1].endswith("no night of nine is unlike the others.")


def test_without_a_change_it_says_so() -> None:
    a_job(now=database_now(), schedule=Cron("@daily"))
    first, _, last = dst_report()
    assert first.startswith("No clocks that a schedule goes by change until ")
    assert last == "Never touched: 1 cron in UTC or where the clocks stay as they are."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--days", "0"], "--days must be 1 to 3660, not 0."),
        (["--zone", "Berlin"], "did you mean 'Europe/Berlin'?"),
        (["--job", "biling"], "did you mean 'billing'?"),
        (["--job", "by-hand"], "The job 'by-hand' has no schedule; it runs only when asked."),
    ],
)
def test_a_refusal_is_one_sentence(arguments: list[str], says: str, noon: datetime) -> None:
    a_job(now=noon, key="billing", schedule=Cron("@daily"))
    a_job(now=noon, key="by-hand")
    assert says in refusal(*arguments)


def test_a_job_that_is_over_is_refused(noon: datetime) -> None:
    job = a_job(now=noon, key="billing", schedule=Cron("@daily"))
    definitions.archive(job, now=noon)
    assert refusal("--job", str(job.pk)) == "The job 'billing' is ARCHIVED and fires no more."
