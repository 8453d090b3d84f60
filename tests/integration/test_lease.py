"""Leases save work and decide nothing."""

import uuid
from datetime import datetime

import pytest
import redis
from django.conf import settings

from beat.lease import REDIS_AGAIN, WITHOUT_REDIS, Leases, execution_key, fire_key
from beat.members import Members
from beat.planning import Planner
from executions.identity import milliseconds, new_execution_id
from executions.models import Execution
from executions.redis_link import RedisLink
from executions.states import Trigger
from tests.making import a_job, every_minute, seconds
from tests.waiting import wait_until

# To leave is also said to the registry.
pytestmark = pytest.mark.django_db


def leases(holder: str, *, url: str | None = None, prefix: str = "", life: float = 10) -> Leases:
    url = settings.REDIS_URL if url is None else url
    link = RedisLink(url, prefix=prefix, without=WITHOUT_REDIS, again=REDIS_AGAIN)
    if url and url == settings.REDIS_URL:
        Members(link, beat=holder).renew()
    return Leases(link, holder=holder, life=seconds(life))


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:10]}."


@pytest.mark.full
def test_a_lease_has_one_holder_who_may_take_it_again(prefix: str) -> None:
    first, second = leases("first", prefix=prefix), leases("second", prefix=prefix)
    assert first.take(["a", "b"]) == [True, True]
    assert second.take(["b", "c"]) == [False, True]
    assert first.take(["a", "b", "c"]) == [True, True, False]


@pytest.mark.full
def test_a_lease_runs_out(prefix: str) -> None:
    leases("gone", prefix=prefix, life=0.05).take(["a"])
    other = leases("other", prefix=prefix)
    wait_until(lambda: other.take(["a"]) == [True], what="the lease of the other has run out")


@pytest.mark.full
def test_the_lease_of_a_holder_that_is_no_member_is_free_at_once(prefix: str) -> None:
    gone, other = leases("gone", prefix=prefix), leases("other", prefix=prefix)
    gone.take(["a"])
    assert other.take(["a"]) == [False]
    Members(RedisLink(settings.REDIS_URL, prefix=prefix), beat="gone").leave()
    assert other.take(["a"]) == [True]
    assert leases("gone", prefix=prefix).take(["a"]) == [False]  # it is a member again, and came too late


@pytest.mark.full
def test_a_lease_that_is_released_is_free_and_that_of_another_stays(prefix: str) -> None:
    one, other = leases("one", prefix=prefix), leases("other", prefix=prefix)
    one.take(["a"])
    other.take(["b"])
    one.release(["a", "b", "never taken"])
    assert leases("third", prefix=prefix).take(["a", "b"]) == [True, False]


@pytest.mark.full
def test_a_lease_may_be_asked_for_with_a_life_of_its_own(prefix: str) -> None:
    leases("one", prefix=prefix, life=0.05).take(["a"], life=seconds(60))
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        assert 1000 < client.pttl(f"{prefix}a") <= 60_000


@pytest.mark.full
def test_two_installations_on_one_redis_do_not_meet(prefix: str) -> None:
    leases("first", prefix=prefix).take(["a"])
    assert leases("second", prefix=f"other-{prefix}").take(["a"]) == [True]


@pytest.mark.full
def test_a_flushed_redis_grants_everything_anew(prefix: str) -> None:
    leases("first", prefix=prefix).take(["a"])
    redis.Redis.from_url(settings.REDIS_URL).delete(f"{prefix}a")
    assert leases("second", prefix=prefix).take(["a"]) == [True]


def test_without_redis_every_lease_is_granted() -> None:
    assert leases("me", url="").take(["a", "b"]) == [True, True]


def test_a_redis_that_is_away_grants_every_lease_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    away = leases("me", url="redis://127.0.0.1:1/0")
    assert away.take(["a"]) == [True]
    assert away.take(["a", "b"]) == [True, True]
    assert [record.message for record in caplog.records] == [
        "Redis is away: beats go on without leases, the database decides  error=ConnectionError"
    ]


def test_a_line_that_is_reset_as_it_opens_is_a_redis_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """redis-py asks a socket for its peer when it is gone already, and lets the system's own error through."""
    link = RedisLink("redis://127.0.0.1:6379/0", prefix="")

    def reset(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(link._redis, "eval", reset)
    assert link.ask("return 1", []) is None
    assert link.is_away


@pytest.mark.full
def test_a_redis_that_failed_is_left_alone_for_a_while(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = leases("me", prefix=prefix)
    leases("other", prefix=prefix).take(["a"])
    with monkeypatch.context() as hanging:
        hanging.setattr(one._link._redis, "eval", lambda *_words: (_ for _ in ()).throw(redis.TimeoutError))
        assert one.take(["a"]) == [True]
    assert one._link.is_away
    assert one.take(["a"]) == [True]  # not asked
    monkeypatch.setattr(one._link, "_ask_again_at", 0.0)
    assert one.take(["a"]) == [False]
    assert not one._link.is_away


def test_the_beat_that_planned_a_fire_holds_the_lease_to_publish_it(noon: datetime) -> None:
    fire = Execution(id=new_execution_id(noon), job_id=7, fire_time=noon, trigger=Trigger.SCHEDULE)
    assert execution_key(fire) == fire_key(7, milliseconds(noon))


def test_retries_and_asked_for_runs_have_leases_of_their_own(noon: datetime) -> None:
    retry = Execution(id=new_execution_id(noon), job_id=7, fire_time=noon, trigger=Trigger.SCHEDULE, attempt=2)
    asked = Execution(id=new_execution_id(noon), job_id=7, fire_time=noon, trigger=Trigger.MANUAL)
    assert execution_key(retry) == f"lease:{retry.pk}:2"
    assert execution_key(asked) == f"lease:{asked.pk}:1"


@pytest.mark.full
@pytest.mark.django_db
def test_a_lease_of_another_beat_keeps_us_from_planning_a_fire_only_until_it_is_overdue(
    noon: datetime, prefix: str
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    leases("other", prefix=prefix).take([fire_key(job.pk, milliseconds(noon + seconds(60)))])
    planner = Planner(leases("me", prefix=prefix), look_ahead=seconds(5), batch_size=10)
    assert planner.plan_due(now=noon + seconds(60)).fires == 0
    assert planner.plan_due(now=noon + seconds(61.5)).fires == 1


@pytest.mark.full
def test_a_beat_counts_what_it_asked_for_and_what_others_had() -> None:
    mine, other = leases("me"), leases("other")
    assert mine.take(["lease:1:1", "lease:2:1"]) == [True, True]
    other.take(["lease:2:1", "lease:3:1", "lease:4:1"])
    assert (mine.asked, mine.refused) == (2, 0)
    assert (other.asked, other.refused) == (3, 1)
