"""Backoff and the limit of attempts."""

from datetime import timedelta
from itertools import pairwise

import pytest

from executions.retry import DEFAULT_BACKOFF, DEFAULT_MAX_ATTEMPTS, Exponential, may_try_again

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 30), (2, 60), (3, 120), (4, 240), (7, 1920), (8, 3600), (9, 3600), (33, 3600), (34, 3600)],
)
def test_by_default_the_wait_doubles_from_30_seconds_up_to_an_hour(failures: int, seconds: int) -> None:
    assert DEFAULT_BACKOFF.delay(failures) == seconds * SECOND


def test_the_first_wait_is_the_initial_one_and_the_cap_holds() -> None:
    backoff = Exponential(initial=5 * SECOND, cap=12 * SECOND)
    assert [backoff.delay(failures) for failures in (1, 2, 3, 4)] == [5 * SECOND, 10 * SECOND, 12 * SECOND, 12 * SECOND]


def test_an_initial_wait_above_the_cap_is_cut_to_it() -> None:
    assert Exponential(initial=10 * SECOND, cap=SECOND).delay(1) == SECOND


def test_the_wait_never_shrinks() -> None:
    delays = [DEFAULT_BACKOFF.delay(failures) for failures in range(1, 200)]
    assert all(earlier <= later for earlier, later in pairwise(delays))


def test_a_million_failures_do_not_overflow() -> None:
    assert DEFAULT_BACKOFF.delay(1_000_000) == timedelta(hours=1)


@pytest.mark.parametrize("failures", [3, 40, 1_000_000])
def test_a_long_first_wait_is_cut_to_the_cap_however_many_failures(failures: int) -> None:
    assert Exponential(initial=timedelta(hours=6), cap=timedelta(days=1)).delay(failures) == timedelta(days=1)


def test_a_tiny_first_wait_doubles_until_it_reaches_a_large_cap() -> None:
    backoff = Exponential(initial=timedelta(microseconds=1), cap=timedelta(days=365))
    assert backoff.delay(41) == timedelta(microseconds=2**40)
    assert backoff.delay(45) == timedelta(microseconds=2**44)
    assert backoff.delay(46) == timedelta(days=365)
    assert backoff.delay(1_000_000) == timedelta(days=365)


@pytest.mark.parametrize("failures", [1, 2, 1_000_000])
def test_no_first_wait_is_no_wait_ever(failures: int) -> None:
    assert Exponential(initial=timedelta(0)).delay(failures) == timedelta(0)


@pytest.mark.parametrize(
    ("attempt", "lost", "max_attempts", "expected"),
    [
        (1, 0, 1, False),
        (1, 0, 3, True),
        (2, 0, 3, True),
        (3, 0, 3, False),
        (4, 0, 3, False),
        (1, 1, 1, True),  # a lost attempt does not count
        (3, 1, 3, True),
        (4, 1, 3, False),
        (5, 3, 3, True),
        (6, 3, 3, False),
    ],
)
def test_an_attempt_may_follow_until_the_limit_and_lost_ones_do_not_count(
    attempt: int, lost: int, max_attempts: int, expected: bool
) -> None:
    assert may_try_again(attempt=attempt, lost=lost, max_attempts=max_attempts) is expected


def test_three_attempts_are_the_default() -> None:
    assert DEFAULT_MAX_ATTEMPTS == 3
