"""Which beats live: in Redis, and without Redis in the registry."""

import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
import redis
from django.conf import settings

from beat.members import Members
from beat.models import Beat
from executions.clock import database_now
from executions.redis_link import RedisLink
from tests.making import seconds
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

NOBODY_LISTENS = "redis://127.0.0.1:1/0"
Join = Callable[..., Members]


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:10]}."


@pytest.fixture
def join(prefix: str, noon: datetime) -> Join:
    """Make a beat with its row in the registry: with Redis in the full tier, without it in the embedded one."""

    def make(name: str, *, url: str = settings.REDIS_URL, prefix: str = prefix) -> Members:
        Beat.objects.get_or_create(name=name, defaults={"host": "h", "pid": 1, "started_at": noon, "ticked_at": noon})
        return Members(RedisLink(url, prefix=prefix), beat=name)

    return make


def test_who_says_so_lives_and_hears_who_else_does(join: Join) -> None:
    one, other = join("one"), join("other")
    assert one.renew() == {"one"}
    assert other.renew() == {"one", "other"}
    assert one.renew() == {"one", "other"}


def test_to_look_says_nothing(join: Join) -> None:
    one, onlooker = join("one"), join("onlooker")
    one.renew()
    assert onlooker.look() == {"one"}
    assert one.look() == {"one"}


def test_who_leaves_is_gone_at_once(join: Join) -> None:
    one, other = join("one"), join("other")
    one.renew()
    other.renew()
    one.leave()
    assert other.look() == {"other"}
    one.renew()
    assert other.look() == {"one", "other"}


def test_who_leaves_twice_or_never_came_does_no_harm(join: Join) -> None:
    one, other = join("one"), join("other")
    other.renew()
    one.leave()
    one.leave()
    assert other.look() == {"other"}


def test_who_says_nothing_for_long_is_gone(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beat.members.LIFE", seconds(0.2))
    silent, other = join("silent"), join("other")
    silent.renew()
    assert silent.look() == {"silent"}
    wait_until(lambda: other.renew() == {"other"}, what="the silent one is forgotten")


@pytest.mark.full
def test_two_installations_on_one_redis_do_not_meet(join: Join, prefix: str) -> None:
    one, stranger = join("one"), join("stranger", prefix=f"other-{prefix}")
    assert one.renew() == {"one"}
    assert stranger.renew() == {"stranger"}


@pytest.mark.full
def test_with_redis_the_registry_is_not_written(join: Join) -> None:
    join("one").renew()
    assert Beat.objects.get().renewed_at is None


@pytest.mark.full
def test_names_in_redis_vanish_by_themselves(join: Join, prefix: str) -> None:
    join("one").renew()
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        assert 0 < client.pttl(f"{prefix}members") <= 20_000


@pytest.mark.parametrize("url", [NOBODY_LISTENS, ""], ids=["away", "never configured"])
def test_without_redis_the_registry_tells_who_lives(join: Join, url: str) -> None:
    one, other = join("one", url=url), join("other", url=url)
    assert one.renew() == {"one"}
    assert other.renew() == {"one", "other"}
    assert other.look() == {"one", "other"}
    one.leave()
    assert other.look() == {"other"}


def test_by_the_registry_nobody_lives_who_is_not_in_it(join: Join) -> None:
    taken_off = join("taken off", url="")
    Beat.objects.all().delete()
    assert taken_off.renew() == frozenset()


@pytest.mark.full
def test_who_sees_redis_and_who_does_not_do_not_hear_each_other(join: Join) -> None:
    """Both then look after everything, which is harmless; that neither stands still is what counts."""
    seeing, blind = join("seeing"), join("blind", url=NOBODY_LISTENS)
    assert seeing.renew() == {"seeing"}
    assert blind.renew() == {"blind"}


def test_a_name_from_before_the_clock_was_set_back_is_none_that_lives(join: Join) -> None:
    one, dead = join("one", url=""), join("dead", url="")
    dead.renew()
    Beat.objects.filter(name="dead").update(renewed_at=database_now() + timedelta(hours=1))
    assert one.renew() == {"one"}


@pytest.mark.full
def test_a_name_in_redis_from_before_its_clock_was_set_back_is_none_that_lives(join: Join, prefix: str) -> None:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.zadd(f"{prefix}members", {"dead": (time.time() + 3600) * 1000})
    assert join("one").renew() == {"one"}
