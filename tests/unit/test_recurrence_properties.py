"""What must hold for every schedule, zone and moment, tried on thousands of them.

The moments lie near clock changes. Fires are compared with an oracle that walks the zone's real wall clock.
"""

import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given, reject, settings
from hypothesis import strategies as st

from jobs import recurrence
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidSchedule
from tests.unit import cron_oracle
from tests.unit.clock_changes import CHANGES
from tests.unit.cron_oracle import MONTH_NAMES, WEEKDAY_NAMES
from tests.unit.fire_times import utc

DAY = timedelta(days=1)
HORIZON = 400 * DAY  # how far the oracle looks

# The same examples on every run: a failure here is a bug, never bad luck.
repeatable = settings(max_examples=150)
thorough = settings(repeatable, max_examples=500)

# ── Random expressions, zones and moments ────────────────────────────────────────────────────────────────────────


@st.composite
def items(draw: st.DrawFn, low: int, high: int, names: tuple[str, ...] = (), special: tuple[str, ...] = ()) -> str:
    def value() -> str:
        number = draw(st.integers(low, high))
        return draw(st.sampled_from([str(number), names[number - low]])) if names else str(number)

    kind = draw(st.sampled_from(["value", "value", "range", "stepped_range", "step", "from", "star", "hash", *special]))
    if kind == "value":
        return value()
    if kind == "range":
        return f"{value()}-{value()}"
    if kind == "stepped_range":
        first, length = draw(st.integers(low, high)), draw(st.integers(2, high - low + 1))
        last = low + (first - low + length - 1) % (high - low + 1)
        return f"{first}-{last}/{draw(st.integers(1, length - 1))}"
    if kind == "step":
        return f"{draw(st.sampled_from(['*', 'H']))}/{draw(st.integers(1, (28 if high == 31 else high) - low))}"
    if kind == "from":
        first = draw(st.integers(low, high - 2))
        return f"{first}/{draw(st.integers(1, high - first))}"
    if kind == "hash":
        first = draw(st.integers(low, high))
        return draw(st.sampled_from(["H", f"h({first}-{draw(st.integers(first, high))})"]))
    if kind == "nth":
        return f"{value()}#{draw(st.integers(1, 5))}"
    return {"star": "*", "last": "L", "any": "?", "last_weekday": f"{value()}L", "weekday_last": f"L{value()}"}[kind]


def fields(low: int, high: int, names: tuple[str, ...] = (), special: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    listed = st.lists(items(low, high, names, special), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), listed)


SECONDS, HOURS = fields(0, 59), fields(0, 23)
MINUTES = st.one_of(st.sampled_from(["0", "0", "*", "30", "*/30", "0,59"]), fields(0, 59))
NIGHT_HOURS = st.sampled_from(["0", "1", "2", "3", "23", "0-3", "1,2", "22-2", "*/2", "*", "H(0-3)"])
DAYS = fields(1, 31, (), ("last", "any"))
WEEKDAYS = fields(0, 6, WEEKDAY_NAMES, ("nth", "last_weekday", "weekday_last", "any"))
EXPRESSIONS = st.tuples(
    st.one_of(st.just(""), st.just(""), SECONDS),
    MINUTES,
    st.one_of(NIGHT_HOURS, HOURS),
    st.one_of(st.just("*"), DAYS),
    st.one_of(st.just("*"), fields(1, 12, MONTH_NAMES)),
    st.one_of(st.just("*"), WEEKDAYS),
).map(lambda texts: " ".join(texts).strip())
KEYS = st.sampled_from(["", "nightly-report", "billing"])

NEAR = st.one_of(
    st.sampled_from([-3601, -3600, -1800, -60, -30, -1, 0, 1, 60, 1799, 1800, 3599, 3600]),
    st.integers(-7200, 7200),
    st.integers(-200_000, 200_000),
)
MICROSECONDS = st.sampled_from([0, 0, 1, 500_000, 999_999])


