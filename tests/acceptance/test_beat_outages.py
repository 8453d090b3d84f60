"""What real beats do while Redis, RabbitMQ or PostgreSQL misbehave: nothing is lost or doubled, and all of it is told.

The two beats live through all of these tests, one outage after the other, as they would in earnest.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import redis
from django.conf import settings

from beat.lease import duty_key
from beat.upkeep import lost_messages
from tests.acceptance.two_beats import DATABASE_AWAY, DATABASE_BACK, HANGS, TwoBeats
from tests.waiting import wait_until

pytestmark = pytest.mark.full

REDIS_AWAY = "Redis is away: beats go on without leases, the database decides"
REDIS_BACK = "Redis is back: leases are taken again"
BROKER_AWAY = "the broker is away: executions wait in the database"
BROKER_BACK = "the broker is back: waiting executions are published"
SHARED = "shards are shared anew"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBeats]:
    with TwoBeats(tmp_path_factory.mktemp("two-beats")) as both:
        yield both


@pytest.fixture
def both(started: TwoBeats) -> Iterator[TwoBeats]:
    with started.beginning_calm():
        yield started


def changes(said: list[str]) -> list[str]:
    """What was said but for the shards, which move with every change."""
    return [line for line in said if line != SHARED]


def health(both: TwoBeats) -> dict[str, dict[str, object]]:
    ask = "from django.test import Client; print(Client().get('/health/ready', HTTP_HOST='localhost').content.decode())"
    answer: dict[str, dict[str, object]] = json.loads(both.platform.manage("shell", "-c", ask).splitlines()[-1])
    assert answer["status"] == "degraded"
    return answer["checks"]  # type: ignore[return-value]


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_redis_the_beats_go_on_by_the_database_and_say_so_once(both: TwoBeats) -> None:
    with both.every_second_fires_once():
        for beat in both.beats:
            beat.redis.cut()
        both.each_says(REDIS_AWAY)
        renewed = "SELECT count(*) FROM onbeat_beat WHERE renewed_at > clock_timestamp() - interval '2 seconds'"
        wait_until(lambda: both.count(renewed) == 2, what="both say in the database that they live")
        wait_until(lambda: sum(both.registry("shards")) == 64, what="they share the shards by the registry")
        assert min(both.registry("shards")) > 0
        wait_until(lambda: both.registry("is_redis_away") == [True, True], what="the registry tells it")
        assert health(both)["redis"] == {
            "ok": False,
            "says": "2 of 2 beats cannot reach Redis: beats work without leases until it is back",
        }
        for beat in both.beats:
            beat.mend()
        both.each_says(REDIS_BACK)
        both.calm()
    for beat in both.beats:
        assert changes(beat.said()) == [REDIS_AWAY, REDIS_BACK]


def test_a_redis_that_only_one_beat_sees_makes_no_double(both: TwoBeats) -> None:
    blind, seeing = both.beats
    with both.every_second_fires_once():
        blind.redis.freeze()
        wait_until(lambda: both.registry("shards") == [64, 64], what="neither hears the other, both do everything")
        both.pass_seconds(1)
        blind.mend()
        wait_until(lambda: REDIS_BACK in blind.said(), what="the blind one sees again")
        both.calm()
    assert changes(blind.said()) == [REDIS_AWAY, REDIS_BACK]
    assert changes(seeing.said()) == []


def test_a_slow_redis_is_borne(both: TwoBeats) -> None:
    with both.every_second_fires_once():
        for beat in both.beats:
            beat.redis.slow(0.3)
        both.pass_seconds(3)
        assert both.registry("is_redis_away") == [False, False]
    for beat in both.beats:
        assert changes(beat.said()) == []


def test_a_flushed_redis_costs_nothing(both: TwoBeats) -> None:
    with both.every_second_fires_once():
        for _ in range(2):
            forget_keys(both)
            both.pass_seconds(1)
        both.calm()
    for beat in both.beats:
        assert changes(beat.said()) == []


def forget_keys(both: TwoBeats, like: str = "*") -> None:
    """Of this installation, and of no other on the same Redis."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        for key in client.scan_iter(f"{both.platform.name}.{like}", count=1000):
            client.delete(key)


# ── RabbitMQ ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("outage", ["cut", "freeze"])
def test_without_the_broker_ticks_go_on_and_executions_wait_until_it_is_back(both: TwoBeats, outage: str) -> None:
    with both.every_second_fires_once():
        for beat in both.beats:
            getattr(beat.broker, outage)()
        both.each_says(BROKER_AWAY)
        wait_until(lambda: both.registry("is_broker_away") == [True, True], what="the registry tells it")
        ticked, planned = both.registry("ticked_at"), both.count("SELECT count(*) FROM onbeat_execution")
        wait_until(
            lambda: all(now > then for now, then in zip(both.registry("ticked_at"), ticked, strict=True)),
            what="both tick on",
        )
        wait_until(lambda: both.count("SELECT count(*) FROM onbeat_execution") > planned, what="planning goes on")
        since = both.second()
        both.pass_seconds(2)
        due = f"FROM onbeat_execution WHERE fire_time = to_timestamp({since + 1})"
        assert both.rows(f"SELECT DISTINCT state {due}") == [("SCHEDULED",)]
        sent = len(both.messages())
        for beat in both.beats:
            beat.mend()
        both.each_says(BROKER_BACK)
    for beat in both.beats:
        assert changes(beat.said()) == [BROKER_AWAY, BROKER_BACK]
        if outage == "cut":
            assert_most_urgent_first(both.messages()[sent:], pid=beat.process.pid, until=since + 2)


