"""`queues`, `workers`, `beats` and `stats`: the figures of REST, and a sentence if there are none."""

import json
import re
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from celery import current_app
from django.core.management import CommandError, call_command

from beat.models import Beat
from executions import lifecycle, statistics
from executions.clock import database_now
from tests.calling import a_caller
from tests.integration.conftest import Queues
from tests.making import a_job, claimed, planned, seconds
from tests.tiers import once_full
from workers.models import Worker

pytestmark = [pytest.mark.django_db, once_full]


@pytest.fixture
def now() -> datetime:
    return database_now()


def run(*arguments: str) -> list[str]:
    output = StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue().splitlines()


def document(*arguments: str) -> Any:
    (line,) = run(*arguments, "--json")
    return json.loads(line)


def a_worker(name: str, *, heartbeat_at: datetime, queues: list[str]) -> None:
    facts = {"host": "h", "pid": 1, "concurrency": 2, "tasks": ["onbeat.echo"], "started_at": heartbeat_at}
    Worker.objects.create(name=name, queues=queues, heartbeat_at=heartbeat_at, running=["x"], **facts)


# ── Queues ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_queues_tell_what_waits_and_who_takes_it(broker: Queues, settings: Any, now: datetime) -> None:
    job = a_job(now=now)
    planned(job, now - seconds(90))
    claimed(planned(job, now - seconds(5)), now=now)
    planned(a_job(now=now, queue="later"), now - seconds(3))
    prefix = settings.ONBEAT_EXECUTIONS_PREFIX
    a_worker("worker@here", heartbeat_at=now, queues=[f"{prefix}default"])
    heads, default, later, missing = run("queues")
    assert heads.split() == ["QUEUE", "DUE", "QUEUED", "RUNNING", "ON", "BROKER", "OLDEST", "WORKERS"]
    assert default.split()[:5] == ["default", "1", "0", "1", "0"]
    assert default.split()[-1] == "worker@here"
    assert (later.split()[:2], later.split()[-1]) == (["later", "1"], "nobody")
    assert missing == f"No worker takes from later; start one with `./onbeat worker --queues {prefix}later`."


def test_queues_as_json_are_what_rest_answers(broker: Queues, now: datetime) -> None:
    a_job(now=now, queue="mail")
    assert document("queues") == a_caller().get("/queues").body


def test_a_broker_that_does_not_answer_is_told(broker: Queues, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    a_job(now=now)
    monkeypatch.setitem(current_app.conf, "broker_read_url", "amqp://127.0.0.1:1//")
    lines = run("queues")
    assert lines[1].split()[4] == "?"
    assert lines[2].startswith("The broker does not answer: nobody knows how many messages it has.")


def test_where_there_is_no_queue_that_is_told(broker: Queues) -> None:
    assert run("queues") == ["There is no queue yet: no job names one, and no worker consumes one."]
    assert document("queues") == {"queues": []}


# ── Workers and beats ────────────────────────────────────────────────────────────────────────────────────────────


def test_workers_tell_how_each_is(now: datetime, settings: Any) -> None:
    a_worker("a", heartbeat_at=now, queues=[f"{settings.ONBEAT_EXECUTIONS_PREFIX}mail", "foreign"])
    a_worker("b", heartbeat_at=now - timedelta(hours=1), queues=[])
    heads, alive, silent = run("workers")
    assert heads.split() == ["WORKER", "STATE", "HEARTBEAT", "RUNNING", "QUEUES", "VERSION", "UP"]
    assert alive.split()[:2] == ["a", "alive"]
    assert "1 of 2   mail, foreign" in alive
    assert silent.startswith("b       silent  1 h ago")
    assert document("workers")["workers"][0]["is_alive"] is True


def test_where_no_worker_is_alive_that_is_told_with_how_to_start_one(now: datetime) -> None:
    sentence = "No worker is alive: nothing runs. Start one with `./onbeat worker`."
    assert run("workers") == [sentence]
    a_worker("b", heartbeat_at=now - timedelta(hours=1), queues=[])
    assert run("workers")[-1] == sentence


def test_beats_tell_how_each_is(now: datetime) -> None:
    facts = {"host": "h", "pid": 1, "started_at": now, "seen_at": now}
    Beat.objects.create(name="x", ticked_at=now, lateness_seconds=0.04, clock_offset_seconds=-0.5, shards=64, **facts)
    Beat.objects.create(name="y", ticked_at=now - timedelta(hours=1), refusal="its clock is wrong", **facts)
    Beat.objects.create(name="z", ticked_at=None, **{**facts, "seen_at": None})
    heads, ticking, refusing, silent = run("beats")
    assert heads.split() == ["BEAT", "STATE", "TICKED", "LATE", "BY", "CLOCK", "SHARDS", "UP", "TROUBLE"]
    assert "40 ms    -500 ms  64" in ticking
    assert ticking.split()[1] == "ticking"
    assert refusing.split()[1] == "refusing"
    assert refusing.endswith("its clock is wrong")
    assert silent.split()[1:3] == ["silent", "never"]
    assert document("beats") == a_caller().get("/beats").body


def test_where_no_beat_ticks_that_is_told_with_how_to_start_one() -> None:
    assert run("beats") == ["No beat ticks: nothing fires, and what is due waits. Start one with `./onbeat run_beat`."]
    assert document("beats") == {"beats": []}


# ── Statistics ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def counted(now: datetime) -> datetime:
    """An hour with three that succeeded and one that died; the hour."""
    hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    job = a_job(now=hour, key="billing", max_attempts=1)
    for number in range(4):
        row = planned(job, hour + seconds(number * 60))
        claim = claimed(row, now=row.fire_time + seconds(2))
        if number:
            lifecycle.succeed(claim, result=None, now=claim.started_at + seconds(10))
        else:
            lifecycle.fail(claim, error="no", now=claim.started_at + seconds(10))
    statistics.roll_up(now)
    return hour


def test_stats_tell_the_hours_and_their_sum(counted: datetime) -> None:
    heads, hour, total = run("stats")
    assert heads.split()[:6] == ["HOUR,", "UTC", "FIRES", "SUCCEEDED", "DEAD", "SKIPPED"]
    assert re.match(rf"{counted:%m-%d %H:%M} +4 +3 +1 +0 +0 ", hour)
    late, _, latest, _, ran, _ = hour.split()[-6:]
    assert (float(late), float(latest), float(ran)) == pytest.approx((2, 2, 10), rel=0.11)
    assert total.split() == ["sum", "4", "3", "1", "0", "0"]


def test_stats_are_of_a_job_a_queue_and_a_time(counted: datetime) -> None:
    whole = document("stats")
    assert whole == a_caller().get("/statistics").body
    assert document("stats", "--job", "billing", "--queue", "default", "--hours", "2") == whole
    assert document("stats", "--since", counted.isoformat()) == whole
    assert document("stats", "--hours", "1") == document("stats", "--queue", "other") == {"hours": []}
    assert run("stats", "--queue", "other")[0].startswith("Nothing was counted since 20")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--job", "biling"], "did you mean 'billing'?"),
        (["--hours", "0"], "--hours must be 1 to 2208, not 0."),
        (["--since", "soon"], "--since 'soon' is no moment"),
        (["--since", "100d"], "Ask for up to 92 days at once."),
        (["--since", "2d", "--hours", "3"], "exclude each other; say one of them."),
    ],
)
def test_what_cannot_be_asked_for_is_refused_in_a_sentence(counted: datetime, options: list[str], says: str) -> None:
    with pytest.raises(CommandError) as error:
        run("stats", *options)
    assert says in str(error.value)
