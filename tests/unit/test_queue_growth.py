"""Whether a queue grows, by what waited in it before."""

from datetime import datetime, timedelta

import pytest

from executions.queue_samples import Sample, is_growing

MINUTE = timedelta(minutes=1)


def minute_by_minute(now: datetime, *waiting: int) -> list[Sample]:
    """One sample a minute, the last of them a minute ago."""
    return [(now - age * MINUTE, count) for age, count in zip(range(len(waiting), 0, -1), waiting, strict=True)]


@pytest.mark.parametrize(
    ("before", "waiting_now", "grows"),
    [
        (0, 19, False),
        (0, 20, True),
        (10, 29, False),
        (10, 30, True),
        (40, 60, True),
        (100, 149, False),
        (100, 150, True),
        (10_000, 10_500, False),
        (10_000, 15_000, True),
        (500, 20, False),
    ],
)
def test_a_queue_grows_by_at_least_twenty_and_a_half(
    before: int, waiting_now: int, grows: bool, noon: datetime
) -> None:
    assert is_growing([(noon - 10 * MINUTE, before)], waiting_now, now=noon) is grows


def test_it_is_compared_with_ten_minutes_ago_and_not_with_any_other_moment(noon: datetime) -> None:
    samples = minute_by_minute(noon, 100, 0, 0, 100, 100, *[0] * 9)
    assert [at for at, waiting in samples if waiting] == [noon - age * MINUTE for age in (14, 11, 10)]
    assert not is_growing(samples, 120, now=noon)
    assert is_growing(samples, 120, now=noon + MINUTE)


def test_a_long_line_that_gets_shorter_does_not_grow(noon: datetime) -> None:
    assert not is_growing(minute_by_minute(noon, *range(5000, 3800, -100)), 3700, now=noon)


def test_without_a_sample_that_old_nothing_waited_then(noon: datetime) -> None:
    assert not is_growing([], 19, now=noon)
    assert is_growing([], 20, now=noon)
    assert is_growing(minute_by_minute(noon, 10, 20), 30, now=noon)


def test_what_was_seen_last_before_then_counts_if_nothing_was_looked_at_in_between(noon: datetime) -> None:
    assert not is_growing([(noon - 50 * MINUTE, 1000)], 1000, now=noon)
    assert is_growing([(noon - 50 * MINUTE, 1000), (noon - 40 * MINUTE, 0)], 1000, now=noon)
