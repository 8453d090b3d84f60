"""`preview`: the next fires of any schedule, stored or not, with what clock changes do to them."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from executions.clock import database_now
from jobs import definitions
from jobs.models import Job, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from tests import rows
from tests.calling import a_caller
from tests.making import a_job
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
BERLIN = "Europe/Berlin"


def preview(*arguments: str, code: int = 0) -> list[str]:
    output = StringIO()
    if not code:
        call_command("preview", *arguments, stdout=output)
    else:
        with pytest.raises(SystemExit) as ended:
            call_command("preview", *arguments, stdout=output)
        assert ended.value.code == code
    return output.getvalue().splitlines()


def as_json(*arguments: str, code: int = 0) -> Any:
    (line,) = preview(*arguments, "--json", code=code)
    return json.loads(line)


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        call_command("preview", *arguments, stdout=StringIO())
    assert error.value.returncode == 2
    text = str(error.value)
    assert text.isprintable()
    return text


def test_the_fires_of_a_cron_stand_below_its_sentence_in_its_zone_and_in_utc() -> None:
    sentence, heads, *fires = preview("30 7 * * 1-5", "--timezone", BERLIN, "--after", "2027-03-18", "--count", "3")
    assert sentence == "Every weekday at 07:30, Berlin"
    assert heads.split() == ["EUROPE/BERLIN", "UTC", "WHEN"]
    assert [line.split("  ")[:2] for line in fires] == [
        ["Thu 2027-03-18 07:30 CET", "2027-03-18 06:30"],
        ["Fri 2027-03-19 07:30 CET", "2027-03-19 06:30"],
        ["Mon 2027-03-22 07:30 CET", "2027-03-22 06:30"],
    ]


def test_what_a_clock_change_does_stands_beside_the_fire() -> None:
    *_, before, moved, after = preview(
        "30 2 * * *", "--timezone", BERLIN, "--after", "2027-03-26T12:00", "--count", "3"
    )
    assert "Sun 2027-03-28 03:00 CEST  2027-03-28 01:00" in moved
    assert moved.endswith("moved: the clocks skip its own time that night")
    assert "moved" not in before + after


def test_what_is_piped_is_never_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = preview("30 2 * * *", "--timezone", BERLIN, "--after", "2027-03-27T12:00", "--count", "1")
    assert len(lines) == 3


def test_what_has_seconds_is_told_to_the_second() -> None:
    lines = preview("15 30 7 * * *", "--after", "2027-01-01", "--count", "1")
    assert lines[-1].startswith("Fri 2027-01-01 07:30:15  in ")


def test_as_json_it_is_what_the_api_answers() -> None:
    said = ("30 2 * * *", "--timezone", BERLIN, "--after", "2027-03-26T12:00:00Z", "--count", "3")
    body = {
        "schedule": {"cron": "30 2 * * *", "timezone": BERLIN},
        "after": "2027-03-26T12:00:00Z",
        "count": 3,
    }
    answer = a_caller().post("/schedules/preview", body).body
    assert as_json(*said) == answer
    assert [fire["remark"] for fire in answer["fires"]] == ["", "moved: the clocks skip its own time that night", ""]


@pytest.mark.parametrize(("typed", "seconds"), [("every 15m", 900), ("every 900", 900), ("EVERY 2 h", 7200)])
def test_an_interval_counts_from_now(typed: str, seconds: int) -> None:
    now = database_now()
    seen = as_json(typed, "--count", "2")
    first, second = (datetime.fromisoformat(fire["at"]) for fire in seen["fires"])
    assert second - first == timedelta(seconds=seconds)
    assert abs(first - now - timedelta(seconds=seconds)) < timedelta(minutes=1)
    assert preview(typed)[-1] == "An interval counts from when it is stored: here, from now."


def test_an_interval_may_be_typed_without_quotes() -> None:
    assert preview("every", "15m")[0] == "Every 15 minutes"


def test_a_moment_is_read_in_the_zone() -> None:
    seen = as_json("2999-06-01T07:30", "--timezone", BERLIN)
    assert [fire["at"] for fire in seen["fires"]] == ["2999-06-01T05:30:00Z"]


def test_an_alias_and_a_warning() -> None:
    assert preview("@hourly", "--count", "1")[0] == "Every hour"
    assert preview("*/7 * * * *")[-1].startswith("! The step */7 of the minutes begins anew")


def test_a_key_spreads_an_h() -> None:
    by_key = [as_json("H 3 * * *", "--count", "1", "--key", key)["in_words"] for key in ("a", "b", "a")]
    assert by_key[0] == by_key[2] != by_key[1]


def test_what_never_fires_says_so_with_exit_code_1() -> None:
    assert preview("2020-01-01", code=1)[-1] == "It never fires: its time is past."
    assert as_json("2020-01-01", code=1)["fires"] == []
    assert preview("* * * * *", "--after", "9999-12-31", code=1)[-1] == "It never fires after that."


def test_a_job_is_shown_as_if_it_were_not_paused(noon: datetime) -> None:
    job = a_job(now=noon, key="billing", schedule=Cron("30 7 * * *", timezone=BERLIN))
    definitions.pause(job, reason="month end")
    before = rows.everything()
    assert preview("--job", "billing", "--count", "1")[0] == "Every day at 07:30, Berlin"
    assert as_json("--job", str(job.pk)) == a_caller().get("/jobs/billing/preview").body
    assert rows.everything() == before


def test_a_job_fires_within_its_bounds_and_as_often_as_it_may() -> None:
    start = datetime(2999, 1, 1, tzinfo=UTC)
    bounds = Within(Every(3600, start), start, start + timedelta(hours=5))
    a_job(now=database_now(), key="bounded", schedule=bounds)
    assert len(as_json("--job", "bounded")["fires"]) == 6
    Schedule.objects.update(max_fires=4, fires_left=3)
    assert [fire["at"][:13] for fire in as_json("--job", "bounded")["fires"]] == [
        "2999-01-01T00",
        "2999-01-01T01",
        "2999-01-01T02",
    ]
    later = as_json("--job", "bounded", "--after", "2999-01-01T01:30Z")
    assert [fire["at"][:13] for fire in later["fires"]] == ["2999-01-01T02"]
    assert preview("--job", "bounded", "--after", "2999-01-02", code=1)[-1] == "It fires no more after that."


def test_a_job_without_a_schedule_says_so() -> None:
    a_job(now=database_now(), key="by-hand")
    assert preview("--job", "by-hand", code=1)[-1] == "It has no schedule: it runs only when asked."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], 'Say a schedule, such as "30 7 * * 1-5"'),
        (["61 * * * *"], "The minute '61' of the cron expression '61 * * * *' cannot be: allowed are 0 to 59."),
        (["* * * * *", "--timezone", "Berlin"], "did you mean 'Europe/Berlin'?"),
        (["0 0 30 2 *"], "never fires"),
        (["every", "soon"], "'soon' is no interval; write one such as every 15m"),
        (["every 0s"], "An interval must be 1 second to 10 years"),
        (["every 5m", "--timezone", BERLIN], "timezone belongs to cron"),
        (["2026-13-01"], "'2026-13-01' is no moment"),
        (["* * * * *", "--after", "soon"], "--after 'soon' is no moment"),
        (["* * * * *", "--after", "0001-01-01T00:00+05:00"], "is no moment; write a date such as"),
        (["* * * * *", "--count", "0"], "--count must be 1 to 100, not 0."),
        (["* * * * *", "--count", "101"], "--count must be 1 to 100, not 101."),
        (["* * * * *", "--job", "billing"], "Say an expression or --job, one of them."),
        (["--job", "biling"], "did you mean 'billing'?"),
        (["--job", "billing", "--timezone", BERLIN], "--timezone is for an expression; the job has its own."),
        (["30", "a", "b", "c", "d", "e", "f", "1-5"], "write the expression in quotes"),
    ],
)
def test_a_refusal_is_one_sentence(arguments: list[str], says: str, noon: datetime) -> None:
    a_job(now=noon, key="billing", schedule=Cron("@daily"))
    assert says in refusal(*arguments)


def test_a_schedule_that_cannot_be_read_is_refused_as_such(noon: datetime) -> None:
    a_job(now=noon, key="billing", schedule=Cron("@daily"))
    Schedule.objects.update(timezone="Mars/Olympus")
    assert "cannot be read; give it another one" in refusal("--job", "billing")
    assert a_caller().get("/jobs/billing/preview").status == 422


def test_a_job_that_fires_once_is_shown_until_then() -> None:
    a_job(now=database_now(), key="once", schedule=Once(datetime(2999, 1, 1, tzinfo=UTC)))
    assert len(as_json("--job", "once")["fires"]) == 1
    assert Job.objects.get().state == "ACTIVE"
