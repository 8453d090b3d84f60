"""Fires taken out of a skipped stretch: what is left is told, and no number is made up."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.misfires import COUNT_LIMIT, Skipped, passed_fires
from jobs.recurrence import Cron, Every, Recurrence
from jobs.stretches import Left, take_out

NOON = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
MINUTELY = Every(seconds=60, anchor=NOON)
INSTANT = timedelta(microseconds=1)


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


def minutes(first: int, last: int) -> list[datetime]:
    return [at(minute) for minute in range(first, last + 1)]


def stretch(first: int, last: int) -> Skipped:
    return Skipped(at(first), at(last), last - first + 1)


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        (minutes(4, 6), Left(stretch(0, 3), stretch(7, 9))),
        (minutes(0, 3), Left(None, stretch(4, 9))),
        (minutes(5, 9), Left(stretch(0, 4), None)),
        (minutes(0, 9), Left(None, None)),
        (minutes(1, 8), Left(stretch(0, 0), stretch(9, 9))),
        (minutes(0, 0), Left(None, stretch(1, 9))),
    ],
)
def test_what_is_before_and_after_the_gap_is_left_with_its_number(taken: list[datetime], left: Left) -> None:
    assert take_out(taken, stretch(0, 9), MINUTELY) == left


def test_a_stretch_of_one_fire_leaves_nothing() -> None:
    assert take_out([NOON], stretch(0, 0), MINUTELY) == Left(None, None)


@given(st.integers(0, 600), st.integers(0, 600), st.integers(0, 600))
def test_each_fire_is_taken_out_or_left_once(length: int, one: int, other: int) -> None:
    """Walked minute by minute, whatever is taken out of however long a stretch."""
    whole = passed_fires(MINUTELY, due_at=NOON, until=at(length))
    assert whole is not None
    first, last = sorted((one % (length + 1), other % (length + 1)))
    left = take_out(minutes(first, last), whole, MINUTELY)
    parts = [part for part in (left.before, left.after) if part]
    covered = [m for m in minutes(0, length) for part in parts if part.first <= m <= part.last]
    assert covered == minutes(0, first - 1) + minutes(last + 1, length)
    counts = [part.count for part in parts if part.count is not None]
    if whole.count is not None:
        assert sum(counts) + last - first + 1 == whole.count


def test_a_stretch_too_long_to_count_leaves_parts_of_which_the_short_ones_are_counted() -> None:
    whole = Skipped(NOON, at(2 * COUNT_LIMIT), None)
    left = take_out(minutes(10, 12), whole, MINUTELY)
    assert left == Left(stretch(0, 9), Skipped(at(13), at(2 * COUNT_LIMIT), None))


def test_a_stretch_as_long_as_the_planner_just_does_not_count_is_still_of_this_schedule() -> None:
    whole = Skipped(NOON, at(COUNT_LIMIT - 1), None)
    assert take_out(minutes(10, 12), whole, MINUTELY) == Left(stretch(0, 9), stretch(13, COUNT_LIMIT - 1))


@pytest.mark.parametrize(
    "recorded",
    [
        Skipped(at(0), at(59), 12),  # every five minutes, once
        Skipped(at(0), at(59.5), 60),  # its last is no fire of today's
        Skipped(at(0.5), at(59), 60),  # nor is its first
        Skipped(at(0), at(59), None),  # so many that nobody counted, and today's are few
    ],
)
def test_of_a_stretch_of_another_schedule_all_but_the_gap_is_left_and_not_counted(recorded: Skipped) -> None:
    assert take_out(minutes(20, 30), recorded, MINUTELY) == Left(
        Skipped(recorded.first, at(20) - INSTANT, None), Skipped(at(30) + INSTANT, recorded.last, None)
    )


def test_what_is_left_of_another_schedule_can_be_parted_again() -> None:
    left = take_out(minutes(20, 30), Skipped(at(0.5), at(59.5), 60), MINUTELY)
    assert left.after is not None
    again = take_out(minutes(40, 41), left.after, MINUTELY)
    assert again.before == Skipped(at(30) + INSTANT, at(40) - INSTANT, None)
    assert again.after == Skipped(at(41) + INSTANT, at(59.5), None)


def test_a_very_long_stretch_is_not_walked_fire_by_fire() -> None:
    calls = 0

    class Counted:
        def next_after(self, moment: datetime) -> datetime | None:
            nonlocal calls
            calls += 1
            return secondly.next_after(moment)

    secondly: Recurrence = Cron("* * * * * *")
    whole = Skipped(NOON, NOON + timedelta(days=3650), None)
    middle = NOON + timedelta(days=1825)
    left = take_out([middle], whole, Counted())
    assert left.before == Skipped(NOON, middle - timedelta(seconds=1), None)
    assert left.after == Skipped(middle + timedelta(seconds=1), whole.last, None)
    assert calls < 5 * COUNT_LIMIT
