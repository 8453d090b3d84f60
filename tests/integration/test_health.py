"""Health is true to the work: a platform whose beat does not tick is not ready."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from beat.models import Beat
from workers.models import Worker

pytestmark = pytest.mark.django_db


def a_beat(ticked_at: datetime) -> None:
    Beat.objects.create(name="b", host="h", pid=1, started_at=ticked_at, ticked_at=ticked_at)


def test_live_answers_without_looking_at_anything(client: Client, django_assert_num_queries: object) -> None:
    with django_assert_num_queries(0):  # type: ignore[operator]
        response = client.get("/health/live")
    assert (response.status_code, response.json()) == (200, {"status": "live"})


def test_without_a_ticking_beat_it_is_not_ready_and_says_what_to_do(client: Client) -> None:
    response = client.get("/health/ready")
    assert response.status_code == 503
    body = response.json()
    assert body["status"] == "not ready"
    assert body["checks"]["database"]["ok"] is True
    assert body["checks"]["beat"] == {
        "ok": False,
        "says": "no beat ticks: none has ticked yet; see its log, or start one with `./onbeat run_beat`",
    }


def test_with_a_ticking_beat_and_no_worker_it_is_degraded(client: Client) -> None:
    a_beat(timezone.now())
    response = client.get("/health/ready")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert response.json()["checks"]["workers"]["ok"] is False


def test_with_beat_and_worker_it_is_ready(client: Client) -> None:
    now = timezone.now()
    a_beat(now)
    Worker.objects.create(name="w", host="h", pid=1, started_at=now, heartbeat_at=now)
    response = client.get("/health/ready")
    assert (response.status_code, response.json()["status"]) == (200, "ready")


@pytest.mark.parametrize(("away", "check"), [("is_broker_away", "broker"), ("is_redis_away", "redis")])
def test_what_a_beat_cannot_reach_is_told(client: Client, away: str, check: str) -> None:
    a_beat(timezone.now())
    assert client.get("/health/ready").json()["checks"][check]["ok"] is True
    Beat.objects.update(**{away: True})
    response = client.get("/health/ready")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert response.json()["checks"][check]["says"].startswith("1 of 1 beats cannot reach ")


def test_a_beat_that_stopped_ticking_does_not_count(client: Client) -> None:
    a_beat(datetime(2026, 1, 1, tzinfo=UTC))
    response = client.get("/health/ready")
    assert response.status_code == 503
    assert "2026-01-01 00:00:00 UTC" in response.json()["checks"]["beat"]["says"]


def test_a_living_worker_is_counted_and_a_silent_one_is_not(client: Client) -> None:
    now = timezone.now()
    a_beat(now)
    for name, heartbeat_at in {"alive": now, "silent": now - timedelta(minutes=5)}.items():
        Worker.objects.create(name=name, host="h", pid=1, started_at=now, heartbeat_at=heartbeat_at)
    assert client.get("/health/ready").json()["checks"]["workers"] == {"ok": True, "says": "1 alive"}


def test_missing_migrations_are_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executions.health._is_migrated", False)
    from django.db.migrations.recorder import MigrationRecorder

    MigrationRecorder.Migration.objects.filter(app="onbeat_beat", name__startswith="0003").delete()
    response = client.get("/health/ready")
    assert response.status_code == 503
    assert response.json()["checks"] == {
        "database": {"ok": False, "says": "1 migrations are missing; run `./onbeat migrate`"}
    }


@pytest.mark.full
def test_a_database_that_is_away_is_told_without_its_address(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    def away() -> datetime:
        raise OperationalError("connection to 10.0.0.1 as secret-user failed")

    monkeypatch.setattr("executions.health.database_now", away)
    monkeypatch.setattr("executions.health.connection.close", lambda: None)
    response = client.get("/health/ready")
    assert response.status_code == 503
    assert response.json()["checks"]["database"]["says"] == "the database does not answer: OperationalError"
