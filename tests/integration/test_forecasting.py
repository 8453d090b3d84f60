"""The forecast: what the schedules and the executions that wait bring within a day."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from beat.upkeep import forecast as duty
from executions import lifecycle
from jobs import definitions, forecast, forecasting
from jobs.forecast import SLOT, SLOTS
from jobs.models import Job, Schedule, StoredForecast
from jobs.recurrence import Cron, Every, Once, Within
from tests.making import a_job, a_planner, asked_for, claimed, planned, seconds

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def counts(now: datetime) -> dict[int, int]:
    """By slot, without those in which nothing fires."""
    made = forecasting.make(now)
    assert len(made.counts) == SLOTS
    return {slot: count for slot, count in enumerate(made.counts) if count}


# ── Schedules ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_schedules_of_all_kinds_are_counted_in_their_ten_minutes(noon: datetime) -> None:
    schedules = [Cron("30 13 * * *"), Every(4 * 3600, noon), Once(noon + seconds(30)), Cron("0 0 1 1 *")]
    schedules += [Within(Every(3600, noon), start=noon + 2 * HOUR, end=noon + 3 * HOUR)]
    for schedule in schedules:
        a_job(now=noon, schedule=schedule)
    assert counts(noon) == {0: 1, 9: 1, 12: 1, 18: 1, **dict.fromkeys((24, 48, 72, 96, 120), 1)}


def test_the_start_is_that_of_ten_minutes_and_what_has_passed_in_them_does_not_count(noon: datetime) -> None:
    a_job(now=noon, schedule=Every(60, noon))
    now = noon + timedelta(minutes=14, seconds=30)
    made = forecasting.make(now)
    assert (made.start, made.made_at, made.is_estimate) == (noon + SLOT, now, False)
    assert made.counts == [5, *[10] * 143]


def test_jobs_that_are_paused_archived_or_without_a_schedule_do_not_count(noon: datetime) -> None:
    jobs = [a_job(now=noon, schedule=Cron("0 13 * * *")) for _ in range(3)]
    a_job(now=noon)
    assert counts(noon) == {6: 3}
    definitions.pause(jobs[0], reason="x", now=noon)
    definitions.archive(jobs[1], now=noon)
    assert counts(noon) == {6: 1}


def test_the_fires_that_are_left_are_as_many_as_there_may_be(noon: datetime) -> None:
    a_job(now=noon, schedule=Every(60, noon), max_fires=14)
    assert counts(noon) == {0: 9, 1: 5}
    a_planner().plan_due(now=noon + seconds(57))
    assert Schedule.objects.get().fires_left == 13
    assert counts(noon + seconds(57)) == {0: 9, 1: 5}


def test_jitter_spreads_what_fires_together(noon: datetime) -> None:
    for _ in range(6):
        a_job(now=noon, schedule=Cron("0 13 * * *"), jitter_seconds=1800)
    assert counts(noon) == {6: 2, 7: 2, 8: 2}


def test_what_is_planned_counts_once(noon: datetime) -> None:
    for schedule in (Every(60, noon), Cron("* * * * *"), Once(noon + seconds(62))):
        a_job(now=noon, schedule=schedule)
    before = counts(noon)
    assert a_planner().plan_due(now=noon + seconds(57)).fires == 3
    assert counts(noon + seconds(57)) == before


# ── Jobs that say the same ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What was computed, one by one."""
    asked: list[Any] = []
    usual = forecast.fires

    def noted(recurrence: Any, **more: Any) -> dict[int, int]:
        asked.append(recurrence)
        return usual(recurrence, **more)

    monkeypatch.setattr(forecast, "fires", noted)
    return asked


def test_jobs_with_the_same_cron_cost_one_computation(noon: datetime, computed: list[Any]) -> None:
    for _ in range(20):
        a_job(now=noon, schedule=Cron("0 13 * * thu,mon"))
    assert counts(noon) == {6: 20}
    assert len(computed) == 1


