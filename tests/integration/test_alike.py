"""Which schedules are taken for the same, and what is chosen of too many: the database's way beside a plain one."""

import random
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from jobs import alike, forecast, forecasting
from jobs.models import Job, Schedule

pytestmark = pytest.mark.django_db
ZONES = (
    UTC,
    timezone(timedelta(hours=5, minutes=30)),
    timezone(-timedelta(hours=9, minutes=30)),
    ZoneInfo("Asia/Tokyo"),
)
CRONS = ("0 13 * * *", "*/7 * * * *", "H 14 * * *", "0 9 * * thu,mar", "h/20 * * * *", "@hourly", "0 99 * * *")
BROKEN = ("often", "0", "-60", "9999999999", "2026-13-45T25:00:00+00:00", "2026-06-15T13:00:00", "soon+02:00", "")


def any_moment(chance: random.Random, noon: datetime) -> datetime:
    """Near to noon, mostly to come; whole seconds or not, in any zone."""
    moment = noon + timedelta(seconds=chance.randrange(-4000, 90_000))
    return (moment + chance.choice((0, 0, 1, 250_000)) * timedelta(microseconds=1)).astimezone(chance.choice(ZONES))


def any_columns(chance: random.Random, noon: datetime) -> dict[str, Any]:
    kind, next_fire_at = chance.choice(("CRON", "EVERY", "ONCE")), any_moment(chance, noon)
    expression, anchor_at = chance.choice(CRONS), None
    if kind == "EVERY":
        step = chance.choice((1, 7, 60, 90, 600, 1000, 3600, 5400, 86_400))
        in_phase = next_fire_at - chance.randrange(1000) * step * timedelta(seconds=1)
        expression, anchor_at = str(step), chance.choice((in_phase, in_phase, any_moment(chance, noon), None))
    if kind == "ONCE":
        expression = next_fire_at.isoformat()
    both = sorted(any_moment(chance, noon) for _ in range(2))
    bounds = {name: at for name, at in zip(("start_at", "end_at"), both, strict=True) if chance.random() < 0.2}
    return {
        "kind": kind,
        "expression": chance.choice(BROKEN) if chance.random() < 0.1 else expression,
        "timezone": chance.choice(("UTC", "Europe/Berlin")),
        "anchor_at": anchor_at,
        "jitter_seconds": chance.choice((0, 0, 0, 120)),
        "fires_left": chance.choice((None, None, None, 3)),
        "next_fire_at": next_fire_at,
        "is_active": chance.random() < 0.9,
        **bounds,
    }


def store(columns: list[dict[str, Any]], noon: datetime) -> None:
    jobs = Job.objects.bulk_create(
        Job(key=f"alike-{number}", task="onbeat.echo", created_at=noon, changed_at=noon)
        for number in range(len(columns))
    )
    Schedule.objects.bulk_create(Schedule(job=job, **each) for job, each in zip(jobs, columns, strict=True))


def one_by_one(now: datetime) -> list[int]:
    """The forecast if each schedule is counted for itself, as it stands in its row."""
    start, shares = forecast.slot_of(now), []
    for schedule in Schedule.objects.filter(is_active=True).select_related("job"):
        if schedule.is_readable and schedule.next_fire_at:
            since = max(now, schedule.next_fire_at)
            left, jitter = schedule.fires_left, schedule.jitter_seconds
            shares.append(forecast.Share(schedule.recurrence, since, left=left, jitter_seconds=jitter))
    return [round(count) for count in forecast.total(shares, start=start)]


@pytest.mark.parametrize("seed", range(8))
def test_any_schedules_together_bring_what_each_brings_alone(seed: int, noon: datetime) -> None:
    chance = random.Random(seed)
    store([any_columns(chance, noon) for _ in range(150)], noon)
    now = noon + timedelta(seconds=chance.randrange(1200), microseconds=chance.choice((0, 5)))
    assert forecasting.make(now).counts == one_by_one(now)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(8))
