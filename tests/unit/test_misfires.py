"""Fires whose time has passed: late within the grace, the latest alone beyond it."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs import misfires
from jobs.misfires import COUNT_LIMIT, FirePlan, Skipped, plan_fires
from jobs.recurrence import Cron, Every, Once, Recurrence

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def plan(
    recurrence: Recurrence, *, due_at: datetime, now: datetime, look_ahead: timedelta = 5 * SECOND, limit: int = 1000
) -> FirePlan:
    return plan_fires(recurrence, due_at=due_at, now=now, horizon=now + look_ahead, grace=MINUTE, limit=limit)


@pytest.fixture
def every_ten_seconds(noon: datetime) -> Every:
    return Every(seconds=10, anchor=noon)


def at(noon: datetime, *seconds: int) -> tuple[datetime, ...]:
    return tuple(noon + n * SECOND for n in seconds)


def test_a_fire_that_is_due_is_planned_and_the_next_is_told(every_ten_seconds: Every, noon: datetime) -> None:
    assert plan(every_ten_seconds, due_at=noon, now=noon) == FirePlan(at(noon, 0), None, noon + 10 * SECOND)


def test_a_fire_within_the_look_ahead_is_planned_up_to_its_last_instant(
    every_ten_seconds: Every, noon: datetime
) -> None:
    assert plan(every_ten_seconds, due_at=noon, now=noon - 5 * SECOND).fire_times == at(noon, 0)
    assert plan(every_ten_seconds, due_at=noon, now=noon, look_ahead=25 * SECOND).fire_times == at(noon, 0, 10, 20)


def test_a_fire_beyond_the_look_ahead_waits(every_ten_seconds: Every, noon: datetime) -> None:
    assert plan(every_ten_seconds, due_at=noon, now=noon - 6 * SECOND) == FirePlan((), None, noon)


@pytest.mark.parametrize("late_by", [1, 30, 60])
def test_within_the_grace_all_fires_run_late(every_ten_seconds: Every, noon: datetime, late_by: int) -> None:
    planned = plan(every_ten_seconds, due_at=noon, now=noon + late_by * SECOND, look_ahead=0 * SECOND)
    assert planned.fire_times == at(noon, *range(0, late_by + 1, 10))
    assert planned.skipped is None


def test_a_single_fire_beyond_the_grace_still_runs(noon: datetime) -> None:
    planned = plan(Cron("0 12 * * *"), due_at=noon, now=noon + 5 * MINUTE)
    assert planned == FirePlan((noon,), None, noon + timedelta(days=1))


def test_beyond_the_grace_the_latest_runs_and_the_others_are_one_skipped_stretch(
    every_ten_seconds: Every, noon: datetime
) -> None:
    # At 12:05:05 the grace reaches back to 12:04:05. Of the 25 fires from 12:00:00 to 12:04:00 the last one runs.
    planned = plan(every_ten_seconds, due_at=noon, now=noon + 305 * SECOND, look_ahead=0 * SECOND)
    assert planned.skipped == Skipped(first=noon, last=noon + 230 * SECOND, count=24)
    assert planned.fire_times == at(noon, 240, 250, 260, 270, 280, 290, 300)
    assert planned.next_fire_at == noon + 310 * SECOND


def test_a_fire_exactly_as_old_as_the_grace_is_within_it_and_does_not_stand_for_the_older_ones(noon: datetime) -> None:
    # At 12:05 the grace reaches back to 12:04, and 12:04 is within it: of 12:00 to 12:03 the last one runs.
    minutely = Every(seconds=60, anchor=noon)
    planned = plan(minutely, due_at=noon, now=noon + 5 * MINUTE, look_ahead=0 * SECOND)
    assert planned.skipped == Skipped(first=noon, last=noon + 2 * MINUTE, count=3)
    assert planned.fire_times == at(noon, 180, 240, 300)
    assert planned.next_fire_at == noon + 6 * MINUTE


def test_the_only_fire_older_than_the_grace_runs_beside_one_exactly_as_old_as_it(noon: datetime) -> None:
    minutely = Every(seconds=60, anchor=noon)
    planned = plan(minutely, due_at=noon, now=noon + 2 * MINUTE, look_ahead=0 * SECOND)
    assert planned == FirePlan(at(noon, 0, 60, 120), None, noon + 3 * MINUTE)


def test_after_a_stretch_too_long_to_count_a_fire_exactly_as_old_as_the_grace_is_within_it(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misfires, "COUNT_LIMIT", 20)
    planned = plan(Every(seconds=60, anchor=noon), due_at=noon, now=noon + 100 * MINUTE, look_ahead=0 * SECOND)
    assert planned.skipped == Skipped(first=noon, last=noon + 97 * MINUTE, count=None)
    assert planned.fire_times == tuple(noon + n * MINUTE for n in (98, 99, 100))


def test_two_fires_beyond_the_grace_are_one_run_and_one_skipped(noon: datetime) -> None:
    planned = plan(Cron("0 * * * *"), due_at=noon, now=noon + 90 * MINUTE)
    assert planned == FirePlan((noon + 60 * MINUTE,), Skipped(noon, noon, 1), noon + 120 * MINUTE)


def test_every_fire_is_planned_skipped_or_still_to_come(noon: datetime) -> None:
    recurrence = Cron("*/7 * * * *", "Europe/Berlin")
    first = recurrence.next_after(noon)
    planned = plan(recurrence, due_at=first, now=noon + timedelta(hours=30))
    assert planned.skipped is not None
    told = planned.skipped.count + len(planned.fire_times)
    walked, fire = 0, first
    while fire != planned.next_fire_at:
        walked, fire = walked + 1, recurrence.next_after(fire)
    assert told == walked


@pytest.mark.parametrize(("fires_before", "count"), [(COUNT_LIMIT - 1, COUNT_LIMIT - 1), (COUNT_LIMIT + 1, None)])
def test_a_long_stretch_is_counted_up_to_the_limit_only(
    every_ten_seconds: Every, noon: datetime, fires_before: int, count: int | None
) -> None:
    latest = noon + fires_before * 10 * SECOND
    planned = plan(every_ten_seconds, due_at=noon, now=latest + MINUTE + SECOND, look_ahead=0 * SECOND)
    assert planned.skipped == Skipped(first=noon, last=latest - 10 * SECOND, count=count)
    assert planned.fire_times[0] == latest


def test_weeks_of_seconds_are_not_counted_and_their_ends_are_exact(noon: datetime) -> None:
    now = noon + timedelta(weeks=6) + timedelta(milliseconds=500)
    planned = plan(Every(seconds=1, anchor=noon), due_at=noon, now=now)
    latest = noon + timedelta(weeks=6) - MINUTE
    assert planned.skipped == Skipped(first=noon, last=latest - SECOND, count=None)
    assert planned.fire_times[0] == latest
    assert planned.fire_times[-1] == noon + timedelta(weeks=6) + 5 * SECOND
    assert planned.next_fire_at == planned.fire_times[-1] + SECOND


@pytest.mark.parametrize(
    ("expression", "now", "last", "latest"),
    [
        ("*/10 * * * *", "2026-06-29 12:05", "2026-06-29 11:50", "2026-06-29 12:00"),
        ("* 14 * * *", "2026-06-18 09:00", "2026-06-17 14:58", "2026-06-17 14:59"),  # a dense hour, then nothing
        ("*/3 12 15 6 *", "2032-01-01 00:00", "2031-06-15 12:54", "2031-06-15 12:57"),  # years without a fire
    ],
)
def test_a_cron_with_too_many_fires_to_count_has_exact_ends(
    expression: str, now: str, last: str, latest: str, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misfires, "COUNT_LIMIT", 20)
    recurrence = Cron(expression)
    due_at = recurrence.next_after(noon)
    planned = plan(recurrence, due_at=due_at, now=datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert planned.skipped == Skipped(due_at, datetime.fromisoformat(last).replace(tzinfo=UTC), None)
    assert planned.fire_times == (datetime.fromisoformat(latest).replace(tzinfo=UTC),)


def test_the_limit_is_respected_and_the_next_fire_is_the_first_that_was_not_planned(
    every_ten_seconds: Every, noon: datetime
) -> None:
    planned = plan(every_ten_seconds, due_at=noon, now=noon + 50 * SECOND, limit=2)
    assert planned == FirePlan(at(noon, 0, 10), None, noon + 20 * SECOND)


def test_the_limit_holds_after_a_skipped_stretch_too(every_ten_seconds: Every, noon: datetime) -> None:
    planned = plan(every_ten_seconds, due_at=noon, now=noon + 305 * SECOND, limit=2)
    assert planned.skipped == Skipped(noon, noon + 230 * SECOND, 24)
    assert planned.fire_times == at(noon, 240, 250)
    assert planned.next_fire_at == noon + 260 * SECOND


@pytest.mark.parametrize("late_by", [timedelta(0), MINUTE, timedelta(days=400)])
def test_once_fires_however_late_and_then_never_again(noon: datetime, late_by: timedelta) -> None:
    assert plan(Once(noon), due_at=noon, now=noon + late_by) == FirePlan((noon,), None, None)
