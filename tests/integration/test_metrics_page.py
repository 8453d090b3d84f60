"""`/metrics` of the web process: who may read it, what it shows, and what it costs."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from beat.models import Beat
from executions import figures, lifecycle, scraping
from executions.models import Execution, Snapshot
from executions.states import Trigger
from jobs import definitions
from jobs import figures as job_figures
from jobs.recurrence import Cron
from tests.making import a_job, seconds
from workers.models import Worker

TOKEN = "a-token-that-is-long"


@pytest.fixture(autouse=True)
def _looks_by_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a test are seen by its own connection alone, and nothing is fresh."""
    monkeypatch.setattr(figures._here, "figures", figures._look)
    monkeypatch.setattr("executions.figures.connection.close", lambda: None)


def shown(client: Client) -> dict[tuple[str, str], float]:
    page = client.get("/metrics")
    assert page.status_code == 200
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page.content.decode())
        for sample in family.samples
    }


# ── Who may read ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_without_a_token_this_machine_reads(client: Client, address: str) -> None:
    page = client.get("/metrics", REMOTE_ADDR=address)
    assert (page.status_code, page["Content-Type"]) == (200, scraping.CONTENT_TYPE)


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "0.0.0.0", "::", "", "unix", "2130706433"]
)
def test_without_a_token_nobody_else_reads(client: Client, address: str) -> None:
    page = client.get("/metrics", REMOTE_ADDR=address)
    assert page.status_code == 403
    assert b"ONBEAT_EXECUTIONS_METRICS_TOKEN" in page.content
    assert b"onbeat_" not in page.content


@pytest.mark.parametrize(
    "header",
    [
        *("X-Forwarded-For", "x-forwarded-for", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host"),
        *("X-Forwarded-Proto", "X-Client-IP"),
    ],
)
@pytest.mark.parametrize("value", ["127.0.0.1", "", "for=127.0.0.1"])
def test_without_a_token_a_proxy_on_this_machine_does_not_read_for_others(
    client: Client, header: str, value: str
) -> None:
    assert client.get("/metrics", headers={header: value}).status_code == 403


@pytest.mark.django_db
def test_with_a_token_whoever_has_it_reads_from_anywhere(client: Client, settings: Settings) -> None:
    settings.ONBEAT_EXECUTIONS_METRICS_TOKEN = TOKEN
    proxied = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "10.0.0.1"}
    assert client.get("/metrics", headers=proxied, REMOTE_ADDR="10.0.0.2").status_code == 200


@pytest.mark.parametrize("sent", ["", f"Bearer {TOKEN}x", TOKEN, "Bearer é", "Bearer \udcff", "Bearer "])
def test_with_a_token_nobody_reads_without_it_not_even_from_here(client: Client, settings: Settings, sent: str) -> None:
    settings.ONBEAT_EXECUTIONS_METRICS_TOKEN = TOKEN
    page = client.get("/metrics", headers={"Authorization": sent})
    assert page.status_code == 403
    assert TOKEN.encode() not in page.content


@pytest.mark.django_db
def test_it_is_looked_at_and_nothing_else(client: Client) -> None:
    assert client.head("/metrics").status_code == 200
    assert client.post("/metrics").status_code == 405


# ── What it shows ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.django_db
def test_of_an_empty_platform_it_shows_what_is_known(client: Client) -> None:
    seen = shown(client)
    assert seen["onbeat_database_up", ""] == 1
    assert seen["onbeat_beats", "ticking"] == seen["onbeat_workers", "alive"] == 0
    assert not [name for name, _ in seen if name.startswith(("onbeat_queue", "onbeat_sample", "onbeat_schedules"))]