def test_an_h_is_computed_for_each_key(noon: datetime, computed: list[Any]) -> None:
    keys = [f"job-{number}" for number in range(20)]
    for key in keys:
        a_job(now=noon, key=key, schedule=Cron("H H * * *", key=key))
    found = counts(noon)
    assert len(computed) == 20
    fires = [Schedule.objects.get(job__key=key).next_fire_at for key in keys]
    assert sum(found.values()) == 20
    assert set(found) == {(fire - noon) // SLOT for fire in fires if fire}


def test_intervals_and_instants_that_bring_the_same_counts_cost_one_computation(
    noon: datetime, computed: list[Any]
) -> None:
    for number in range(10):
        a_job(now=noon, schedule=Every(3600, noon + seconds(number + 0.25)))
        a_job(now=noon, schedule=Once(noon + seconds(700 + number)))
    assert counts(noon) == dict.fromkeys([1, *range(0, SLOTS, 6)], 10)
    assert len(computed) == 2


def test_what_differs_in_bounds_zone_or_fires_left_is_computed_apart(noon: datetime, computed: list[Any]) -> None:
    cron = Cron("0 * * * *")
    a_job(now=noon, schedule=cron)
    a_job(now=noon, schedule=Cron("0 * * * *", "Asia/Kathmandu"))
    a_job(now=noon, schedule=Within(cron, end=noon + 2 * HOUR))
    a_job(now=noon, schedule=Within(cron, end=noon + 50 * HOUR))  # makes no difference
    a_job(now=noon, schedule=cron, max_fires=3)
    hourly = dict.fromkeys(range(6, SLOTS, 6), 2) | {6: 4, 12: 4, 18: 3}
    assert counts(noon) == hourly | dict.fromkeys(range(1, SLOTS, 6), 1)
    assert len(computed) == 4


# ── Too many to be exact ─────────────────────────────────────────────────────────────────────────────────────────


def many_crons(noon: datetime, count: int) -> None:
    """Schedules that all differ, spread over the day, and twenty jobs with the same."""
    jobs = Job.objects.bulk_create(
        Job(key=f"many-{number}", task="onbeat.echo", created_at=noon, changed_at=noon) for number in range(count + 20)
    )
    crons = [Cron(f"{number} {number * 7 % 60} {number % 24} * * *") for number in range(count)]
    crons += [Cron("0 15 * * *")] * 20
    Schedule.objects.bulk_create(
        Schedule(job=job, kind="CRON", expression=cron.expression, next_fire_at=cron.next_after(noon))
        for job, cron in zip(jobs, crons, strict=True)
    )


def test_of_too_many_schedules_some_stand_for_others_and_the_forecast_says_so(
    noon: datetime, monkeypatch: pytest.MonkeyPatch, computed: list[Any]
) -> None:
    many_crons(noon, 50)
    exact = forecasting.make(noon)
    assert not exact.is_estimate
    assert len(computed) == 51
    monkeypatch.setattr(forecasting, "MOST_EXACT", 20)
    computed.clear()
    estimate = forecasting.make(noon)
    assert estimate.is_estimate
    assert len(computed) == 20
    assert sum(estimate.counts) == pytest.approx(70, abs=6)
    assert estimate.counts[18] >= 20  # the most numerous are counted, not guessed
    quarters = [[sum(one.counts[begin : begin + 36]) for begin in range(0, SLOTS, 36)] for one in (exact, estimate)]
    assert quarters[1] == [pytest.approx(part, abs=6) for part in quarters[0]]


# ── Executions that wait ─────────────────────────────────────────────────────────────────────────────────────────


def test_delayed_runs_and_retries_count_when_their_time_comes(noon: datetime) -> None:
    job = a_job(now=noon)
    asked_for(job, 3, now=noon + HOUR)
    asked_for(job, 1, now=noon + timedelta(days=2))
    row = planned(job, noon)
    lifecycle.fail(claimed(row, now=noon), error="x", now=noon)
    row.refresh_from_db()
    assert noon < row.available_at < noon + SLOT
    assert counts(noon) == {0: 1, 6: 3}


def test_what_is_due_already_or_held_back_is_not_to_come(noon: datetime) -> None:
    job = a_job(now=noon, max_concurrency=1, overlap="QUEUE")
    planned(a_job(now=noon), noon)
    claimed(planned(job, noon - seconds(1)), now=noon)
    second = planned(job, noon)
    lifecycle.claim(second.pk, 1, worker="w", now=noon)
    second.refresh_from_db()
    assert second.is_waiting
    assert second.available_at > noon
    assert counts(noon) == {}


# ── Broken rows ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schedule", "broken"),
    [
        (Cron("0 13 * * *"), {"expression": "0 99 * * *"}),
        (Cron("0 13 * * *"), {"timezone": "Mars/Base"}),
        (Cron("0 13 * * *"), {"kind": "LUNAR"}),
        (Every(3600, datetime.fromisoformat("2026-06-15T12:00:00+00:00")), {"expression": "often"}),
        (Every(3600, datetime.fromisoformat("2026-06-15T12:00:00+00:00")), {"expression": "0"}),
        (Every(3600, datetime.fromisoformat("2026-06-15T12:00:00+00:00")), {"anchor_at": None}),
        (Once(datetime.fromisoformat("2026-06-15T13:00:00+00:00")), {"expression": "soon"}),
        (Once(datetime.fromisoformat("2026-06-15T13:00:00+00:00")), {"expression": "2026-06-15T13:00:00"}),
        (Cron("0 13 * * *"), {"end_at": datetime.fromisoformat("2026-06-15T12:00:00+00:00")}),
    ],
    ids=str,
)
def test_a_schedule_that_nobody_can_read_counts_for_nothing_and_stops_nothing(
    schedule: Any, broken: dict[str, Any], noon: datetime
) -> None:
    job = a_job(now=noon, schedule=schedule)
    Schedule.objects.filter(job=job).update(**broken)
    a_job(now=noon, schedule=Cron("0 14 * * *"))
    assert counts(noon) == {12: 1}


