"""Backoff, which errors are tried again, and the limit of attempts."""

import uuid
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executions.retry import (
    DEFAULT_MAX_ATTEMPTS,
    MOST_SECONDS,
    Backoff,
    RetryPolicy,
    kinds_of,
    may_try_again,
    spread_of,
)

SECOND = timedelta(seconds=1)
POLICIES = st.builds(
    RetryPolicy,
    backoff=st.sampled_from(Backoff),
    initial_seconds=st.integers(0, MOST_SECONDS),
    cap_seconds=st.integers(0, MOST_SECONDS),
    jitter=st.floats(0, 1),
)
SPREADS = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 30), (2, 60), (3, 120), (4, 240), (7, 1920), (8, 3600), (9, 3600), (33, 3600), (34, 3600), (10**6, 3600)],
)
def test_by_default_the_wait_doubles_from_30_seconds_up_to_an_hour(failures: int, seconds: int) -> None:
    assert RetryPolicy().delay(failures) == seconds * SECOND


@pytest.mark.parametrize(
    ("backoff", "seconds"),
    [(Backoff.EXPONENTIAL, [5, 10, 20, 40, 42]), (Backoff.LINEAR, [5, 10, 15, 20, 25]), (Backoff.FIXED, [5] * 5)],
)
def test_each_backoff_grows_in_its_own_way_up_to_the_cap(backoff: Backoff, seconds: list[int]) -> None:
    policy = RetryPolicy(backoff=backoff, initial_seconds=5, cap_seconds=42)
    assert [policy.delay(failures) for failures in range(1, 6)] == [second * SECOND for second in seconds]


def test_a_long_first_wait_is_cut_to_the_cap() -> None:
    assert RetryPolicy(initial_seconds=10, cap_seconds=1).delay(1) == SECOND


@given(POLICIES, SPREADS, st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_wait_is_never_negative_never_above_the_cap_and_never_shrinks(
    policy: RetryPolicy, spread: float, failures: int, more: int
) -> None:
    wait = policy.delay(failures, spread=spread)
    assert timedelta(0) <= wait <= policy.cap_seconds * SECOND
    assert wait <= policy.delay(failures + more, spread=spread)


@given(POLICIES, st.integers(1, 100))
def test_every_wait_reaches_the_cap_or_stays_within_what_was_said(policy: RetryPolicy, failures: int) -> None:
    said = {
        Backoff.EXPONENTIAL: policy.initial_seconds * 2 ** (failures - 1),
        Backoff.LINEAR: policy.initial_seconds * failures,
        Backoff.FIXED: policy.initial_seconds,
    }
    assert policy.delay(failures) == min(said[policy.backoff], policy.cap_seconds) * SECOND


def test_jitter_takes_away_up_to_its_share() -> None:
    policy = RetryPolicy(backoff=Backoff.FIXED, initial_seconds=100, jitter=0.5)
    assert [policy.delay(1, spread=spread) for spread in (0, 0.5, 0.98)] == [100 * SECOND, 75 * SECOND, 51 * SECOND]


def test_one_execution_has_the_same_spread_always_and_many_are_spread_evenly() -> None:
    ids = [uuid.uuid4() for _ in range(4000)]
    spreads = [spread_of(execution_id) for execution_id in ids]
    assert spreads == [spread_of(execution_id) for execution_id in ids]
    assert all(0 <= spread < 1 for spread in spreads)
    tenths = [sum(tenth <= spread * 10 < tenth + 1 for spread in spreads) for tenth in range(10)]
    assert all(250 < count < 550 for count in tenths)


class CardDeclined(ValueError): ...


@pytest.mark.parametrize(
    ("retry_on", "give_up_on", "expected"),
    [
        ((), (), True),
        (("CardDeclined",), (), True),
        (("ValueError",), (), True),  # a class above it
        (("builtins.ValueError",), (), True),
        ((f"{__name__}.CardDeclined",), (), True),
        (("KeyError",), (), False),
        (("KeyError", "ValueError"), (), True),
        ((), ("CardDeclined",), False),
        ((), ("KeyError",), True),
        (("ValueError",), ("CardDeclined",), False),  # giving up goes before
        (("CardDeclined",), ("Exception",), False),
    ],
)
def test_an_error_is_tried_again_if_its_kind_is_wanted_and_not_given_up_on(
    retry_on: tuple[str, ...], give_up_on: tuple[str, ...], expected: bool
) -> None:
    policy = RetryPolicy(retry_on=retry_on, give_up_on=give_up_on)
    assert policy.deserves_retry(kinds_of(CardDeclined())) is expected


@given(POLICIES)
def test_a_policy_comes_back_from_the_job_as_it_was_stored(policy: RetryPolicy) -> None:
    assert RetryPolicy.stored(policy.to_store()) == policy


def test_only_what_differs_from_the_default_is_stored() -> None:
    assert RetryPolicy(max_attempts=7).to_store() == {}
    assert RetryPolicy(jitter=0.5, retry_on=("KeyError",)).to_store() == {"jitter": 0.5, "retry_on": ("KeyError",)}


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
