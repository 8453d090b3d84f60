"""Jitter: within its bounds, spread out, and always the same for the same fire."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.jitter import MOST_JITTER_SECONDS, jitter_of
from jobs.wording import later_in_words

NOON = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(9900, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001


@given(key=st.text(max_size=20), fire_time=MOMENTS, seconds=st.integers(0, MOST_JITTER_SECONDS))
def test_it_is_at_least_nothing_and_less_than_the_most_in_whole_milliseconds(
    key: str, fire_time: datetime, seconds: int
) -> None:
    jitter = jitter_of(key, fire_time, seconds=seconds)
    assert timedelta(0) <= jitter < max(timedelta(seconds=seconds), MILLISECOND)
    assert jitter % MILLISECOND == timedelta(0)


@pytest.mark.parametrize(
    ("key", "fire_time", "seconds", "milliseconds"),
    [
        ("report", NOON, 30, 2_466),
        ("report", NOON, 86_400, 10_142_466),
        ("report", NOON + timedelta(days=1), 30, 26_550),
    ],
)
def test_it_is_the_same_on_every_machine_and_in_every_release(
    key: str, fire_time: datetime, seconds: int, milliseconds: int
) -> None:
    assert jitter_of(key, fire_time, seconds=seconds) == milliseconds * MILLISECOND


def test_it_does_not_depend_on_the_zone_in_which_the_instant_is_written() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert jitter_of("report", elsewhere, seconds=3600) == jitter_of("report", NOON, seconds=3600)


@pytest.mark.parametrize("of", ["jobs", "days"])
def test_many_jobs_at_one_instant_and_many_fires_of_one_job_spread_out_evenly(of: str) -> None:
    if of == "jobs":
        found = [jitter_of(f"job-{n}", NOON, seconds=60) for n in range(6000)]
    else:
        found = [jitter_of("report", NOON + timedelta(days=n), seconds=60) for n in range(6000)]
    in_each_second = [0] * 60
    for jitter in found:
        in_each_second[jitter // timedelta(seconds=1)] += 1
    assert 60 < min(in_each_second) <= max(in_each_second) < 140  # a hundred each, give or take four deviations


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "up to a second later"),
        (30, "up to 30 seconds later"),
        (60, "up to a minute later"),
        (90, "up to 90 seconds later"),
        (600, "up to 10 minutes later"),
        (3600, "up to an hour later"),
        (86_400, "up to 24 hours later"),
    ],
)
def test_it_is_told_in_words(seconds: int, words: str) -> None:
    assert later_in_words(seconds) == words
