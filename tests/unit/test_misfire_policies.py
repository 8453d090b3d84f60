"""The policy of a schedule: which of the fires older than the grace still run, and that none is forgotten."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from jobs import misfires
from jobs.misfires import COUNT_LIMIT, MOST_MISFIRES, FirePlan, Misfire, Skipped, plan_fires, why_skipped
from jobs.recurrence import Cron, Every, Once, Recurrence, Within
from tests.unit.fire_times import utc

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
NOON = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)


def plan(recurrence: Recurrence, *, due_at: datetime, now: datetime, limit: int = 10_000, **more: Any) -> FirePlan:
    return plan_fires(recurrence, due_at=due_at, now=now, horizon=now, limit=limit, **{"grace": MINUTE, **more})


# ── One look ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("policy", "first_run", "skipped"),
    [
        ({"misfire": Misfire.SKIP}, 10, Skipped(NOON, NOON + 9 * HOUR, 10)),
        ({"misfire": Misfire.FIRE_ONCE}, 9, Skipped(NOON, NOON + 8 * HOUR, 9)),
        ({}, 9, Skipped(NOON, NOON + 8 * HOUR, 9)),
        ({"misfire": Misfire.FIRE_ALL, "misfire_limit": 1}, 9, Skipped(NOON, NOON + 8 * HOUR, 9)),
        ({"misfire": Misfire.FIRE_ALL, "misfire_limit": 4}, 6, Skipped(NOON, NOON + 5 * HOUR, 6)),
        ({"misfire": Misfire.FIRE_ALL, "misfire_limit": 9}, 1, Skipped(NOON, NOON, 1)),
        ({"misfire": Misfire.FIRE_ALL, "misfire_limit": 10}, 0, None),
        ({"misfire": Misfire.FIRE_ALL}, 0, None),
    ],
    ids=str,
)
def test_of_ten_fires_older_than_the_grace_as_many_run_as_the_policy_says_and_the_late_one_always(
    policy: dict[str, Any], first_run: int, skipped: Skipped | None
) -> None:
    """From noon to 21:00 they are older; that of 22:00 is within the grace."""
    planned = plan(Every(3600, NOON), due_at=NOON, now=NOON + 10 * HOUR + 30 * SECOND, **policy)
    assert planned == FirePlan(tuple(NOON + n * HOUR for n in range(first_run, 11)), skipped, NOON + 11 * HOUR)


@pytest.mark.parametrize("misfire", Misfire)
def test_within_the_grace_all_fires_run_under_every_policy(misfire: Misfire) -> None:
    planned = plan(Every(10, NOON), due_at=NOON, now=NOON + MINUTE, misfire=misfire, misfire_limit=1)
    assert planned == FirePlan(tuple(NOON + n * SECOND for n in range(0, 70, 10)), None, NOON + 70 * SECOND)


@pytest.mark.parametrize(("misfire", "runs"), [(Misfire.SKIP, 0), (Misfire.FIRE_ONCE, 1), (Misfire.FIRE_ALL, 1)])
def test_without_a_grace_a_fire_is_late_at_once(misfire: Misfire, runs: int) -> None:
    now = NOON + timedelta(microseconds=1)
    planned = plan(Every(60, NOON), due_at=NOON, now=now, grace=timedelta(0), misfire=misfire)
    assert planned == FirePlan((NOON,) * runs, None if runs else Skipped(NOON, NOON, 1), NOON + MINUTE)
    assert plan(Every(60, NOON), due_at=NOON, now=NOON, grace=timedelta(0), misfire=misfire).fire_times == (NOON,)


def test_a_one_off_that_was_missed_never_runs_under_the_policy_to_skip() -> None:
    assert plan(Once(NOON), due_at=NOON, now=NOON + HOUR, misfire=Misfire.SKIP) == FirePlan(
        (), Skipped(NOON, NOON, 1), None
    )


@pytest.mark.parametrize(
    ("misfire", "first_run", "skipped"), [(Misfire.SKIP, 10, 10), (Misfire.FIRE_ONCE, 9, 9), (Misfire.FIRE_ALL, 7, 7)]
)
def test_what_is_skipped_does_not_count_towards_the_number_of_fires(
    misfire: Misfire, first_run: int, skipped: int
) -> None:
    now = NOON + 12 * HOUR + 30 * SECOND
    asked = {"misfire": misfire, "misfire_limit": 3, "grace": 2 * HOUR + MINUTE}
    planned = plan(Every(3600, NOON), due_at=NOON, now=now, left=2, **asked)
    assert planned.fire_times == (NOON + first_run * HOUR, NOON + (first_run + 1) * HOUR)
    assert planned.skipped == Skipped(NOON, NOON + (skipped - 1) * HOUR, skipped)
    assert planned.next_fire_at is None
    assert plan(Every(3600, NOON), due_at=NOON, now=now, left=9, **asked).next_fire_at == NOON + 13 * HOUR


@pytest.mark.parametrize(
    ("misfire", "limit", "remedy"),
    [
        (Misfire.SKIP, 100, "the policy is to skip them"),
        (Misfire.FIRE_ONCE, 100, "the latest fire runs instead"),
        (Misfire.FIRE_ALL, 1, "the latest fire runs instead"),
        (Misfire.FIRE_ALL, 100, "at most the latest 100 run"),
    ],
)
def test_the_reason_says_what_the_policy_is(misfire: Misfire, limit: int, remedy: str) -> None:
    assert why_skipped(misfire, limit) == f"misfire: no beat could plan these in time; {remedy}"


# ── Repeated looks ───────────────────────────────────────────────────────────────────────────────────────────────


def walked(recurrence: Recurrence, *, due_at: datetime, until: datetime) -> list[datetime]:
    fires, fire = [], due_at
    while fire <= until:
        fires.append(fire)
        following = recurrence.next_after(fire)
        if following is None:
            break
        fire = following
    return fires


RECURRENCES = st.one_of(
    st.integers(5, 4000).map(lambda seconds: Every(seconds, NOON - 1234 * timedelta(milliseconds=1))),
    st.sampled_from(["*/15 * * * * *", "*/7 * * * *", "30 2 * * *", "*/20 5-6 * * *", "0 3 * * 1", "15 H * * *"]).map(
        lambda expression: Cron(expression, "Europe/Berlin", "some-key")
    ),
    st.just(Once(NOON + HOUR)),
    st.just(Within(Every(60, NOON), end=NOON + 2 * HOUR)),
)
MOMENTS = st.sampled_from([NOON, utc("2026-03-28 12:00"), utc("2026-10-24 12:00")])  # before both clock changes


@examples(max_examples=150)
@given(
    recurrence=RECURRENCES,
    start=MOMENTS,
    outage=st.integers(0, 2000).map(lambda minutes: minutes * MINUTE) | st.integers(0, 900).map(lambda s: s * SECOND),
    grace=st.sampled_from([timedelta(0), 10 * SECOND, MINUTE, 10 * MINUTE]),
    misfire=st.sampled_from(Misfire),
    misfire_limit=st.integers(1, 12) | st.sampled_from([100, 250, 1000]),
    limit=st.integers(1, 30) | st.just(100),
    count_limit=st.sampled_from([3, 500]),
)
@example(Every(1, NOON), NOON, HOUR, MINUTE, Misfire.FIRE_ALL, 1000, 100, 500)
@example(Every(1, NOON), NOON, 2 * HOUR, timedelta(0), Misfire.FIRE_ALL, 250, 100, 500)
def test_repeated_looks_run_exactly_what_the_policy_says_and_every_fire_is_run_or_skipped(
    recurrence: Recurrence,
    start: datetime,
    outage: timedelta,
    grace: timedelta,
    misfire: Misfire,
    misfire_limit: int,
    limit: int,
    count_limit: int,
) -> None:
    due_at = recurrence.next_after(start)
    if due_at is None or due_at > start + outage:
        return
    now = start + outage
    expected = walked(recurrence, due_at=due_at, until=now)
    older = [fire for fire in expected if fire < now - grace]
    most = {Misfire.SKIP: 0, Misfire.FIRE_ONCE: 1, Misfire.FIRE_ALL: misfire_limit}[misfire]
    to_skip = older[: max(0, len(older) - most)]

    run: list[datetime] = []
    stretches: list[Skipped] = []
    next_fire_at: datetime | None = due_at
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(misfires, "COUNT_LIMIT", count_limit)
        while next_fire_at is not None and next_fire_at <= now:
            planned = plan(
                recurrence,
                due_at=next_fire_at,
                now=now,
                grace=grace,
                limit=limit,
                misfire=misfire,
                misfire_limit=misfire_limit,
            )
            assert planned.fire_times or planned.skipped
            run += planned.fire_times
            stretches += [planned.skipped] if planned.skipped else []
            next_fire_at = planned.next_fire_at

    assert run == expected[len(to_skip) :]
    assert len(stretches) == bool(to_skip)
    for stretch in stretches:
        assert (stretch.first, stretch.last) == (to_skip[0], to_skip[-1])
        assert stretch.count == (len(to_skip) if len(to_skip) <= count_limit else None)
    assert next_fire_at == recurrence.next_after(expected[-1])


@examples(max_examples=200)
@given(
    seconds=st.integers(1, 90),
    outage=st.integers(1, 20_000),
    pauses=st.lists(st.integers(0, 120), min_size=1, max_size=40),
    grace=st.sampled_from([0, 5, 60]),
    misfire=st.sampled_from(Misfire),
    misfire_limit=st.integers(1, 300),
    limit=st.integers(1, 100),
)
def test_while_time_goes_on_between_the_looks_no_fire_is_told_twice_or_forgotten(
    seconds: int, outage: int, pauses: list[int], grace: int, misfire: Misfire, misfire_limit: int, limit: int
) -> None:
    recurrence, now = Every(seconds, NOON), NOON + outage * SECOND
    told: list[tuple[datetime, datetime]] = []
    next_fire_at: datetime | None = NOON
    for pause in pauses:
        assert next_fire_at is not None
        planned = plan(
            recurrence,
            due_at=next_fire_at,
            now=now,
            grace=grace * SECOND,
            limit=limit,
            misfire=misfire,
            misfire_limit=misfire_limit,
        )
        told += [(planned.skipped.first, planned.skipped.last)] if planned.skipped else []
        told += [(fire, fire) for fire in planned.fire_times]
        next_fire_at, now = planned.next_fire_at, now + pause * SECOND
    assert not told or told[0][0] == NOON
    assert all(later[0] == recurrence.next_after(earlier[1]) for earlier, later in pairwise(told))
    assert next_fire_at == (recurrence.next_after(told[-1][1]) if told else NOON)


def test_what_one_look_could_not_plan_is_not_skipped_by_the_next_as_long_as_looks_are_faster_than_fires() -> None:
    """A fire a second, a look a second, a hundred fires a look: all the thousand are caught up with."""
    recurrence, now = Every(1, NOON), NOON + 10 * HOUR
    first = plan(recurrence, due_at=NOON, now=now, limit=100, misfire=Misfire.FIRE_ALL, misfire_limit=1000)
    assert first.skipped is not None
    planned, run = first, list(first.fire_times)
    while planned.next_fire_at is not None and planned.next_fire_at <= now:
        now += SECOND
        due_at = planned.next_fire_at
        planned = plan(recurrence, due_at=due_at, now=now, limit=100, misfire=Misfire.FIRE_ALL, misfire_limit=1000)
        assert planned.skipped is None
        run += planned.fire_times
    assert run[0] == NOON + 10 * HOUR - MINUTE - 1000 * SECOND
    assert run == walked(recurrence, due_at=run[0], until=now)


# ── What it costs ────────────────────────────────────────────────────────────────────────────────────────────────


class Counted:
    """A recurrence that counts how often it is asked."""

    def __init__(self, recurrence: Recurrence) -> None:
        self._recurrence = recurrence
        self.questions = 0

    def next_after(self, moment: datetime) -> datetime | None:
        self.questions += 1
        return self._recurrence.next_after(moment)


@pytest.mark.parametrize(
    ("misfire", "most", "questions"),
    [(Misfire.SKIP, 0, 600), (Misfire.FIRE_ONCE, 1, 650), (Misfire.FIRE_ALL, MOST_MISFIRES, 20 * MOST_MISFIRES)],
)
@pytest.mark.parametrize(
    ("expression", "now"),
    [
        ("* * * * * *", "2026-07-27 12:00:30"),  # six weeks of seconds
        ("* * * 1 1 *", "2031-12-01 00:00:30"),  # whole days of seconds, and then nothing for a year
        ("* 0 0 1 * *", "2029-06-14 00:00:30"),  # bursts of sixty, a month apart
    ],
)
def test_the_cost_does_not_grow_with_what_was_missed(
    expression: str, now: str, misfire: Misfire, most: int, questions: int
) -> None:
    recurrence = Counted(Cron(expression))
    due_at = Cron(expression).next_after(NOON)
    assert due_at is not None
    planned = plan(recurrence, due_at=due_at, now=utc(now), limit=5, misfire=misfire, misfire_limit=most)
    assert planned.skipped is not None
    assert COUNT_LIMIT < recurrence.questions <= questions
