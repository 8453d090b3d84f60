"""The misfire policies through the planner: after an outage every fire runs or stands in a row that says why not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from executions.models import Execution
from executions.states import State
from jobs import definitions
from jobs.misfires import Misfire
from jobs.models import Job, JobState, Schedule
from jobs.recurrence import Cron, Every, Once
from tests import rows
from tests.firing import plan
from tests.making import a_job, a_planner, claimed, every_minute, planned, seconds
from tests.rows import schedule_of

pytestmark = pytest.mark.django_db

SKIP, ONCE, ALL = Misfire.SKIP, Misfire.FIRE_ONCE, Misfire.FIRE_ALL
TO_SKIP = "misfire: no beat could plan these in time; the policy is to skip them"
THE_LATEST = "misfire: no beat could plan these in time; the latest fire runs instead"


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def run_times(job: Job) -> list[datetime]:
    return [row.fire_time for row in rows.of(job, state=State.SCHEDULED)]


def stretches(job: Job) -> list[tuple[Any, ...]]:
    return [
        (row.fire_time, row.skipped_until, row.skipped_count, row.reason) for row in rows.of(job, state=State.SKIPPED)
    ]


def catch_up(now: datetime) -> int:
    """Tick until nothing is left; how many ticks planned something."""
    ticks = 0
    while plan(now):
        ticks += 1
    return ticks


# ── An outage of four hours of a job that fires every minute ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("policy", "first_run", "reason"),
    [
        ({"misfire": SKIP}, 240, TO_SKIP),
        ({"misfire": ONCE}, 239, THE_LATEST),
        ({}, 239, THE_LATEST),
        (
            {"misfire": ALL, "misfire_limit": 30},
            210,
            "misfire: no beat could plan these in time; at most the latest 30 run",
        ),
        ({"misfire": ALL, "misfire_limit": 1}, 239, THE_LATEST),
        (
            {"misfire": ALL, "misfire_limit": 180},
            60,
            "misfire: no beat could plan these in time; at most the latest 180 run",
        ),
        ({"misfire": ALL, "misfire_limit": 500}, 1, None),
        ({"misfire": SKIP, "misfire_grace_seconds": 0}, 241, TO_SKIP),
        ({"misfire": ONCE, "misfire_grace_seconds": 0}, 240, THE_LATEST),
        ({"misfire": SKIP, "misfire_grace_seconds": 3600}, 181, TO_SKIP),
    ],
    ids=str,
)
def test_after_an_outage_the_latest_run_as_the_policy_says_and_the_others_are_one_row(
    policy: dict[str, Any], first_run: int, reason: str | None, noon: datetime
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), **policy)
    now = noon + minutes(240) + seconds(30)
    catch_up(now)
    assert run_times(job) == [noon + minutes(n) for n in range(first_run, 241)]
    skipped = first_run - 1
    assert stretches(job) == ([(noon + minutes(1), noon + minutes(skipped), skipped, reason)] if skipped else [])
    assert schedule_of(job).next_fire_at == noon + minutes(241)


def test_more_than_one_tick_can_plan_are_caught_up_with_by_the_next_ones(noon: datetime) -> None:
    """250 of them in portions of a hundred, while time goes on."""
    job = a_job(now=noon, schedule=Every(10, noon), misfire=ALL, misfire_limit=250)
    now, counts = noon + minutes(240), []
    while count := plan(now):
        counts.append(count)
        now += seconds(1)
    assert counts == [100, 100, 57]
    first = noon + minutes(239) - 250 * seconds(10)
    assert run_times(job) == [first + n * seconds(10) for n in range(257)]
    assert [row[:2] for row in stretches(job)] == [(noon + seconds(10), first - seconds(10))]


def test_schedules_with_different_policies_are_planned_together_each_with_its_own_reason(noon: datetime) -> None:
    jobs = {
        misfire: a_job(now=noon, schedule=every_minute(noon), misfire=misfire, misfire_limit=2) for misfire in Misfire
    }
    plan(noon + minutes(10) + seconds(30))
    assert [(len(run_times(job)), stretches(job)[0][2:]) for job in jobs.values()] == [
        (1, (9, TO_SKIP)),
        (2, (8, THE_LATEST)),
        (3, (7, "misfire: no beat could plan these in time; at most the latest 2 run")),
    ]


def test_rows_of_skipped_fires_cost_the_same_whatever_their_reasons(
    noon: datetime, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    planned(a_job(now=noon), noon)  # the month's partition is there from now on
    for misfire in (ONCE, ONCE, *Misfire):
        a_job(now=noon, schedule=every_minute(noon), misfire=misfire)
    one = a_planner()
    with django_assert_num_queries(8):  # as many as without any: fires and stretches are one statement
        one.plan_due(now=noon + minutes(10))
    assert Execution.objects.filter(state=State.SKIPPED).count() == 4


# ── With a number of fires ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("policy", "runs", "skipped", "left"),
    [
        ({"misfire": SKIP}, [60], 59, 2),
        ({"misfire": ONCE}, [59, 60], 58, 1),
        ({"misfire": ALL, "misfire_limit": 2}, [58, 59, 60], 57, 0),
        ({"misfire": ALL, "misfire_limit": 30}, [30, 31, 32], 29, 0),
        ({"misfire": ALL}, [1, 2, 3], 0, 0),
    ],
    ids=str,
)
def test_what_was_skipped_does_not_count_as_one_of_the_fires(
    policy: dict[str, Any], runs: list[int], skipped: int, left: int, noon: datetime
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), max_fires=3, **policy)
    catch_up(noon + minutes(60) + seconds(30))
    assert run_times(job) == [noon + minutes(n) for n in runs]
    assert [row[2] for row in stretches(job)] == ([skipped] if skipped else [])
    assert schedule_of(job).fires_left == left
    assert schedule_of(job).next_fire_at == (noon + minutes(61) if left else None)


def test_a_one_off_that_is_skipped_leaves_its_row_and_completes_its_job(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Once(noon + minutes(1)), misfire=SKIP)
    now = noon + minutes(10)
    assert plan(now) == 0
    assert stretches(job) == [(noon + minutes(1), noon + minutes(1), 1, TO_SKIP)]
    assert definitions.complete_ended(now) == 1
    assert Job.objects.get().state == JobState.COMPLETED


# ── Nights on which the clocks change ────────────────────────────────────────────────────────────────────────────


def berlin(text: str) -> datetime:
    """An instant of 2026, by its UTC time."""
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC)


# 02:30 does not exist on 29 March: it fires at 03:00, 01:00 UTC. On 25 October it comes twice, and the first counts.
SPRING = [berlin("03-28 01:30"), berlin("03-29 01:00"), berlin("03-30 00:30")]
AUTUMN = [berlin("10-24 00:30"), berlin("10-25 00:30"), berlin("10-26 01:30")]


@pytest.mark.parametrize(("misfire", "first_run"), [(SKIP, 3), (ONCE, 2), (ALL, 0)])
@pytest.mark.parametrize("fires", [SPRING, AUTUMN], ids=["spring", "autumn"])
def test_an_outage_over_the_night_of_a_clock_change(fires: list[datetime], misfire: Misfire, first_run: int) -> None:
    job = a_job(now=fires[0] - minutes(90), schedule=Cron("30 2 * * *", "Europe/Berlin"), misfire=misfire)
    plan(fires[-1] + minutes(90))
    assert run_times(job) == fires[first_run:]
    assert [row[:3] for row in stretches(job)] == ([(fires[0], fires[first_run - 1], first_run)] if first_run else [])
    assert schedule_of(job).next_fire_at == fires[-1] + timedelta(days=1)


@pytest.mark.parametrize("misfire", Misfire)
@pytest.mark.parametrize("fire", [SPRING[1], AUTUMN[1]], ids=["spring", "autumn"])
def test_a_short_outage_within_such_a_night_is_covered_by_the_grace(fire: datetime, misfire: Misfire) -> None:
    job = a_job(now=fire - minutes(90), schedule=Cron("30 2 * * *", "Europe/Berlin"), misfire=misfire)
    assert plan(fire + seconds(60)) == 1
    assert plan(fire + minutes(61)) == 0  # the other 02:30 of the autumn
    assert (run_times(job), stretches(job)) == ([fire], [])


# ── Edits ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "given",
    [{"misfire": SKIP}, {"misfire": ALL, "misfire_limit": 5}, {"misfire_limit": 5}, {"jitter_seconds": 20}],
    ids=str,
)
def test_an_edit_of_a_policy_keeps_the_next_fire_and_the_number_left(given: dict[str, Any], noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), max_fires=9)
    assert plan(noon + minutes(2)) == 2
    for row in rows.of(job):
        claimed(row, now=noon + minutes(2))
    definitions.change(job, version=1, now=noon + minutes(2) + seconds(10), **given)
    assert (schedule_of(job).next_fire_at, schedule_of(job).fires_left) == (noon + minutes(3), 7)


def test_fires_that_passed_before_an_edit_stay_passed_under_every_policy(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    now = noon + minutes(30) + seconds(10)
    definitions.change(job, version=1, misfire=ALL, now=now)
    assert plan(now) == 0
    assert [row[2:] for row in stretches(job)] == [
        (30, "misfire: no beat could plan these in time, and then the job was changed")
    ]


def test_a_schedule_added_again_has_the_policies_of_a_new_one(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), misfire=ALL, misfire_limit=5, jitter_seconds=9)
    definitions.change(job, version=1, schedule=None, now=noon)
    definitions.change(job, version=2, schedule=every_minute(noon), now=noon)
    schedule = schedule_of(job)
    assert (schedule.misfire, schedule.misfire_limit, schedule.jitter_seconds) == (ONCE, 100, 0)


def test_a_schedule_that_cannot_be_read_keeps_its_policies_when_it_is_replaced(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("* * * * *"), misfire=ALL, misfire_limit=5, jitter_seconds=9)
    Schedule.objects.update(timezone="Mars/Olympus")
    definitions.change(job, version=1, schedule=every_minute(noon), now=noon)
    schedule = schedule_of(job)
    assert (schedule.misfire, schedule.misfire_limit, schedule.jitter_seconds) == (ALL, 5, 9)
