"""The doctor looks at beats and workers."""

from datetime import datetime, timedelta

import pytest

from beat.models import Beat
from executions import lifecycle
from executions.clock import database_now
from tests.doctoring import a_beat, a_worker, doctor
from tests.making import a_job, claimed, planned

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def now() -> datetime:
    return database_now()


# ── Beats ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_beat_nothing_fires() -> None:
    told = doctor("beats")
    assert (told.ids, told.says("beats")) == (["beats.E01"], "none ticks")


def test_a_beat_that_stopped_ticking_is_silent_and_then_nothing_fires(now: datetime) -> None:
    a_beat(now, ticked_at=now - MINUTE, seen_at=now - MINUTE)
    told = doctor("beats")
    assert told.ids == ["beats.E01", "beats.W02"]
    assert "the last tick was at " in told.only("beats.E01")["says"]
    assert told.only("beats.W02")["facts"] == {"beats": ["beat-1"]}


def test_while_another_ticks_a_silent_one_is_a_warning(now: datetime) -> None:
    a_beat(now)
    a_beat(now, name="beat-2", ticked_at=now - MINUTE, seen_at=now - MINUTE)
    assert doctor("beats").ids == ["beats.W02"]


def test_one_that_refuses_by_its_clock_is_told(now: datetime) -> None:
    a_beat(now)
    a_beat(now, name="beat-2", ticked_at=None, refusal="this machine's clock is 45 s behind the database's")
    told = doctor("beats")
    assert told.ids == ["beats.W01"]
    assert told.findings[0]["says"] == ("beat-2 does not fire: this machine's clock is 45 s behind the database's.")


@pytest.mark.parametrize(("column", "what"), [("is_broker_away", "the broker"), ("is_redis_away", "Redis")])
def test_one_that_is_cut_off_is_told(column: str, what: str, now: datetime) -> None:
    a_beat(now, **{column: True})
    assert doctor("beats").only("beats.W03")["says"] == f"1 beat cannot reach {what}: beat-1."


def test_one_of_another_release_is_told(now: datetime) -> None:
    a_beat(now, version="0.0.9")
    assert doctor("beats").only("beats.W04")["says"].startswith("1 beat of release 0.0.9, and this is ")


def test_shards_that_nobody_looks_after_are_told(now: datetime) -> None:
    a_beat(now, shards=30)
    a_beat(now, name="beat-2", shards=34)
    assert doctor("beats").ids == []
    Beat.objects.filter(name="beat-2").delete()
    assert doctor("beats").only("beats.W05")["facts"] == {"owned": 30}


# ── Workers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_worker_nothing_runs() -> None:
    told = doctor("workers")
    assert told.ids == ["workers.E01"]
    assert told.findings[0]["says"] == "No worker is alive; none is registered."


def test_a_worker_that_went_silent_is_told(now: datetime) -> None:
    a_worker(now)
    a_worker(now, name="gone@here", heartbeat_at=now - MINUTE)
    assert doctor("workers").only("workers.W01")["facts"] == {"workers": ["gone@here"]}


def test_a_lost_worker_with_attempts_that_count_as_running_is_an_error(now: datetime) -> None:
    a_worker(now)
    a_worker(now, name="gone@here", heartbeat_at=now - MINUTE)
    job = a_job(now=now)
    for number in range(2):
        claimed(planned(job, now - number * MINUTE), now=now, worker="gone@here")
    ended = claimed(planned(job, now - 2 * MINUTE), now=now, worker="gone@here")
    lifecycle.succeed(ended, result=None, now=now)
    told = doctor("workers")
    assert told.ids == ["workers.E02"]
    assert told.findings[0]["says"] == "2 attempts of workers that are lost: gone@here."
    assert told.findings[0]["facts"] == {"attempts": {"gone@here": 2}}


def test_a_worker_of_another_release_is_told(now: datetime) -> None:
    a_worker(now, version="0.0.9")
    assert doctor("workers").ids == ["workers.W02"]


def test_a_pool_that_nobody_tried_is_told(now: datetime) -> None:
    a_worker(now, pool="gevent")
    assert doctor("workers").only("workers.W03")["says"] == "With the pool gevent: worker@here."