@st.composite
def places_and_moments(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and a moment near one of its clock changes, told in a zone of its own."""
    zone, change = draw(st.sampled_from(CHANGES))
    moment = utc(change) + timedelta(seconds=draw(NEAR), microseconds=draw(MICROSECONDS))
    return zone, moment.astimezone(draw(st.sampled_from([UTC, ZoneInfo(zone), ZoneInfo("Asia/Tokyo")])))


PLACES_AND_MOMENTS = places_and_moments()


def made(expression: str, zone: str, key: str) -> Cron:
    """A Cron that remembers nothing. What is refused is a date that never comes."""
    recurrence._walk.cache_clear()
    try:
        return Cron(expression, zone, key)
    except InvalidSchedule:
        pattern, day = cron_oracle.Pattern(expression, key), utc("2024-01-01 00:00").date()
        assert not any(pattern.matches_date(day + n * DAY) for n in range(366))
        reject()


# ── Cron ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@thorough
@given(EXPRESSIONS, KEYS, PLACES_AND_MOMENTS)
@example("30 2 * * *", "", ("Europe/Berlin", utc("2027-03-28 00:59:59")))
@example("*/10 0-59 2 * * *", "", ("Europe/Berlin", utc("2026-10-25 01:00:00")))
@example("0 9 * * *", "", ("Pacific/Apia", utc("2011-12-30 09:59:59")))
def test_the_next_fire_is_the_oracles(expression: str, key: str, place_and_moment: tuple[str, datetime]) -> None:
    zone, moment = place_and_moment
    following = made(expression, zone, key).next_after(moment)
    end = moment.astimezone(UTC) + HORIZON
    expected = next(cron_oracle.fires(expression, zone, moment.astimezone(UTC), end, key), None)
    if expected is None:
        assert following is None or following >= end
    else:
        assert following == expected
    assert following is None or is_right(expression, key, zone, following)


def is_right(expression: str, key: str, zone: str, fire: datetime) -> bool:
    """Whether the clocks show a time that matches, or come out of a gap."""
    pattern = cron_oracle.Pattern(expression, key)
    before, wall = (
        instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for instant in (fire - timedelta(seconds=1), fire)
    )
    is_after_gap = wall - before > timedelta(seconds=1)
    is_match = pattern.matches_minute(wall) and wall.second in pattern.seconds
    return is_match or (is_after_gap and pattern.is_fixed_time)


@repeatable
@given(EXPRESSIONS, KEYS, PLACES_AND_MOMENTS, st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=5))
def test_between_a_question_and_its_answer_the_answer_stays_the_same(
    expression: str, key: str, place_and_moment: tuple[str, datetime], fractions: list[float]
) -> None:
    zone, moment = place_and_moment
    answer = made(expression, zone, key).next_after(moment)
    assume(answer is not None)
    assert answer is not None
    instant = moment.astimezone(UTC)
    for fraction in fractions:
        between = min(instant + fraction * (answer - instant), answer - timedelta.resolution)
        assert made(expression, zone, key).next_after(between) == answer
    assert made(expression, zone, key).next_after(answer - timedelta.resolution) == answer


@repeatable
@given(EXPRESSIONS, KEYS, PLACES_AND_MOMENTS, st.lists(NEAR, min_size=2, max_size=12))
def test_later_questions_have_later_answers_in_whatever_order_they_are_asked(
    expression: str, key: str, place_and_moment: tuple[str, datetime], seconds: list[int]
) -> None:
    zone, moment = place_and_moment
    cron = made(expression, zone, key)
    moments = [moment.astimezone(UTC) + timedelta(seconds=second) for second in seconds]
    answers = {moment: cron.next_after(moment) for moment in moments}
    assert answers == {moment: made(expression, zone, key).next_after(moment) for moment in moments}
    in_order = [answers[moment] or datetime.max.replace(tzinfo=UTC) for moment in sorted(moments)]
    assert in_order == sorted(in_order)


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Threads take turns after microseconds, not after the usual five milliseconds: longer than an answer takes."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.parametrize("expression", ["*/7 * * * *", "30 1,2 * * *", "0 0 L * 5#3", "*/20 * 1-3 * * *"])
def test_threads_that_ask_one_cron_get_the_answers_of_their_own_questions(
    expression: str, restless_threads: None
) -> None:
    moments = [utc("2026-10-24 18:00") + n * timedelta(minutes=7, seconds=13) for n in range(150)]
    expected = {moment: made(expression, "Europe/Berlin", "").next_after(moment) for moment in moments}
    shared = made(expression, "Europe/Berlin", "")

    def ask(seed: int) -> dict[datetime, datetime | None]:
        order = random.Random(seed).sample(moments, len(moments))
        return {moment: shared.next_after(moment) for moment in order}

    with ThreadPoolExecutor(8) as pool:
        assert all(answers == expected for answers in pool.map(ask, range(8)))


# ── Every ────────────────────────────────────────────────────────────────────────────────────────────────────────

INTERVALS = st.one_of(st.integers(1, 90), st.sampled_from([3600, 86_400, 604_800]), st.integers(1, 10 * 366 * 86_400))
ANCHORS = PLACES_AND_MOMENTS.map(lambda place_and_moment: place_and_moment[1])
YEARS = st.integers(-15 * 366 * 86_400, 60 * 366 * 86_400)


@repeatable
@given(INTERVALS, ANCHORS, PLACES_AND_MOMENTS, YEARS)
def test_an_interval_keeps_phase_over_years_and_clock_changes(
    seconds: int, anchor: datetime, place_and_moment: tuple[str, datetime], later: int
) -> None:
    every, step = Every(seconds, anchor), timedelta(seconds=seconds)
    for moment in (place_and_moment[1], place_and_moment[1].astimezone(UTC) + timedelta(seconds=later)):
        following, instant = every.next_after(moment), moment.astimezone(UTC)
        assert following is not None
        assert (following - anchor.astimezone(UTC)) % step == timedelta(0)
        assert following - step <= instant < following


@repeatable
@given(st.integers(60, 90_000), PLACES_AND_MOMENTS, st.integers(2, 60))
def test_an_interval_asked_from_fire_to_fire_never_drifts(
    seconds: int, place_and_moment: tuple[str, datetime], count: int
) -> None:
    zone, anchor = place_and_moment
    fire = anchor
    for _ in range(count):
        following = Every(seconds, anchor).next_after(fire.astimezone(ZoneInfo(zone)))
        assert following is not None
        fire = following
    assert fire == anchor.astimezone(UTC) + count * timedelta(seconds=seconds)


# ── Within ───────────────────────────────────────────────────────────────────────────────────────────────────────

MAKERS: list[Callable[[str, datetime], Cron | Every | Once]] = [
    lambda zone, _: Cron("*/20 * * * *", zone),
    lambda zone, _: Cron("30 1,2 * * *", zone),
    lambda _, moment: Every(1234, moment),
    lambda _, moment: Once(moment),
]


@repeatable
@given(
    st.sampled_from(MAKERS),
    PLACES_AND_MOMENTS,
    st.none() | NEAR,
    st.none() | st.integers(0, 300_000),
    NEAR,
    MICROSECONDS,
)
def test_what_is_within_never_leaves_its_bounds_and_leaves_nothing_out(
    maker: Callable[[str, datetime], Cron | Every | Once],
    place_and_moment: tuple[str, datetime],
    start_in: int | None,
    length: int | None,
    asked_in: int,
    microseconds: int,
) -> None:
    zone, moment = place_and_moment
    instant, local = moment.astimezone(UTC), ZoneInfo(zone)
    bounded = maker(zone, moment)
    start = None if start_in is None else (instant + timedelta(seconds=start_in)).astimezone(local)
    first = instant if start is None else start.astimezone(UTC)
    end = None if length is None else (first + timedelta(seconds=length)).astimezone(local)
    asked = (instant + timedelta(seconds=asked_in, microseconds=microseconds)).astimezone(local)
    found = Within(bounded, start, end).next_after(asked)

    previous, expected = asked.astimezone(UTC), bounded.next_after(asked)
    while expected is not None and start is not None and expected < start.astimezone(UTC):
        assert expected > previous
        previous, expected = expected, bounded.next_after(expected)
    if expected is not None and end is not None and expected > end.astimezone(UTC):
        expected = None
    assert found == expected
