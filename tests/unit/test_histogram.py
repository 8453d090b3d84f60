"""Histograms of durations: where a duration goes, and how right a percentile is that is read back."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executions.histogram import LAST, LONGEST, Histogram, bucket, merged, percentile

MILLISECOND = timedelta(milliseconds=1)
MICROSECOND = timedelta(microseconds=1)
HALF_A_BUCKET = 2**0.125 * (1 + 1e-9)
LONGEST_MICROSECONDS = LONGEST // MICROSECOND
DURATIONS = st.one_of(
    *(st.integers(0, most) for most in (2_000, 10**5, 10**7, 10**10, LONGEST_MICROSECONDS)),
).map(lambda count: count * MICROSECOND)
PERCENTS = st.integers(0, 100)


def histogram_of(durations: Iterable[timedelta]) -> Histogram:
    return dict(Counter(str(bucket(duration)) for duration in durations))


def exactly(durations: list[timedelta], percent: int) -> timedelta:
    """The shortest of them that at least so many percent of them do not exceed."""
    return next(
        one for one in sorted(durations) if 100 * sum(other <= one for other in durations) >= percent * len(durations)
    )


# ── Buckets ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("duration", [-MILLISECOND, timedelta(), MICROSECOND, MILLISECOND])
def test_up_to_a_millisecond_all_is_one_bucket(duration: timedelta) -> None:
    assert bucket(duration) == 0
    assert bucket(MILLISECOND + MICROSECOND) == 1


@pytest.mark.parametrize("doublings", range(1, 32))
def test_four_buckets_double_a_duration_and_hold_their_upper_end(doublings: int) -> None:
    end = 2**doublings * MILLISECOND
    assert bucket(end) == 4 * doublings
    assert bucket(end * 1.001) == 4 * doublings + 1


@given(DURATIONS, DURATIONS)
def test_a_longer_duration_is_in_no_lower_bucket(one: timedelta, other: timedelta) -> None:
    assert bucket(min(one, other)) <= bucket(max(one, other))


@pytest.mark.parametrize("duration", [LONGEST, 2 * LONGEST, timedelta.max])
def test_what_is_too_long_is_in_the_last_bucket(duration: timedelta) -> None:
    assert bucket(duration) == LAST
    assert bucket(LONGEST / 1.2) < LAST


# ── Percentiles ──────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(DURATIONS, min_size=1, max_size=200), PERCENTS)
def test_a_percentile_is_off_by_half_a_bucket_or_half_a_millisecond_at_most(
    durations: list[timedelta], percent: int
) -> None:
    said = percentile(histogram_of(durations), percent)
    assert said is not None
    exact = exactly(durations, percent).total_seconds()
    if exact <= 0.001:
        assert abs(said - exact) <= 0.0005
    else:
        assert exact / HALF_A_BUCKET <= said <= exact * HALF_A_BUCKET


def test_half_a_bucket_is_less_than_ten_percent() -> None:
    assert HALF_A_BUCKET < 1.0906


@pytest.mark.parametrize(("percent", "rank"), [(0, 1), (1, 1), (7, 7), (29, 29), (50, 50), (99, 99), (100, 100)])
def test_percents_of_a_hundred_durations_are_their_ranks(percent: int, rank: int) -> None:
    """Also where a product of fractions would round up: 0.07 × 100 is more than 7."""
    one_each = {str(number): 1 for number in range(1, 101)}
    assert percentile(one_each, percent) == percentile({str(rank): 1}, 50)


def test_of_nothing_there_is_no_percentile() -> None:
    assert percentile({}, 50) is None


def test_buckets_are_in_the_order_of_their_numbers_however_they_are_stored() -> None:
    assert percentile({"100": 1, "20": 1, "3": 1}, 50) == percentile({"20": 1}, 50)


@given(st.lists(st.lists(DURATIONS, max_size=20), max_size=5))
def test_histograms_add_up_to_that_of_all_durations(parts: list[list[timedelta]]) -> None:
    everything = histogram_of(duration for part in parts for duration in part)
    assert merged(histogram_of(part) for part in parts) == everything


def test_to_merge_leaves_the_parts_as_they_were() -> None:
    parts = [{"1": 2}, {"1": 3, "4": 1}]
    assert merged(parts) == {"1": 5, "4": 1}
    assert parts == [{"1": 2}, {"1": 3, "4": 1}]


@given(st.lists(DURATIONS, max_size=20))
def test_a_histogram_comes_back_from_json_as_it_was(durations: list[timedelta]) -> None:
    histogram = histogram_of(durations)
    assert json.loads(json.dumps(histogram)) == histogram
