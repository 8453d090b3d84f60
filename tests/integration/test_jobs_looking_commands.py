"""`jobs list`, `show`, `history` and `next`: as text and as JSON; nothing is changed by looking."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from executions import lifecycle
from executions.clock import database_now
from jobs import definitions
from jobs.misfires import Misfire
from jobs.models import Job
from jobs.recurrence import Cron
from tests.at_terminal import document, ended, refusal, typed
from tests.making import a_job, claimed, every_minute, planned, seconds
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def jobs(now: datetime) -> list[Job]:
    minutely, daily = every_minute(now + seconds(30)), Cron("30 7 * * *", timezone="Europe/Berlin")
    return [
        a_job(now=now - seconds(3), key="b.mail", queue="mail", tags=["x", "y"], schedule=minutely),
        a_job(now=now - seconds(2), key="a.bill", owner="Billing", schedule=daily),
        a_job(now=now - seconds(1), key="c.asked", task="onbeat.sleep"),
    ]


# ── List ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def keys(*options: str) -> list[str]:
    return [item["key"] for item in document("jobs", "list", *options)["items"]]


def test_the_list_is_by_key_and_tells_of_schedule_and_last_run(jobs: list[Job], now: datetime) -> None:
    lifecycle.fail(claimed(planned(jobs[0], now - seconds(9)), now=now), error="no", now=now)
    definitions.pause("a.bill", reason="closed")
    heads, first, second, third = typed("jobs", "list")
    assert heads.split() == ["KEY", "STATE", "SCHEDULE", "NEXT", "LAST", "RUNS"]
    assert first.split() == ["a.bill", "PAUSED", "Every", "day", "at", "07:30,", "Berlin", "-", "-", "onbeat.echo"]
    assert second.startswith("b.mail   ACTIVE  Every minute                in ")
    assert second.split()[-2:] == ["SCHEDULED", "onbeat.echo"]
    assert third.split() == ["c.asked", "ACTIVE", "only", "when", "asked", "-", "-", "onbeat.sleep"]


def test_filters_find_what_they_say(jobs: list[Job]) -> None:
    definitions.archive("c.asked")
    assert keys() == ["a.bill", "b.mail"]
    assert keys("--state", "archived") == keys("--task", "onbeat.sleep", "--state", "ARCHIVED") == ["c.asked"]
    assert keys("--state", "ACTIVE", "--state", "ARCHIVED") == ["a.bill", "b.mail", "c.asked"]
    assert keys("--queue", "mail") == keys("--tag", "y") == keys("--prefix", "b.") == ["b.mail"]
    assert keys("--owner", "Billing") == keys("--search", "BILL") == ["a.bill"]
    assert keys("--tag", "x", "--owner", "Billing") == keys("--tag", "") == keys("--search", "%") == []


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("key", "abc"),
        ("created_at", "bac"),
        ("changed_at", "bac"),
        ("next_fire_at", "bac"),
    ],
)
def test_the_list_has_its_order_and_the_other_way_round(jobs: list[Job], order: str, expected: str) -> None:
    assert [key[0] for key in keys("--order", order)] == list(expected)
    assert [key[0] for key in keys("--order", order, "--reverse")] == list(reversed(expected))


def test_more_than_the_limit_is_told(jobs: list[Job]) -> None:
    assert typed("jobs", "list", "--limit", "2")[-1].startswith("There are more; --limit 200 shows more of them")
    assert document("jobs", "list", "--limit", "2")["has_more"] is True
    assert document("jobs", "list", "--limit", "3")["has_more"] is False


def test_an_empty_list_says_so() -> None:
    assert typed("jobs", "list") == ["There is no job yet; `./onbeat jobs create --help` tells how to make one."]
    assert typed("jobs", "list", "--queue", "mail") == ["No job matches."]
    assert document("jobs", "list") == {"items": [], "has_more": False}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--limit", "0"], "--limit must be 1 to 200, not 0."),
        (["--limit", "x"], "--limit 'x' is no whole number."),
        (["--state", "gone"], "--state 'GONE' is none of ACTIVE, PAUSED, COMPLETED, ARCHIVED."),
        (["--order", "colour"], "--order 'colour' is none of key, created_at, changed_at, next_fire_at."),
        (["a.bill"], "There is no place for 'a.bill' here."),
    ],
)
def test_a_list_that_cannot_be_is_one_sentence(options: list[str], says: str) -> None:
    assert says in refusal("jobs", "list", *options)


def test_what_others_wrote_gives_a_terminal_no_command(jobs: list[Job]) -> None:
    definitions.pause("a.bill", reason="closed\x1b]0;owned\x07")
    Job.objects.filter(key="b.mail").update(owner="me\x1b[2J")
    for words in (["list"], ["show", "a.bill"], ["show", "b.mail"], ["history", "a.bill"]):
        assert "\x1b" not in "".join(typed("jobs", *words))


# ── Show ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def facts_of(key: str) -> dict[str, str]:
    lines = typed("jobs", "show", key)
    assert lines[0] == key
    return {name.strip(): value.strip() for name, _, value in (line.partition("  ") for line in lines[1:])}


def test_a_job_is_shown_with_its_policies_and_latest_runs(jobs: list[Job], now: datetime) -> None:
    rows = [planned(jobs[0], now - seconds(60 * number)) for number in range(7)]
    lines = typed("jobs", "show", "b.mail")
    heads = next(number for number, line in enumerate(lines) if line.startswith("FIRE TIME"))
    assert [str(row.pk) in line for row, line in zip(rows, lines[heads + 1 :], strict=False)] == [True] * 5
    facts = facts_of("b.mail")
    assert (facts["tags"], facts["queue"], facts["overlap"]) == ("x, y", "mail, priority 5", "allow")
    assert facts["schedule"] == "Every minute"


def test_only_what_is_said_is_shown(now: datetime) -> None:
    a_job(now=now, key="plain", max_attempts=1)
    facts = facts_of("plain")
    assert facts["attempts"] == "1"  # nothing of delays that never come
    assert not {"paused", "tags", "owner", "jitter", "misfire", "next fire", "arguments"} & set(facts)
    a_job(now=now, key="full", schedule=every_minute(now), jitter_seconds=90, misfire=Misfire.FIRE_ALL, args=[1])
    facts = facts_of("full")
    assert facts["misfire"] == "fire_all of the latest 100 after 1 min"
    assert (facts["jitter"], facts["arguments"]) == ("up to 1 min 30 s", "1")


def test_a_pause_is_shown_with_why_by_whom_and_until_when(jobs: list[Job], now: datetime) -> None:
    until = now.replace(microsecond=0) + timedelta(hours=2)
    definitions.pause("a.bill", reason="closed", until=until, by="anna")
    assert facts_of("a.bill")["paused"] == f"closed by anna, until {until:%Y-%m-%d %H:%M:%S} UTC"
    definitions.pause("a.bill", reason="")
    assert facts_of("a.bill")["paused"] == "without a reason"


def test_shown_as_json_it_is_what_rest_answers(jobs: list[Job], admin_client: Any) -> None:
    shown = document("jobs", "show", "a.bill")
    assert shown == admin_client.get("/api/v1/jobs/by-key/a.bill").json()


def test_who_is_over_is_shown_by_key_and_by_id(jobs: list[Job], now: datetime) -> None:
    old = definitions.archive("a.bill", reason="gone")
    assert facts_of("a.bill")["state"] == "ARCHIVED"
    new = a_job(now=now, key="a.bill")
    assert document("jobs", "show", "a.bill")["id"] == new.pk
    assert document("jobs", "show", str(old.pk))["id"] == old.pk
    assert document("jobs", "history", str(old.pk))["versions"][0]["change"] == "ARCHIVED"


def test_a_key_of_digits_goes_before_an_id(jobs: list[Job], now: datetime) -> None:
    named = a_job(now=now, key=str(jobs[0].pk))
    assert document("jobs", "show", str(jobs[0].pk))["id"] == named.pk


@pytest.mark.parametrize("verb", ["show", "history", "next"])
@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("a.bil", "There is no job 'a.bil'; did you mean 'a.bill'?"),
        ("999999", "There is no job '999999'; create it first, or look for its key."),
        ("9" * 400, "There is no job '99999999"),
        ("٣", "There is no job '٣'"),
        ("a\x00b", "There is no job "),
        ("", "There is no job ''"),
    ],
)
def test_who_is_not_there_is_one_sentence(jobs: list[Job], verb: str, key: str, says: str) -> None:
    assert says in refusal("jobs", verb, key)


# ── History ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def changed(jobs: list[Job]) -> Job:
    definitions.change("a.bill", version=1, queue="slow", owner="", by="anna", through="rest")
    definitions.pause("a.bill", reason="the bank is closed", by="ops", through="command")
    return definitions.change("a.bill", version=3, schedule=None, by="anna", through="admin")


def test_the_history_tells_who_did_what_the_latest_first(changed: Job) -> None:
    heads, *lines = typed("jobs", "history", "a.bill")
    assert heads.split() == ["VERSION", "WHAT", "WHEN", "WHO", "THROUGH", "NOTE"]
    assert [(cells[0], cells[1], *cells[5:]) for cells in map(str.split, lines)] == [
        ("4", "changed", "anna", "admin"),
        ("3", "paused", "ops", "command", "the", "bank", "is", "closed"),
        ("2", "changed", "anna", "rest"),
        ("1", "created", "python"),
    ]
    told = document("jobs", "history", "a.bill", "--limit", "2")
    assert [version["version"] for version in told["versions"]] == [4, 3]


def test_two_versions_are_compared_field_by_field(changed: Job) -> None:
    title, *lines = typed("jobs", "history", "a.bill", "--diff", "1", "2")
    assert title == "a.bill, version 1 → 2"
    assert lines == ["  owner", "    - Billing", "    + ", "  queue", "    - default", "    + slow"]
    told = document("jobs", "history", "a.bill", "--diff", "4", "3")
    assert (told["since"], told["until"]) == (4, 3)
    (difference,) = told["differences"]
    assert (difference["field"], difference["before"]) == ("schedule", None)
    assert difference["after"]["cron"] == "30 7 * * *"
    assert typed("jobs", "history", "a.bill", "--diff", "2", "3") == ["Versions 2 and 3 of a.bill say the same."]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--diff", "1"], "--diff needs 2 values."),
        (["--diff", "1", "x"], "--diff 'x' is no whole number."),
        (["--diff", "1", "9"], "The job 'a.bill' has no version 9; it is at version 4."),
        (["--diff", "-1", "2"], "The job 'a.bill' has no version -1;"),
        (["--diff", "1", "9" * 30], "The job 'a.bill' has no version 9999"),
        (["--limit", "201"], "--limit must be 1 to 200, not 201."),
    ],
)
def test_a_history_that_cannot_be_is_one_sentence(changed: Job, options: list[str], says: str) -> None:
    assert says in refusal("jobs", "history", "a.bill", *options)


# ── Next ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_next_fires_are_told_in_the_zone_of_the_schedule(jobs: list[Job]) -> None:
    words, heads, first, second = typed("jobs", "next", "a.bill", "--after", "2090-06-01", "--count", "2")
    assert (words, heads.split()) == ("Every day at 07:30, Berlin", ["EUROPE/BERLIN", "UTC", "WHEN"])
    assert first.startswith("Thu 2090-06-01 07:30 CEST  2090-06-01 05:30  in ")
    assert second.startswith("Fri 2090-06-02 07:30 CEST  2090-06-02 05:30  in ")
    fires = document("jobs", "next", "a.bill", "--after", "2090-06-01", "--count", "2")["fires"]
    assert [fire["at"] for fire in fires] == ["2090-06-01T05:30:00Z", "2090-06-02T05:30:00Z"]


def test_a_paused_job_is_told_of_as_if_it_were_not(jobs: list[Job]) -> None:
    definitions.pause("a.bill", reason="closed")
    assert len(document("jobs", "next", "a.bill", "--count", "3")["fires"]) == 3


def test_who_has_no_fire_ends_with_1(jobs: list[Job]) -> None:
    code, lines = ended("jobs", "next", "c.asked")
    assert (code, lines) == (1, ["only when asked", "It has no schedule: it runs only when asked."])
    assert ended("jobs", "next", "c.asked", "--json")[0] == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--count", "0"], "--count must be 1 to 100, not 0."),
        (["--count", "many"], "--count 'many' is no whole number."),
        (["--after", "whenever"], "--after 'whenever' is no moment"),
    ],
)
def test_next_fires_that_cannot_be_told_are_one_sentence(jobs: list[Job], options: list[str], says: str) -> None:
    assert says in refusal("jobs", "next", "a.bill", *options)
