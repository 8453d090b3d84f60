"""Durations, distances, counts and colours, as people read them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from access.models import ApiKey
from executions import words
from executions.states import Outcome, State
from jobs.models import JobState

NOON = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"),
        (0, "0 ms"),
        (0.0004, "0 ms"),
        (0.32, "320 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (1, "1.0 s"),
        (4.23, "4.2 s"),
        (9.97, "10 s"),
        (10, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
        (3599.7, "1 h"),
        (7800, "2 h 10 min"),
        (7859, "2 h 10 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (273_600, "3 d 4 h"),
        (400 * 86_400, "400 d"),
        (-5, "0 ms"),  # clocks of two machines differ a little
        (timedelta(minutes=3, seconds=5), "3 min 5 s"),
        (timedelta(microseconds=1500), "2 ms"),
    ],
)
def test_a_duration_has_the_two_units_that_matter(seconds: float | timedelta | None, said: str) -> None:
    assert words.duration(seconds) == said


@given(st.floats(0, 10**9))
def test_every_duration_is_short_and_no_unit_is_full(seconds: float) -> None:
    number, unit, *rest = words.duration(seconds).split()
    most = {"ms": 1000, "s": 60, "min": 60, "h": 24, "d": 10**9}
    assert float(number) < most[unit]
    assert not rest or 0 < float(rest[0]) < most[rest[1]]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(185, "in 3 min 5 s"), (0, "in 0 ms"), (-7800, "2 h 10 min ago"), (-0.5, "500 ms ago")],
)
def test_a_distance_says_which_way(seconds: float, said: str) -> None:
    assert words.away(NOON + timedelta(seconds=seconds), now=NOON) == said


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("UTC", "2026-06-15 12:00:00 UTC"),
        ("Asia/Tokyo", "2026-06-15 21:00:00 Asia/Tokyo"),
        ("Asia/Kathmandu", "2026-06-15 17:45:00 Asia/Kathmandu"),
    ],
)
def test_a_clock_names_its_zone(zone: str, said: str) -> None:
    assert words.clock(NOON, zone) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 retries"), (1, "1 retry"), (2, "2 retries"), (1_234_567, "1,234,567 retries")]
)
def test_a_count_agrees_with_its_noun(number: int, said: str) -> None:
    assert words.count(number, "retry", "retries") == said


def test_most_nouns_take_an_s() -> None:
    assert (words.count(1, "job"), words.count(2, "job")) == ("1 job", "2 jobs")


def test_every_state_has_a_colour_of_its_own_choice() -> None:
    states = {*State, *Outcome, *JobState}
    states |= {ApiKey(expires_at=end, revoked_at=then).state(NOON) for end in (None, NOON) for then in (None, NOON)}
    assert {str(state) for state in states} - set(words.TONES) == set()
    assert set(words.TONES.values()) == {"ok", "bad", "warn", "run", "calm"}
    assert words.tone("of another release") == "calm"