@pytest.mark.django_db
def test_beats_and_workers_are_shown_as_they_are(client: Client) -> None:
    now = timezone.now()
    born: dict[str, Any] = {"host": "h", "pid": 1, "started_at": now, "seen_at": now}
    Beat.objects.create(name="ticks", ticked_at=now, clock_offset_seconds=-0.5, is_redis_away=True, **born)
    Beat.objects.create(name="has not ticked", **born)
    Beat.objects.create(name="silent", ticked_at=now - timedelta(hours=1), clock_offset_seconds=99, **born)
    Beat.objects.create(name="refuses", refusal="its clock", clock_offset_seconds=40, is_broker_away=True, **born)
    Worker.objects.create(name="alive", host="h", pid=1, started_at=now, heartbeat_at=now)
    Worker.objects.create(name="silent", host="h", pid=1, started_at=now, heartbeat_at=now - timedelta(minutes=50))
    Worker.objects.create(name="gone", host="h", pid=1, started_at=now, heartbeat_at=now - timedelta(hours=2))
    seen = shown(client)
    assert [seen["onbeat_beats", state] for state in ("ticking", "refusing", "silent")] == [1, 1, 2]
    assert (seen["onbeat_beats_without_redis", ""], seen["onbeat_beats_without_broker", ""]) == (1, 0)
    assert seen["onbeat_beats_clock_offset_seconds", ""] == 40
    assert 0 <= seen["onbeat_beats_tick_age_seconds", ""] < 60
    assert [seen["onbeat_workers", state] for state in ("alive", "silent")] == [1, 1]
    assert 3000 <= seen["onbeat_workers_heartbeat_age_seconds", ""] < 3100


@pytest.mark.django_db
def test_of_many_queues_fifty_are_shown_and_the_others_together(client: Client) -> None:
    now = timezone.now()
    job = a_job(now=now)
    for n in range(job_figures.MOST_QUEUES + 3):
        lifecycle.plan([_in_queue(job, f"q{n:02}", now - seconds(100 + n), i) for i in range(2 if n else 3)])
    job_figures.take(now)
    seen = shown(client)
    waiting = {queue: value for (name, queue), value in seen.items() if name == "onbeat_queue_waiting"}
    assert len(waiting) == job_figures.MOST_QUEUES + 1
    assert (waiting["q00"], waiting["q01"], waiting[job_figures.OTHERS]) == (3, 2, 6)
    assert sum(waiting.values()) == Execution.objects.count()
    assert seen["onbeat_queue_oldest_seconds", "q00"] == pytest.approx(100, abs=1)
    assert seen["onbeat_queue_oldest_seconds", job_figures.OTHERS] == pytest.approx(152, abs=1)


def _in_queue(job: Any, queue: str, at: datetime, number: int) -> Execution:
    row = job.new_execution(at + timedelta(microseconds=number), trigger=Trigger.DELAYED, now=at)
    row.queue = queue
    return row


@pytest.mark.django_db
def test_schedules_and_dead_letters_are_shown_as_a_beat_last_saw_them(client: Client, noon: datetime) -> None:
    now = timezone.now()
    for n in range(3):
        definitions.create(key=f"k{n}", task="onbeat.echo", schedule=Cron("* * * * *"), now=noon)
    job_figures.take(now)
    seen = shown(client)
    assert [seen["onbeat_schedules", state] for state in ("active", "due", "overdue")] == [3, 3, 3]
    assert seen["onbeat_overdue_seconds", ""] > 60
    assert seen["onbeat_dead_letters_waiting", ""] == 0
    assert 0 <= seen["onbeat_sample_age_seconds", ""] < 60
    Snapshot.objects.update(at=now - timedelta(seconds=500))
    assert 500 <= shown(client)["onbeat_sample_age_seconds", ""] < 560


# ── What it costs ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.django_db
def test_it_asks_the_database_as_often_whatever_is_stored(client: Client) -> None:
    now = timezone.now()
    job_figures.take(now)
    with CaptureQueriesContext(connection) as of_few:
        shown(client)
    job = a_job(now=now)
    lifecycle.plan([_in_queue(job, f"q{n % 100}", now, n) for n in range(300)])
    Beat.objects.bulk_create([Beat(name=f"b{n}", host="h", pid=n, started_at=now, seen_at=now) for n in range(20)])
    Worker.objects.bulk_create(
        [Worker(name=f"w{n}", host="h", pid=n, started_at=now, heartbeat_at=now) for n in range(20)]
    )
    job_figures.take(now)
    with CaptureQueriesContext(connection) as of_many:
        shown(client)
    assert len(of_many) == len(of_few) <= 8
    assert not [each["sql"] for each in of_many if '"onbeat_execution"' in each["sql"]]
