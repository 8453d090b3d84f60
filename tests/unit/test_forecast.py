"""How many fires the next day brings: compared with the fires themselves, near clock changes and far from them."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from time import process_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from jobs.forecast import SLOT, SLOTS, SPAN, Share, fires, in_step, slot_of, total
from jobs.recurrence import Cron, Every, Once, Within
from jobs.upcoming import upcoming
from tests.unit import cron_oracle
from tests.unit.fire_times import utc
from tests.unit.test_recurrence_properties import (
    EXPRESSIONS,
    KEYS,
    NEAR,
    PLACES_AND_MOMENTS,
    made,
    repeatable,
    thorough,
)

DAY, MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
MOST = 300  # fires that are walked


def walked(recurrence: Cron | Every | Once | Within, *, since: datetime, left: int | None = None) -> dict[int, int]:
    """The same, one fire after the other, unless there are too many to walk."""
    start = slot_of(since)
    found = upcoming(recurrence, after=since.astimezone(UTC) - MICROSECOND, count=MOST if left is None else left)
    assume(left is not None or len(found) < MOST or found[-1] >= start + SPAN)
    return Counter((fire - start) // SLOT for fire in found if fire < start + SPAN)


def by_oracle(expression: str, zone: str, since: datetime, key: str = "") -> dict[int, int]:
    start = slot_of(since)
    found = cron_oracle.fires(expression, zone, since - MICROSECOND, start + SPAN, key)
    return Counter((fire - start) // SLOT for fire in found)


def counted(recurrence: Cron | Every | Once | Within, since: datetime, left: int | None = None) -> dict[int, int]:
    return fires(recurrence, start=slot_of(since), since=since, left=left)


# ── Cron ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@thorough
@given(EXPRESSIONS, KEYS, PLACES_AND_MOMENTS, st.integers(-86_400, 3600))
@example("30 2 * * *", "", ("Europe/Berlin", utc("2027-03-28 00:59:59")), 0)
@example("0,30 2,3 * * *", "", ("Europe/Berlin", utc("2027-03-28 00:59:59")), -3600)
@example("0-59 1-3 * * *", "", ("Europe/Berlin", utc("2026-10-25 01:30:00")), 0)
@example("*/7 * * * *", "", ("Australia/Lord_Howe", utc("2027-04-03 15:00")), -600)
@example("0 9 * * *", "", ("Pacific/Apia", utc("2011-12-30 09:59:59")), 0)
@example("15,45 10-20 * * *", "", ("Asia/Kathmandu", utc("2026-06-15 12:00")), 0)
def test_the_counts_of_a_cron_are_those_of_its_fires(
    expression: str, key: str, place_and_moment: tuple[str, datetime], later: int
) -> None:
    zone, moment = place_and_moment
    since = moment.astimezone(UTC) + timedelta(seconds=later)
    cron = made(expression, zone, key)
    assert counted(cron, since) == by_oracle(expression, zone, since, key)


@repeatable
@given(EXPRESSIONS, KEYS, PLACES_AND_MOMENTS)
def test_the_counts_of_a_cron_are_those_of_its_upcoming_fires(
    expression: str, key: str, place_and_moment: tuple[str, datetime]
) -> None:
    zone, since = place_and_moment
    cron = made(expression, zone, key)
    assert counted(cron, since) == walked(cron, since=since)


@pytest.mark.parametrize(
    ("expression", "zone", "since"),
    [
        ("* * * * * *", "UTC", "2026-06-15 12:03:04.5"),
        ("*/7 * * * * *", "Europe/Berlin", "2027-03-27 12:07"),
        ("*/7 * * * * *", "Europe/Berlin", "2026-10-24 12:07"),
        ("*/5 0-59 0-23 * * *", "Europe/Berlin", "2027-03-27 12:07"),
        ("*/5 0-59 0-23 * * *", "Europe/Berlin", "2026-10-24 12:07"),
        ("*/5 0-59 0-23 * * *", "Australia/Lord_Howe", "2026-10-03 01:01"),
        ("* * 9-17 * * mon-fri", "Asia/Kathmandu", "2026-06-14 20:00"),
    ],
)
def test_what_is_too_dense_to_be_walked_is_counted_as_an_oracle_does(expression: str, zone: str, since: str) -> None:
    moment = utc(since)
    expected = by_oracle(expression, zone, moment)
    assert counted(Cron(expression, zone), moment) == expected
    assert sum(expected.values()) > 5000


def test_a_dense_cron_costs_no_more_than_a_few_milliseconds(noon: datetime) -> None:
    """It would take seconds to walk its fires."""
    dense = Cron("* * * * * *", "Europe/Berlin")
    begin = process_time()
    for _ in range(10):
        assert sum(counted(dense, noon).values()) == 86_400
    assert process_time() - begin < 0.5


# ── Intervals ────────────────────────────────────────────────────────────────────────────────────────────────────

SECONDS = st.one_of(
    st.integers(30, 700), st.sampled_from([60, 420, 600, 1200, 3600, 7200, 86_400, 100_000]), st.integers(600, 200_000)
)
FRACTIONS = st.integers(0, 999_999).map(lambda count: count * MICROSECOND)


@repeatable
@given(SECONDS, PLACES_AND_MOMENTS, FRACTIONS, st.integers(-400_000, 400_000))
def test_the_counts_of_an_interval_are_those_of_its_fires(
    seconds: int, place_and_moment: tuple[str, datetime], fraction: timedelta, later: int
) -> None:
    every = Every(seconds, place_and_moment[1] + fraction)
    since = (place_and_moment[1].astimezone(UTC) + timedelta(seconds=later)).astimezone(ZoneInfo(place_and_moment[0]))
    assert counted(every, since) == walked(every, since=since)


def test_an_interval_of_a_second_is_counted_without_being_walked(noon: datetime) -> None:
    counts = counted(Every(1, noon), noon + timedelta(minutes=4, microseconds=1))
    assert counts == {0: 359, **dict.fromkeys(range(1, SLOTS), 600)}


@repeatable
@given(SECONDS, PLACES_AND_MOMENTS, FRACTIONS, st.integers(-400_000, 400_000))
def test_an_interval_that_is_put_in_step_with_others_keeps_its_counts(
    seconds: int, place_and_moment: tuple[str, datetime], fraction: timedelta, later: int
) -> None:
    every = Every(seconds, place_and_moment[1] + fraction)
    since = (place_and_moment[1].astimezone(UTC) + timedelta(seconds=later)).astimezone(ZoneInfo(place_and_moment[0]))
    start, first = slot_of(since), in_step(every, since)
    assert fires(Every(seconds, first), start=start, since=first) == fires(every, start=start, since=since)


def test_intervals_that_bring_the_same_counts_get_in_step(noon: datetime) -> None:
    hourly = [Every(3600, noon + timedelta(seconds=second, microseconds=7)) for second in range(3600)]
    assert len({in_step(every, noon) for every in hourly}) == 6


# ── Bounds, and what is left ─────────────────────────────────────────────────────────────────────────────────────

PATTERNS = st.sampled_from(["*/20 * * * *", "30 1,2 * * *", "*/30 0-5 2 * * *", "every", "once"])


@thorough
@given(
    PATTERNS,
    PLACES_AND_MOMENTS,
    st.none() | NEAR,
    st.none() | st.integers(0, 100_000),
    NEAR,
    st.none() | st.integers(0, 300),
)
def test_bounds_and_the_fires_that_are_left_are_kept(
    pattern: str,
    place_and_moment: tuple[str, datetime],
    start_in: int | None,
    length: int | None,
    since_in: int,
    left: int | None,
) -> None:
    zone, moment = place_and_moment
    instant = moment.astimezone(UTC)
    makers = {"every": lambda: Every(1234, moment), "once": lambda: Once(moment)}
    bounded = makers.get(pattern, lambda: Cron(pattern, zone))()
    bound = None if start_in is None else instant + timedelta(seconds=start_in)
    end = None if length is None else (bound or instant) + timedelta(seconds=length)
    recurrence = Within(bounded, bound, end)
    since = instant + timedelta(seconds=since_in)
    assert counted(recurrence, since, left) == walked(recurrence, since=since, left=left)


def test_both_bounds_are_included(noon: datetime) -> None:
    within = Within(Every(60, noon), noon + timedelta(minutes=1), noon + timedelta(minutes=3))
    assert counted(within, noon) == {0: 3}


def test_one_instant_fires_if_it_is_still_to_come_and_within_the_day(noon: datetime) -> None:
    for at, expected in ((noon, {0: 1}), (noon + DAY - MICROSECOND, {143: 1}), (noon + DAY, {}), (noon - SLOT, {})):
        assert counted(Once(at), noon) == expected


# ── Together ─────────────────────────────────────────────────────────────────────────────────────────────────────


def summed(*shares: Share, start: datetime) -> dict[int, float]:
    counts = total(shares, start=start)
    assert len(counts) == SLOTS
    return {slot: count for slot, count in enumerate(counts) if count}


def test_shares_count_for_each_of_their_jobs(noon: datetime) -> None:
    shares = [Share(Once(noon + SLOT), noon, jobs=10), Share(Cron("0,10 12 * * *"), noon, jobs=3)]
    assert summed(*shares, start=noon) == {0: 3, 1: 13}
    assert summed(start=noon) == {}


def test_what_is_left_is_left_to_each_job(noon: datetime) -> None:
    assert summed(Share(Every(60, noon), noon, jobs=5, left=12), start=noon) == {0: 50, 1: 10}


def test_jitter_spreads_fires_over_the_time_after_them(noon: datetime) -> None:
    at_one = Cron("0 13 * * *")
    assert summed(Share(at_one, noon, jobs=30, jitter_seconds=1500), start=noon) == {6: 12, 7: 12, 8: 6}
    assert summed(Share(at_one, noon, jobs=30, jitter_seconds=60), start=noon) == {6: 30}
    late = Share(Once(noon + DAY - SLOT), noon, jobs=30, jitter_seconds=1200)
    assert summed(late, start=noon) == {143: 15}


def test_slots_begin_at_whole_ten_minutes_of_utc(noon: datetime) -> None:
    assert slot_of(noon) == noon
    assert slot_of(noon + SLOT - MICROSECOND) == noon
    assert slot_of(noon + SLOT) == noon + SLOT
    assert slot_of(noon.astimezone(ZoneInfo("Asia/Kathmandu"))).utcoffset() == timedelta()
