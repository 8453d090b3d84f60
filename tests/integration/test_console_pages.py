"""What the pages of the admin show: jobs, executions, beats, workers, hosts and dead messages."""

import re
from datetime import date, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client
from pytest_django import Settings

from beat.models import Beat
from callbacks import hosts
from executions import lifecycle
from executions.clock import database_now
from executions.models import DeadMessage, Execution
from jobs import definitions, runs
from jobs.http_target import HttpTarget
from jobs.models import Schedule
from jobs.recurrence import Cron, Every
from tests.making import a_job, claimed, planned
from tests.tiers import once_full
from tests.visiting import Page, root, text
from workers.models import Worker

pytestmark = [pytest.mark.django_db, once_full]
JOBS, EXECUTIONS = "/admin/onbeat_jobs/job/", "/admin/onbeat_executions/execution/"
MESSAGES, WORKERS = "/admin/onbeat_executions/deadmessage/", "/admin/onbeat_workers/worker/"


@pytest.fixture
def client() -> Client:
    return root()


@pytest.fixture
def execution(noon: datetime) -> Execution:
    job = a_job(now=noon, key="billing.daily", schedule=Cron("0 3 * * *", "America/Los_Angeles"))
    one = planned(job, noon)
    lifecycle.fail(claimed(one, now=noon), error="boom", now=noon)
    return Execution.objects.get(pk=one.pk)


def at(one: Execution) -> str:
    return f"{EXECUTIONS}{one.pk}/change/"


def shown(client: Client, address: str) -> str:
    return Page(text(client, address)).text


def test_pages_carry_the_products_name(client: Client) -> None:
    assert "Dashboard | Onbeat</title>" in text(client, "/admin/")


# ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_job_list_shows_schedule_next_fire_and_last_outcome(client: Client, execution: Execution) -> None:
    page = shown(client, JOBS)
    for words in ("billing.daily", "Every day at 03:00, Los Angeles", "2026-06-16 10:00:00", "ACTIVE", "onbeat.echo"):
        assert words in page
    assert at(execution) in text(client, JOBS)  # in the strip of its runs


def test_a_fire_that_nobody_planned_in_time_is_marked_as_late(client: Client) -> None:
    now = database_now()
    job = a_job(now=now, schedule=Every(60, now))
    assert "ob-late" not in text(client, JOBS)
    Schedule.objects.filter(job=job).update(next_fire_at=now - timedelta(seconds=11))
    assert "ob-late" in text(client, JOBS)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("", ["call", "daily", "paused"]),
        ("search=DAIL", ["daily"]),
        ("search=example.com", []),
        ("state=PAUSED", ["paused"]),
        ("state=ARCHIVED", ["over"]),
        ("queue=slow", ["daily"]),
        ("tag=b", ["daily"]),
        ("owner=me&tag=a", ["daily"]),
        ("owner=you", []),
        ("order=newest", ["paused", "call", "daily"]),
        ("order=next", ["daily"]),
    ],
)
def test_jobs_are_found_by_state_queue_tag_owner_and_words(
    client: Client, noon: datetime, query: str, keys: list[str]
) -> None:
    a_job(now=noon, key="daily", schedule=Cron("0 3 * * *"), queue="slow", tags=["a", "b"], owner="me")
    definitions.create(key="call", http=HttpTarget("https://example.com/hook"), now=noon)
    definitions.pause(a_job(now=noon, key="paused"), reason="r", now=noon)
    definitions.archive(a_job(now=noon, key="over"), now=noon)
    assert [row.job.key for row in client.get(f"{JOBS}?{query}").context["rows"]] == keys


def test_a_page_that_is_not_there_is_told(client: Client, execution: Execution) -> None:
    for address in (JOBS, EXECUTIONS):
        assert 'role="alert"' in text(client, f"{address}?cursor=nonsense")


def test_a_callback_shows_where_it_goes_without_its_query(client: Client, noon: datetime) -> None:
    job = definitions.create(key="call", http=HttpTarget("https://example.com/hook?token=7b1f-9c"), now=noon)
    for address in (JOBS, f"{JOBS}{job.pk}/change/"):
        page = text(client, address)
        assert "POST https://example.com/hook?…" in page
        assert "7b1f-9c" not in page


