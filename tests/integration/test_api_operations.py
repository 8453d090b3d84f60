"""Operations through the REST API: queues, workers, beats, statistics."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from beat.models import Beat
from executions import lifecycle, statistics
from executions.clock import database_now
from executions.dispatch import Publisher
from tests.calling import Caller, a_caller
from tests.integration.conftest import Queues
from tests.making import a_job, a_ticker, claimed, planned, seconds
from tests.tiers import once_embedded
from workers.models import Worker

pytestmark = [pytest.mark.django_db, once_embedded]


@pytest.fixture
def api() -> Caller:
    return a_caller()


def a_worker(name: str, *, heartbeat_at: datetime, queues: list[str]) -> None:
    facts = {"host": "h", "pid": 1, "concurrency": 2, "tasks": ["onbeat.echo"], "started_at": heartbeat_at}
    Worker.objects.create(name=name, queues=queues, heartbeat_at=heartbeat_at, **facts)


def test_a_queue_tells_how_much_waits_since_when_and_who_takes_it(
    api: Caller, broker: Queues, publisher: Publisher, settings: Any
) -> None:
    now = database_now()
    job = a_job(now=now)
    rows = [planned(job, now - seconds(n)) for n in (30, 20, 10)]
    assert a_ticker(publisher).tick(now).published == 3
    claimed(rows[2], now=now)
    planned(job, now - seconds(90))  # due, and not published
    planned(a_job(now=now, queue="later"), now - seconds(5))
    prefix = settings.ONBEAT_EXECUTIONS_PREFIX
    a_worker("alive", heartbeat_at=now, queues=[f"{prefix}default", "celery"])
    a_worker("gone", heartbeat_at=now - timedelta(hours=1), queues=[f"{prefix}default", f"{prefix}old"])
    queues = {queue["name"]: queue for queue in api.get("/queues").body["queues"]}
    assert queues.keys() == {"default", "later"}
    of_default = queues["default"]
    assert of_default.pop("oldest_age_seconds") == pytest.approx(90, abs=10)
    assert of_default == {
        "name": "default",
        "broker_name": f"{prefix}default",
        "depth": 3,
        "due": 1,
        "queued": 2,
        "running": 1,
        "workers": ["alive"],
    }
    assert (queues["later"]["due"], queues["later"]["depth"], queues["later"]["workers"]) == (1, 0, [])


def test_a_broker_that_is_away_tells_no_depth(api: Caller, broker: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    from celery import current_app

    a_job(now=database_now())
    monkeypatch.setitem(current_app.conf, "broker_read_url", "amqp://127.0.0.1:1//")
    assert [queue["depth"] for queue in api.get("/queues").body["queues"]] == [None]


def test_workers_and_beats_tell_whether_they_are_alive(api: Caller) -> None:
    now = database_now()
    a_worker("a", heartbeat_at=now, queues=["q"])
    a_worker("b", heartbeat_at=now - timedelta(hours=1), queues=[])
    workers = api.get("/workers").body["workers"]
    assert [(worker["name"], worker["is_alive"], worker["queues"]) for worker in workers] == [
        ("a", True, ["q"]),
        ("b", False, []),
    ]
    for name, ticked_at in (("x", now), ("y", now - timedelta(hours=1))):
        Beat.objects.create(name=name, host="h", pid=1, started_at=now, ticked_at=ticked_at, is_redis_away=name == "y")
    beats = api.get("/beats").body["beats"]
    assert [(beat["name"], beat["is_ticking"], beat["trouble"]) for beat in beats] == [
        ("x", True, ""),
        ("y", False, "cannot reach Redis"),
    ]


def test_statistics_tell_fires_outcomes_lateness_and_duration_by_the_hour(api: Caller) -> None:
    now = database_now()
    hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    job = a_job(now=hour, key="a", max_attempts=1)
    for number in range(4):
        row = planned(job, hour + seconds(number * 60))
        claim = claimed(row, now=row.fire_time + seconds(2))
        end = claim.started_at + seconds(10)
        if number:
            lifecycle.succeed(claim, result=None, now=end)
        else:
            lifecycle.fail(claim, error="no", now=end)
    statistics.roll_up(now)
    hours = api.get("/statistics").body["hours"]
    assert [(each["hour"], each["fires"], each["counts"]) for each in hours] == [
        (hour.isoformat().replace("+00:00", "Z"), 4, {"SUCCEEDED": 3, "DEAD": 1})
    ]
    assert hours[0]["lateness"]["p50"] == pytest.approx(2, rel=0.1)
    assert hours[0]["duration"]["p99"] == pytest.approx(10, rel=0.1)
    assert api.get("/statistics?job=a&queue=default").body["hours"] == hours
    assert api.get("/statistics?queue=other").body["hours"] == []
    until = hour.isoformat().replace("+00:00", "Z")
    assert api.get(f"/statistics?until={until}").body["hours"] == []
    assert api.get("/statistics?job=nobody").status == 404