# ── What is stored ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def took(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it takes to make one, in seconds."""
    seconds_taken, moment = [0.0], [0.0]

    def monotonic() -> float:
        moment[0] += seconds_taken[0]
        return moment[0]

    monkeypatch.setattr(forecasting.time, "monotonic", monotonic)
    return seconds_taken


def test_the_latest_is_what_was_made_last(noon: datetime) -> None:
    assert forecasting.latest() is None
    job = a_job(now=noon, schedule=Cron("0 13 * * *"))
    assert forecasting.refresh(noon) == 1
    assert forecasting.latest() == forecasting.make(noon)
    definitions.archive(job, now=noon)
    assert forecasting.refresh(noon + HOUR) == 1
    assert forecasting.latest() == forecasting.make(noon + HOUR)
    assert StoredForecast.objects.count() == 1


def test_there_is_one_row_and_no_other(noon: datetime) -> None:
    forecasting.refresh(noon)
    with pytest.raises(IntegrityError), transaction.atomic():
        StoredForecast.objects.create(id=2, start_at=noon, counts=[], is_estimate=False, made_at=noon, took_seconds=0)


def test_the_duty_makes_it_every_minute_if_that_takes_less_than_a_second(noon: datetime, took: list[float]) -> None:
    took[0] = 0.9
    assert duty.DUTY.every == timedelta(minutes=1)
    assert [duty.DUTY.run(noon + number * duty.DUTY.every) for number in range(3)] == [1, 1, 1]


def test_what_takes_longer_is_made_as_much_rarer(noon: datetime, took: list[float]) -> None:
    took[0] = 2.5
    made = [duty.DUTY.run(noon + timedelta(minutes=number)) for number in range(7)]
    assert made == [1, 0, 0, 1, 0, 0, 1]


def test_a_clock_that_was_set_back_does_not_keep_it_from_being_made(noon: datetime, took: list[float]) -> None:
    took[0] = 2.5
    assert duty.DUTY.run(noon + HOUR) == 1
    assert duty.DUTY.run(noon) == 1


def test_many_schedules_cost_as_many_queries_as_few(noon: datetime) -> None:
    asked = []
    for many in (1, 20):
        for number in range(many):
            a_job(now=noon, schedule=Cron(f"{number} {many} * * *"))
        with CaptureQueriesContext(connection) as queries:
            forecasting.make(noon)
        asked.append(len(queries))
    assert asked == [2, 2]