def test_a_jobs_page_shows_its_fires_policies_and_history(client: Client, noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("0 3 * * *", "Asia/Tokyo"), kwargs={"customer": 7077}, max_attempts=1)
    definitions.pause(job, reason="the bank is closed", by="ada", now=noon)
    response = client.get(f"{JOBS}{job.pk}/change/")
    page = Page(response.content.decode()).text
    for words in ("the bank is closed", "ada", "Every day at 03:00, Tokyo", "7077", "If it were not paused."):
        assert words in page
    assert "One attempt; a failure is a dead letter at once." in page
    assert len(response.context["fires"]) == 10
    assert {fire.local.hour for fire in response.context["fires"]} == {3}


def test_the_versions_of_a_job_are_compared(client: Client, noon: datetime) -> None:
    job = a_job(now=noon, key="daily", owner="me")
    job = definitions.change(job, version=1, owner="you", priority=7, now=noon)
    definitions.change(job, version=2, kwargs={"n": 1}, now=noon)
    differing = {
        query: {each.field for each in client.get(f"{JOBS}{job.pk}/versions/{query}").context["differences"]}
        for query in ("", "?since=1&until=2", "?since=3&until=3")
    }
    assert differing == {"": {"kwargs"}, "?since=1&until=2": {"owner", "priority"}, "?since=3&until=3": set()}
    for query in ("?since=1&until=9", "?since=x", "?since=" + "9" * 30):
        text(client, f"{JOBS}{job.pk}/versions/{query}")
    assert "has no version 9" in text(client, f"{JOBS}{job.pk}/versions/?since=1&until=9")


def test_a_schedule_that_cannot_be_read_breaks_no_page(client: Client, noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("0 3 * * *"))
    Schedule.objects.filter(job=job).update(timezone="Nowhere/Land")
    for address in (JOBS, f"{JOBS}{job.pk}/change/"):
        assert "cannot be read" in text(client, address)
    text(client, f"{JOBS}{job.pk}/edit/")
    text(client, "/admin/")


# ── Executions ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_execution_shows_its_attempts(client: Client, execution: Execution) -> None:
    page = shown(client, at(execution))
    assert "attempt 1: FAILED" in page
    assert "Attempt 1 began on worker@here" in page


def test_the_reason_of_an_execution_names_its_moment_for_the_viewers_zone(client: Client, noon: datetime) -> None:
    row = planned(a_job(now=noon, schedule=Cron("0 3 * * *", "Asia/Tokyo")), database_now() + timedelta(hours=1))
    page = text(client, at(row))
    assert "Not yet: it comes at <time " in page
    assert "Asia/Tokyo (the job&#x27;s)" in page
    assert "None yet." in page


def test_what_was_given_up_has_no_result_to_wait_for(client: Client, noon: datetime) -> None:
    one = planned(a_job(now=noon, max_attempts=1), noon)
    lifecycle.fail(claimed(one, now=noon), error="boom", now=noon)
    page = text(client, at(one))
    assert "It was given up after attempt 1" in page
    assert "None yet." not in page


def test_an_execution_shows_what_its_error_is_like_and_how_far_it_was(client: Client, execution: Execution) -> None:
    Execution.objects.update(checkpoint={"page": 7077}, progress={"note": "nearly there", "done": 3, "total": 4})
    page = text(client, at(execution))
    assert all(said in page for said in (execution.fingerprint, "7077", "nearly there", "3 of 4", "width:75.00%"))


@pytest.mark.parametrize(
    "progress",
    [
        *({"done": 10**400, "total": 3}, {"done": 1, "total": 10**400}, {"done": "a", "total": []}),
        *({"done": -5, "total": 0}, {}, {"done": True}, {"done": 1e308, "total": 1e-308}, "half", 0.5, [1]),
    ],
)
def test_a_progress_of_any_shape_breaks_no_page(client: Client, execution: Execution, progress: object) -> None:
    Execution.objects.update(progress=progress)
    text(client, at(execution))


