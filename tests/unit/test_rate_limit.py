"""What a limit allows, by a clock that the test moves."""

import math
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from access import gcra, rate_limit
from access.gcra import Limit
from access.rate_limit import RateLimit, Taken
from executions.redis_link import RedisLink

SECOND = 1_000_000
LIMITS = st.builds(Limit.of, st.integers(1, 50), st.floats(0.001, 100, allow_nan=False))
COSTS = st.integers(1, 60)


class Moving:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now_us = 7 * SECOND

    def __call__(self) -> int:
        return self.now_us

    def pass_by(self, seconds: float) -> None:
        self.now_us += round(seconds * SECOND)


@pytest.fixture
def clock() -> Moving:
    return Moving()


@pytest.fixture
def limits(clock: Moving) -> RateLimit:
    """Those of a process that never had a Redis."""
    return RateLimit(RedisLink("", prefix=""), now_us=clock)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# The arithmetic


@st.composite
def questions(draw: st.DrawFn) -> tuple[Limit, list[tuple[int, int]]]:
    """A limit, and at which moment how much is asked for."""
    limit = draw(LIMITS)
    gaps = st.one_of(st.just(0), st.integers(0, 3 * limit.interval_us), st.integers(0, 2 * limit.refill_us))
    asked, now_us = [], 0
    for gap_us, cost in draw(st.lists(st.tuples(gaps, COSTS), max_size=40)):
        now_us += gap_us
        asked.append((now_us, cost))
    return limit, asked


@given(questions())
def test_in_any_window_no_more_is_allowed_than_a_full_bucket_and_what_comes_back(
    asked: tuple[Limit, list[tuple[int, int]]],
) -> None:
    limit, moments = asked
    full_at_us, allowed = 0, []
    for now_us, cost in moments:
        taken, full_at_us = gcra.take(limit, cost=cost, full_at_us=full_at_us, now_us=now_us)
        if taken.is_allowed:
            allowed.append((now_us, cost))
    for first, (start_us, _) in enumerate(allowed):
        sum_of_costs = 0
        for end_us, cost in allowed[first:]:
            sum_of_costs += cost
            assert sum_of_costs * limit.interval_us <= limit.refill_us + end_us - start_us


@given(questions())
def test_who_waits_as_long_as_told_is_allowed_and_who_waits_a_microsecond_less_is_not(
    asked: tuple[Limit, list[tuple[int, int]]],
) -> None:
    limit, moments = asked
    full_at_us = 0
    for now_us, cost in moments:
        taken, full_at_us = gcra.take(limit, cost=cost, full_at_us=full_at_us, now_us=now_us)
        if taken.is_allowed:
            assert taken.retry_after_seconds == 0
        elif cost > limit.most:
            assert taken.retry_after_seconds == math.inf
        else:
            then_us = now_us + round(taken.retry_after_seconds * SECOND)
            assert then_us > now_us
            assert gcra.take(limit, cost=cost, full_at_us=full_at_us, now_us=then_us)[0].is_allowed
            assert not gcra.take(limit, cost=cost, full_at_us=full_at_us, now_us=then_us - 1)[0].is_allowed


@given(questions())
def test_what_remains_can_be_taken_at_once_and_one_more_cannot(asked: tuple[Limit, list[tuple[int, int]]]) -> None:
    limit, moments = asked
    full_at_us = 0
    for now_us, cost in moments:
        taken, full_at_us = gcra.take(limit, cost=cost, full_at_us=full_at_us, now_us=now_us)
        assert 0 <= taken.remaining <= limit.most
        if taken.remaining:
            assert gcra.take(limit, cost=taken.remaining, full_at_us=full_at_us, now_us=now_us)[0].is_allowed
        assert not gcra.take(limit, cost=taken.remaining + 1, full_at_us=full_at_us, now_us=now_us)[0].is_allowed


@given(st.integers(1, 10**9), st.floats(1e-6, 366 * 24 * 3600, allow_nan=False))
def test_a_limit_is_rounded_to_the_strict_side_and_by_less_than_two_microseconds(most: int, per_seconds: float) -> None:
    limit = Limit.of(most, per_seconds)
    exact_us = per_seconds * SECOND / most
    assert exact_us * (1 - 1e-12) <= limit.interval_us < exact_us + 2


@pytest.mark.parametrize(
    ("most", "per_seconds"), [(-1, 1.0), (10**9 + 1, 1.0), (1, 0.0), (1, -1.0), (1, math.inf), (1, math.nan)]
)
def test_what_is_no_limit_is_refused(most: int, per_seconds: float) -> None:
    with pytest.raises(ValueError, match="is no limit: say 0 to 1000000000, in up to 31622400"):
        Limit.of(most, per_seconds)


def test_a_clock_that_was_set_back_locks_nobody_out_for_longer_than_a_refill() -> None:
    limit = Limit.of(10, 60)
    _, full_at_us = gcra.take(limit, cost=10, full_at_us=0, now_us=3600 * SECOND)
    taken, full_at_us = gcra.take(limit, cost=1, full_at_us=full_at_us, now_us=5 * SECOND)
    assert taken == Taken(is_allowed=False, remaining=0, retry_after_seconds=6.0)
    assert gcra.take(limit, cost=1, full_at_us=full_at_us, now_us=11 * SECOND)[0].is_allowed


