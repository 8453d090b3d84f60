"""Limits that all processes share through Redis, and what is left of them without it."""

import logging
import math
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytest_django import Settings

from access import gcra, rate_limit
from access.gcra import Limit
from access.rate_limit import RateLimit, Taken
from chaos.proxy import Proxy
from executions import redis_link
from executions.redis_link import RedisLink
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
HOUR = 3600
SECOND = 1_000_000
# Asks as often as it is told, as soon as it is told to, and says how often it was allowed.
ANOTHER_PROCESS = """
import os, sys
from access.rate_limit import RateLimit
from executions.redis_link import RedisLink
limits = RateLimit(RedisLink(os.environ["REDIS_URL"], prefix=sys.argv[1]))
print("ready", flush=True)
times = int(sys.stdin.readline())
print(sum(limits.take("a key", most=50, per_seconds=3600).is_allowed for _ in range(times)))
"""


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:10]}."


@pytest.fixture
def client(prefix: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(settings.REDIS_URL) as one:
        yield one
        for key in one.scan_iter(f"{prefix}*", count=1000):
            one.delete(key)


def limits_over(url: str, prefix: str) -> RateLimit:
    return RateLimit(
        RedisLink(url, prefix=prefix, without="each process limits for itself", again="all limit together")
    )


def allowed(limits: RateLimit, times: int, *, name: str = "a key", most: int = 50) -> int:
    return sum(limits.take(name, most=most, per_seconds=HOUR).is_allowed for _ in range(times))


@pytest.mark.full
def test_threads_and_processes_that_ask_at_once_are_counted_together(prefix: str, client: redis.Redis) -> None:
    others = [
        subprocess.Popen(
            [sys.executable, "-c", ANOTHER_PROCESS, prefix],
            cwd=ROOT,
            env={**os.environ, "REDIS_URL": settings.REDIS_URL},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    start = threading.Barrier(21)
    counts = []

    def ask() -> None:
        limits = limits_over(settings.REDIS_URL, prefix)
        start.wait()
        counts.append(allowed(limits, 5))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    try:
        for other in others:
            assert other.stdout
            assert other.stdout.readline() == "ready\n"
        for thread in threads:
            thread.start()
        start.wait()
        for other in others:
            assert other.stdin
            other.stdin.write("60\n")
            other.stdin.flush()
        counts += [int(other.communicate(timeout=30)[0]) for other in others]
    finally:
        for other in others:
            other.kill()
            other.wait()
        for thread in threads:
            thread.join()
    assert len(counts) == 22
    assert sum(counts) == 50


@pytest.mark.full
def test_twenty_threads_with_connections_of_their_own_get_exactly_what_the_limit_holds(
    prefix: str, client: redis.Redis
) -> None:
    start = threading.Barrier(20)
    counts = []

    def ask() -> None:
        limits = limits_over(settings.REDIS_URL, prefix)
        start.wait()
        counts.append(allowed(limits, 10))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(counts), sum(counts)) == (20, 50)


@pytest.mark.full
def test_threads_that_share_one_object_are_counted_together(prefix: str, client: redis.Redis) -> None:
    limits = limits_over(settings.REDIS_URL, prefix)
    counts = []
    threads = [threading.Thread(target=lambda: counts.append(allowed(limits, 10))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(counts), sum(counts)) == (20, 50)


@pytest.mark.full
@pytest.mark.parametrize("other", ["b", "", "a\nkey", "\ud800", "*", "a key" * 10_000])
def test_names_in_redis_may_hold_anything_and_do_not_disturb_one_another(
    prefix: str, client: redis.Redis, other: str
) -> None:
    limits = limits_over(settings.REDIS_URL, prefix)
    assert allowed(limits, 3, most=2) == 2
    assert allowed(limits, 3, name=other, most=2) == 2
    assert len(list(client.scan_iter(f"{prefix}*", count=1000))) == 2
    assert all(len(key) < 100 for key in client.scan_iter(f"{prefix}*", count=1000))


@pytest.mark.full
def test_redis_answers_what_the_process_would(prefix: str, client: redis.Redis) -> None:
    limits = limits_over(settings.REDIS_URL, prefix)
    assert limits.take("a key", most=10, per_seconds=HOUR, cost=7) == Taken(
        is_allowed=True, remaining=3, retry_after_seconds=0.0
    )
    refused = limits.take("a key", most=10, per_seconds=HOUR, cost=5)
    assert (refused.is_allowed, refused.remaining) == (False, 3)
    assert 0 < refused.retry_after_seconds <= 2 * HOUR / 10
    for beyond in (11, 10**5000):
        assert limits.take("a key", most=10, per_seconds=HOUR, cost=beyond) == Taken(
            is_allowed=False, remaining=3, retry_after_seconds=math.inf
        )


@st.composite
def questions(draw: st.DrawFn) -> tuple[Limit, list[tuple[int, int]]]:
    """A limit, and at which moment how much is asked for; now and then the clock is set back."""
    limit = Limit.of(draw(st.integers(0, 50)), draw(st.floats(300, 10**7)))
    gaps = st.one_of(
        st.just(0), st.integers(0, 3 * limit.interval_us), st.integers(-2 * limit.refill_us, 2 * limit.refill_us)
    )
    asked, now_us = [], 1_790_000_000 * SECOND + draw(st.integers(0, SECOND))
    for gap_us, cost in draw(st.lists(st.tuples(gaps, st.integers(1, 60)), min_size=1, max_size=20)):
        now_us += gap_us
        asked.append((now_us, cost))
    return limit, asked


@pytest.mark.full
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=questions())
def test_the_script_reckons_to_the_microsecond_as_the_process_does(
    prefix: str, client: redis.Redis, asked: tuple[Limit, list[tuple[int, int]]]
) -> None:
    script = rate_limit._TAKE.replace("redis.call('TIME')", "{ARGV[4], ARGV[5]}")
    assert script.count("ARGV[4]") == 1
    key = prefix + uuid.uuid4().hex
    (limit, moments), kept_us = asked, 0
    for now_us, cost in moments:
        payable = limit.payable(cost)
        answer = client.eval(script, 1, key, limit.interval_us, limit.most, payable, *divmod(now_us, SECOND))
        taken, full_at_us = gcra.take(limit, cost=cost, full_at_us=kept_us, now_us=now_us)
        kept_us = full_at_us if full_at_us > now_us else kept_us  # as the process does: a full bucket is not written
        is_allowed, remaining, wait_us = answer
        assert limit.answer(is_allowed=is_allowed == 1, remaining=remaining, wait_us=wait_us, cost=cost) == taken
        assert int(client.get(key) or 0) == kept_us


@pytest.mark.full
def test_a_bucket_leaves_redis_when_it_is_full_again(prefix: str, client: redis.Redis) -> None:
    limits = limits_over(settings.REDIS_URL, prefix)
    limits.take("long", most=10, per_seconds=HOUR, cost=5)
    (key,) = client.scan_iter(f"{prefix}*", count=1000)
    assert HOUR / 2 * 1000 - 30_000 < client.pttl(key) <= HOUR / 2 * 1000 + 1001
    client.delete(key)
    limits.take("refused", most=10, per_seconds=HOUR, cost=11)
    assert list(client.scan_iter(f"{prefix}*", count=1000)) == []
    limits.take("short", most=10, per_seconds=0.01)
    (key,) = client.scan_iter(f"{prefix}*", count=1000)
    wait_until(lambda: not client.exists(key), what="the key has expired")


@pytest.mark.full
def test_by_the_clock_of_redis_the_wait_gets_shorter(prefix: str, client: redis.Redis) -> None:
    limits = limits_over(settings.REDIS_URL, prefix)
    assert allowed(limits, 1, most=1) == 1
    first = limits.take("a key", most=1, per_seconds=HOUR)
    assert 0 < first.retry_after_seconds <= HOUR
    wait_until(
        lambda: 0 < limits.take("a key", most=1, per_seconds=HOUR).retry_after_seconds < first.retry_after_seconds,
        what="less is left to wait",
    )


@pytest.mark.full
def test_without_a_link_the_redis_of_the_settings_counts(prefix: str, client: redis.Redis, settings: Settings) -> None:
    settings.ONBEAT_EXECUTIONS_PREFIX = prefix
    one, other = RateLimit(), RateLimit()
    assert (allowed(one, 2, most=3), allowed(other, 2, most=3)) == (2, 1)
    assert len(list(client.scan_iter(f"{prefix}rate:*", count=1000))) == 1


@pytest.mark.full
def test_while_redis_is_cut_off_the_process_counts_and_when_it_is_back_redis_does(
    prefix: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="onbeat")
    monkeypatch.setattr(redis_link, "_REST_SECONDS", 0.0)
    said = ["Redis is away: each process limits for itself  error=ConnectionError"]
    with Proxy(settings.REDIS_URL) as line:
        limits = limits_over(line.url, prefix)
        assert allowed(limits, 2, most=4) == 2
        line.cut()
        assert allowed(limits, 10, most=4) == 4
        assert [record.message for record in caplog.records] == said
        line.mend()
        assert allowed(limits, 10, most=4) == 2
        assert [record.message for record in caplog.records] == [*said, "Redis is back: all limit together"]
    assert allowed(limits_over(settings.REDIS_URL, prefix), 1, most=4) == 0


def test_a_redis_that_hangs_is_waited_for_once_and_the_process_counts(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        limits = limits_over(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", "t.")
        assert allowed(limits, 10, most=4) == 4
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert [record.message for record in caplog.records] == [
        "Redis is away: each process limits for itself  error=TimeoutError"
    ]


def test_at_an_address_where_nobody_listens_the_process_counts(caplog: pytest.LogCaptureFixture) -> None:
    limits = limits_over("redis://127.0.0.1:1/0", "t.")
    assert allowed(limits, 10, most=4) == 4
    assert len(caplog.records) == 1