def test_flower_is_linked_where_it_is(client: Client, execution: Execution, settings: Settings) -> None:
    assert "Flower" not in text(client, at(execution))
    settings.ONBEAT_CONSOLE_FLOWER_URL = "https://flower.example"
    now = database_now()
    name = "celery@a b/c?d#e"
    Worker.objects.create(name=name, host="h", pid=1, started_at=now, heartbeat_at=now)
    Execution.objects.update(worker=name)
    page = Page(text(client, at(execution)))
    assert f"https://flower.example/task/{execution.pk}" in page.links
    linked = "https://flower.example/worker/celery%40a%20b%2Fc%3Fd%23e"
    assert linked in page.links
    (worker,) = [link for link in Page(text(client, WORKERS)).links if link.startswith(f"{WORKERS}celery")]
    assert linked in Page(text(client, worker)).links


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 4),
        ("state=DEAD", 1),
        ("state=open&when=any", 4),
        ("job=daily", 3),
        ("job=weekly&when=any", 2),
        ("job=weekly", 1),
        ("queue=slow", 1),
        ("worker=worker@here", 2),
        ("trigger=MANUAL&when=any", 1),
        ("trigger=DELAYED&when=coming", 1),
        ("error=BOOM", 1),
        ("when=hour", 3),
        ("when=day", 4),
        ("state=RUNNING&job=daily&queue=default", 1),
        ("state=CANCELLED", 0),
    ],
)
def test_executions_are_found_by_what_people_know_of_them(client: Client, query: str, count: int) -> None:
    now = database_now()
    daily = a_job(now=now, key="daily", max_attempts=1)
    weekly = a_job(now=now, key="weekly", queue="slow")
    dead, running = planned(daily, now - timedelta(minutes=5)), planned(daily, now - timedelta(minutes=4))
    lifecycle.fail(claimed(dead, now=now), error="the boom of it", now=now)
    claimed(running, now=now)
    planned(daily, now - timedelta(hours=3))
    runs.run(weekly, now=now)
    runs.run(weekly, delay=timedelta(hours=1), now=now)
    assert len(client.get(f"{EXECUTIONS}?{query}").context["executions"]) == count


def test_a_time_is_of_the_viewers_zone_or_of_utc(client: Client, execution: Execution) -> None:
    """The fire is at noon, UTC."""
    found = {
        said: len(client.get(f"{EXECUTIONS}?{urlencode(said)}").context["executions"])
        for said in (
            (("since", "2026-06-15T12:00"),),
            (("since", "2026-06-15T12:01"), ("viewer_zone", "UTC")),
            (("since", "2026-06-15T21:00"), ("viewer_zone", "Asia/Tokyo")),
            (("until", "2026-06-15T21:00"), ("viewer_zone", "Asia/Tokyo")),
        )
    }
    assert list(found.values()) == [1, 0, 1, 0]


@pytest.mark.parametrize(("query", "told"), [("job=nothing", "There is no job"), ("since=soon", "no date and time")])
def test_what_cannot_be_sought_is_told(client: Client, execution: Execution, query: str, told: str) -> None:
    assert told in shown(client, f"{EXECUTIONS}?{query}")


def test_the_executions_of_a_job_are_not_those_of_one_whose_key_is_its_number(client: Client, noon: datetime) -> None:
    job = a_job(now=noon, key="daily")
    one = planned(job, noon)
    lifecycle.fail(claimed(one, now=noon), error="boom", kinds=(), now=noon)
    a_job(now=noon, key=str(job.pk))
    page = Page(text(client, f"{JOBS}{job.pk}/change/"))
    (link,) = [link for link in page.links if link.startswith(f"{EXECUTIONS}?job=")]
    assert [row.execution.pk for row in client.get(link).context["executions"]] == [one.pk]
    assert client.get(f"{EXECUTIONS}?job={job.pk}").context["executions"] == []
    assert "There is no job" in shown(client, f"{EXECUTIONS}?job=%23nonsense")


# ── Machinery ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_host_that_rests_is_seen_with_the_reason(client: Client) -> None:
    now = database_now()
    for _ in range(5):
        hosts.went_wrong("https://down.example", "it answered 500", began=now, now=now)
    page = shown(client, "/admin/onbeat_callbacks/host/")
    assert all(words in page for words in ("https://down.example", "resting", "it answered 500"))