# The buckets of a process


def test_a_burst_is_allowed_and_then_as_many_as_come_back(limits: RateLimit, clock: Moving) -> None:
    burst = [limits.take("a key", most=3, per_seconds=60) for _ in range(4)]
    assert burst == [
        Taken(is_allowed=True, remaining=2, retry_after_seconds=0.0),
        Taken(is_allowed=True, remaining=1, retry_after_seconds=0.0),
        Taken(is_allowed=True, remaining=0, retry_after_seconds=0.0),
        Taken(is_allowed=False, remaining=0, retry_after_seconds=20.0),
    ]
    clock.pass_by(15)
    assert limits.take("a key", most=3, per_seconds=60).retry_after_seconds == 5.0
    for _ in range(9):
        clock.pass_by(5)
        assert limits.take("a key", most=3, per_seconds=60).is_allowed
        assert not limits.take("a key", most=3, per_seconds=60).is_allowed
        clock.pass_by(15)
    clock.pass_by(60)
    assert limits.take("a key", most=3, per_seconds=60, cost=3).is_allowed


def test_a_dear_request_takes_more_and_waits_longer(limits: RateLimit, clock: Moving) -> None:
    assert limits.take("a key", most=10, per_seconds=10, cost=7).remaining == 3
    assert limits.take("a key", most=10, per_seconds=10, cost=5) == Taken(
        is_allowed=False, remaining=3, retry_after_seconds=2.0
    )
    assert limits.take("a key", most=10, per_seconds=10, cost=3).is_allowed


@pytest.mark.parametrize(("most", "cost"), [(10, 11), (10, 10**400), (0, 1)])
def test_a_request_beyond_the_limit_is_told_that_no_waiting_helps(limits: RateLimit, most: int, cost: int) -> None:
    for _ in range(2):
        assert limits.take("a key", most=most, per_seconds=10, cost=cost) == Taken(
            is_allowed=False, remaining=most, retry_after_seconds=math.inf
        )


@pytest.mark.parametrize("cost", [0, -1])
def test_a_request_cannot_give_back(limits: RateLimit, cost: int) -> None:
    with pytest.raises(ValueError, match=f"cannot cost {cost}"):
        limits.take("a key", most=10, per_seconds=10, cost=cost)


@pytest.mark.parametrize("other", ["b", "", "a key ", "a\nkey", "ключ", "\ud800", "\0", "a key" * 10_000])
def test_names_may_hold_anything_and_do_not_disturb_one_another(limits: RateLimit, other: str) -> None:
    assert limits.take("a key", most=1, per_seconds=60).is_allowed
    assert limits.take(other, most=1, per_seconds=60).is_allowed
    assert not limits.take("a key", most=1, per_seconds=60).is_allowed
    assert not limits.take(other, most=1, per_seconds=60).is_allowed


def test_two_limits_under_one_name_do_not_disturb_one_another(limits: RateLimit) -> None:
    assert limits.take("a key", most=100, per_seconds=3600, cost=100).is_allowed
    assert limits.take("a key", most=5, per_seconds=1, cost=5).is_allowed
    assert limits.take("a key", most=100, per_seconds=3600).retry_after_seconds == 36.0
    assert limits.take("a key", most=5, per_seconds=1).retry_after_seconds == 0.2


def test_threads_of_a_process_are_counted_together(limits: RateLimit, hasty_threads: None) -> None:
    allowed: list[bool] = []

    def ask() -> None:
        allowed.extend(limits.take("a key", most=500, per_seconds=60).is_allowed for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(allowed), sum(allowed)) == (1000, 500)


def test_full_buckets_are_forgotten_before_any_other(
    limits: RateLimit, clock: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limit, "_MOST_NAMES", 20)
    for number in range(15):
        limits.take(f"full {number}", most=1, per_seconds=1)
    for number in range(5):
        limits.take(f"busy {number}", most=1, per_seconds=60)
    clock.pass_by(1)
    assert limits.take("one more", most=1, per_seconds=60).is_allowed
    assert len(limits._buckets._full_at_us) == 6
    assert not any(limits.take(f"busy {number}", most=1, per_seconds=60).is_allowed for number in range(5))


def test_a_flood_of_names_costs_no_more_memory_and_gives_nothing_to_who_took_the_most(
    limits: RateLimit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limit, "_MOST_NAMES", 20)
    limits.take("greedy", most=10, per_seconds=60, cost=10)
    for number in range(1000):
        assert limits.take(f"new {number}", most=10, per_seconds=60).is_allowed
        assert len(limits._buckets._full_at_us) <= 20
    assert not limits.take("greedy", most=10, per_seconds=60).is_allowed


def test_refusals_leave_nothing_in_memory(limits: RateLimit) -> None:
    limits.take("a key", most=10, per_seconds=60, cost=11)
    assert limits._buckets._full_at_us == {}


def test_without_a_redis_in_the_settings_the_process_counts_and_says_nothing(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REDIS_URL = ""
    limits = RateLimit()
    assert [limits.take("a key", most=2, per_seconds=3600).is_allowed for _ in range(3)] == [True, True, False]
    assert caplog.records == []