def test_the_database_takes_the_same_schedules_for_the_same(seed: int, noon: datetime) -> None:
    chance = random.Random(seed)
    columns = [any_columns(chance, noon) | {"jitter_seconds": 0, "fires_left": None} for _ in range(150)]
    for each in chance.sample(columns, 30):
        each["next_fire_at"] = any_moment(chance, noon)  # somebody has set it by hand
    store(columns, noon)
    now, start = noon + timedelta(seconds=700), noon + forecast.SLOT
    plain: Counter[alike.Said] = Counter()
    for said, jobs in alike._read_all(start):
        plain[alike._in_short(said, now, start)] += jobs
    found = dict(alike.choose(now, start, most=1000).said)
    assert readable(found) == readable(plain)
    assert 50 < len(readable(found)) < 120 < len(columns)


def readable(found: Mapping[alike.Said, float]) -> dict[alike.Said, float]:
    return {said: jobs for said, jobs in found.items() if list(forecasting._shares([(said, jobs)]))}


def every_minute_apart(count: int, noon: datetime, **more: Any) -> list[dict[str, Any]]:
    """Crons that all differ."""
    patterns = [f"{number % 60} {number // 60} * * * *" for number in range(count)]
    return [{"kind": "CRON", "expression": each, "next_fire_at": noon, **more} for each in patterns]


def test_of_too_many_the_most_numerous_are_chosen_and_some_of_the_others_in_equal_steps(noon: datetime) -> None:
    hourly = {"kind": "EVERY", "expression": "3600", "anchor_at": noon, "next_fire_at": noon}
    store([*every_minute_apart(97, noon), *[hourly] * 5, *[hourly | {"expression": "7200"}] * 3], noon)
    chosen = alike.choose(noon, noon, most=11)
    said = list(chosen.said)
    assert not chosen.is_all
    assert [(one.expression, jobs) for one, jobs in said[:2]] == [("3600", 5), ("7200", 3)]
    assert len(said) == 11
    assert sum(jobs for _, jobs in said) == pytest.approx(105)
    assert {jobs for _, jobs in said[5:]} == {94 / 6}
    in_order = sorted(each["expression"] for each in every_minute_apart(97, noon))
    places = [in_order.index(one.expression) for one, _ in said[5:]]
    assert places == [3 + number * 94 // 6 for number in range(6)]


def test_as_many_as_may_differ_are_all_counted(noon: datetime) -> None:
    store(every_minute_apart(12, noon), noon)
    assert alike.choose(noon, noon, most=12).is_all
    assert not alike.choose(noon, noon, most=11).is_all


def test_without_a_schedule_there_is_nothing_to_choose_from(noon: datetime) -> None:
    chosen = alike.choose(noon, noon, most=10)
    assert (list(chosen.said), chosen.is_all) == ([], True)


@pytest.mark.full
def test_schedules_stay_in_the_database_however_many_differ(noon: datetime) -> None:
    store(every_minute_apart(3000, noon), noon)
    tracemalloc.start()
    try:
        assert len(list(alike.choose(noon, noon, most=20).said)) == 20
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 300_000


def instant(at: datetime) -> dict[str, Any]:
    return {"kind": "ONCE", "expression": at.isoformat(), "next_fire_at": at}


@pytest.mark.parametrize("kind", ["instants", "intervals", "bounds that are far away"])
def test_what_makes_no_difference_counts_as_one(kind: str, noon: datetime) -> None:
    moments = [noon + timedelta(seconds=60 + number, microseconds=number % 3) for number in range(12)]
    far = [
        {"start_at": noon - timedelta(hours=1 + number), "end_at": noon + timedelta(days=2 + number)}
        for number in range(12)
    ]
    hourly = {"kind": "EVERY", "expression": "3600"}
    columns = {
        "instants": [instant(at.astimezone(ZONES[at.second % 4])) for at in moments],
        "intervals": [hourly | {"anchor_at": at - timedelta(days=9), "next_fire_at": at} for at in moments],
        "bounds that are far away": [each | every_minute_apart(1, noon)[0] for each in far],
    }
    store(columns[kind], noon)
    chosen = alike.choose(noon, noon, most=1)
    assert ([jobs for _, jobs in chosen.said], chosen.is_all) == ([12], True)