def test_the_page_of_beats_says_what_each_looks_after_and_what_is_amiss(client: Client) -> None:
    now = database_now()
    facts = {"host": "h", "pid": 1, "started_at": now, "ticked_at": now, "seen_at": now}
    Beat.objects.create(name="well", shards=40, lateness_seconds=0.0123, **facts)
    Beat.objects.create(name="ill", shards=24, lateness_seconds=75, refusal="clock off", is_broker_away=True, **facts)
    Beat.objects.create(name="gone", **{**facts, "ticked_at": now - timedelta(hours=1)})
    page = shown(client, "/admin/onbeat_beat/beat/")
    for words in ("40 of 64", "12 ms", "75.0 s", "clock off; cannot reach the broker", "ticking", "refusing", "silent"):
        assert words in page


def test_a_worker_shows_what_it_runs_and_from_where(client: Client, execution: Execution) -> None:
    now = database_now()
    facts = {"host": "h", "pid": 1, "started_at": now, "queues": ["slow"], "tasks": ["onbeat.echo"]}
    Worker.objects.create(name="w@h", running=[str(execution.pk)], heartbeat_at=now, **facts)
    Worker.objects.create(name="gone@h", heartbeat_at=now - timedelta(hours=1), **facts)
    page = Page(text(client, WORKERS))
    assert at(execution) in page.links
    assert all(words in page.text for words in ("alive", "silent", "nothing", "slow"))


def test_the_queues_say_what_waits_and_who_takes_it(client: Client) -> None:
    now = database_now()
    planned(a_job(now=now, key="j", queue="slow"), now - timedelta(minutes=5))
    page = shown(client, "/admin/queues/")
    assert "slow" in page
    assert "no worker" in page
    assert "5 min" in page


def test_a_dead_message_shows_how_large_its_body_is_and_not_what_it_holds(client: Client, noon: datetime) -> None:
    message = DeadMessage.objects.create(
        digest="d", queue="q", task="their.task", headers={"a": "b"}, body=b"hush-hush" * 111,
        error="No worker could take its message.", fingerprint="f", collected_at=noon,
    )  # fmt: skip
    assert "their.task" in text(client, MESSAGES)
    page = text(client, f"{MESSAGES}{message.pk}/change/")
    assert "999" in page
    assert "hush-hush" not in page


# ── Small things ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fire_has_the_weekday_of_its_own_zone(client: Client) -> None:
    job = a_job(now=database_now(), schedule=Cron("0 0 * * mon", "Europe/Berlin"))
    mondays = re.findall(r">Mon ([0-9-]+) 00:00:00", text(client, f"{JOBS}{job.pk}/change/"))
    assert {date.fromisoformat(day).strftime("%a") for day in mondays} == {"Mon"}  # it is still Sunday in UTC


def test_a_retry_that_waits_is_not_late(client: Client, execution: Execution) -> None:
    page = text(client, f"{EXECUTIONS}?when=any")
    assert re.search(r'data-label="Late"[^>]*><span class="ob-subtle">–', page)


def test_a_beat_is_told_in_the_words_of_the_list_and_under_its_own_name(client: Client, noon: datetime) -> None:
    Beat.objects.create(name="beat@here", host="here", pid=7, started_at=noon, clock_offset_seconds=-0.25)
    page = text(client, "/admin/onbeat_beat/beat/beat@here/change/")
    assert "250 ms behind the database" in page
    assert "Is broker away" not in page
    assert re.search(r"<h1.*>Beats</a>.*>beat@here<.*</h1>", page, re.DOTALL)


def test_an_address_of_nothing_says_so_and_leads_back() -> None:
    page = text(Client(), "/nothing/here/", status=404)
    assert "There is nothing here" in page
    assert 'href="/admin/"' in page


def test_a_filter_that_cannot_be_read_is_told_and_shows_nothing_else(client: Client, execution: Execution) -> None:
    page = text(client, f"{JOBS}?state=NONSENSE")
    assert "The filters cannot be read" in page
    assert "billing.daily" not in page