def assert_most_urgent_first(messages: list[Any], *, pid: int, until: int) -> None:
    """What one beat sent of the fires that had waited."""
    sent = [
        (-message.properties["priority"], message.headers["onbeat_fire_time"])
        for message in messages
        if message.headers["origin"].startswith(f"gen{pid}@")
        and datetime.fromisoformat(message.headers["onbeat_fire_time"]).timestamp() < until
    ]
    assert sent == sorted(sent)


def test_a_beat_that_is_cut_off_from_the_broker_leaves_the_publishing_to_the_other(both: TwoBeats) -> None:
    off, on = both.beats
    with both.every_second_fires_once():
        off.broker.cut()
        wait_until(lambda: BROKER_AWAY in off.said(), what="one beat is cut off")
        wait_until(lambda: both.registry("shards")[1] == 64, what="the other looks after all shards")
        both.pass_seconds(1)
        both.are_published(until=both.second())
        assert both.registry("is_broker_away") == [True, False]
        off.mend()
        wait_until(lambda: BROKER_BACK in off.said(), what="it reaches the broker again")
    assert changes(off.said()) == [BROKER_AWAY, BROKER_BACK]
    assert changes(on.said()) == []


def test_a_queue_with_other_arguments_holds_up_its_own_executions_only_and_they_say_why(both: TwoBeats) -> None:
    both.channel.queue_declare(both.queue("strange"), durable=True, auto_delete=False)
    with both.every_second_fires_once():
        both.fire_now("strange")
        wait_until(lambda: both.state_of("strange")[1], what="its execution says why it waits")
        state, reason = both.state_of("strange")
        assert state == "SCHEDULED"
        remedy = "exists with other arguments; delete it, and it is made anew"
        assert reason.startswith(f"the queue '{both.queue('strange')}' {remedy}")
        both.channel.queue_delete(both.queue("strange"))
        wait_until(lambda: both.state_of("strange") == ("QUEUED", ""), what="it is published to the queue made anew")
    assert both.waiting_in("strange") == 1


def test_a_lost_message_is_published_again_and_one_that_waits_is_not(both: TwoBeats) -> None:
    for key in ("lost", "patient"):
        both.fire_now(key)
    wait_until(lambda: both.state_of("lost") == both.state_of("patient") == ("QUEUED", ""), what="both are published")
    assert both.channel.queue_purge(both.queue("lost")) == 1
    both.pass_seconds(2)  # longer than a message may take
    # A beat that just started does every duty that nobody has a lease for. Only that lease is forgotten: without the
    # others two beats may publish the same execution, which is harmless and not what is counted here.
    forget_keys(both, duty_key(lost_messages.DUTY.name))
    third = both.platform.beat("beat-3")
    wait_until(lambda: len(both.registry("name")) == 3, what="a third beat has signed on")
    try:
        wait_until(lambda: both.waiting_in("lost") == 1, what="the lost one has a message again")
        assert (both.waiting_in("patient"), both.state_of("patient")) == (1, ("QUEUED", ""))
        logs = third.output() + "".join(beat.process.output() for beat in both.beats)
        assert logs.count("messages were lost: their executions are published again  queue=lost count=1") == 1
        assert "queue=patient" not in logs
    finally:
        third.terminate()


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_database_nothing_is_planned_and_afterwards_everything_once(both: TwoBeats) -> None:
    with both.every_second_fires_once():
        for beat in both.beats:
            beat.database.cut()
        both.each_says(DATABASE_AWAY)
        both.pass_seconds(2)
        for beat in both.beats:
            beat.mend()
        both.each_says(DATABASE_BACK)
    for beat in both.beats:
        assert changes(beat.said()) == [DATABASE_AWAY, DATABASE_BACK]


def test_connections_that_the_database_ends_are_made_anew(both: TwoBeats) -> None:
    ours = f"FROM pg_stat_activity WHERE datname = '{both.platform.name}' AND application_name = 'onbeat'"
    with both.every_second_fires_once():
        assert both.count(f"SELECT count(pg_terminate_backend(pid)) {ours}") >= 2
        both.calm()
    for beat in both.beats:
        assert changes(beat.said()) in ([], [DATABASE_AWAY, DATABASE_BACK])


def test_a_database_that_hangs_for_seconds_is_waited_for(both: TwoBeats) -> None:
    with both.every_second_fires_once():
        for beat in both.beats:
            beat.database.freeze()
        both.each_says(HANGS)
        for beat in both.beats:
            beat.mend()
        both.calm()
    for beat in both.beats:
        assert [line for line in changes(beat.said()) if line not in (DATABASE_AWAY, DATABASE_BACK)] == [HANGS]
