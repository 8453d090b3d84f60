"""Nights on which the clocks change, as a beat lives through them: look after look, at no regular step.

What is expected is written out by hand, in UTC. A fixed time that does not exist fires right after the gap, one that
comes twice fires the first time; whatever has a wildcard in its minute or hour, and every interval, runs in real time.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle

import pytest
from django.conf import settings

from beat.lease import Leases, fire_key
from beat.members import Members
from beat.planning import Planner
from executions.identity import milliseconds
from executions.redis_link import RedisLink
from executions.states import State
from jobs.models import Job
from jobs.recurrence import Cron, Every
from tests import rows
from tests.making import a_job, a_planner, seconds
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]

STEPS = (58, 41, 59, 37, 55, 47)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LENGTH = 5 * HOUR
QUARTERS = 45 * MINUTE


@dataclass(frozen=True)
class Night:
    """Five hours in a zone, and the times at which each expression fires in them; all of it in UTC."""

    zone: str
    begins: str
    change: str
    fires: dict[str, str]

    @property
    def start(self) -> datetime:
        return datetime.fromisoformat(self.begins).replace(tzinfo=UTC)

    def at(self, time: str) -> datetime:
        """The instant of the night at which the clocks of UTC show that."""
        hour, minute = map(int, time.split(":"))
        moment = self.start.replace(hour=hour, minute=minute)
        return moment if moment > self.start else moment + timedelta(days=1)


NIGHTS = {
    "New York, back at 02:00": Night(
        *("America/New_York", "2026-11-01 03:30", "06:00"),
        {
            "30 1 * * *": "05:30",
            "0 2 * * *": "07:00",
            "0 * * * *": "04:00 05:00 06:00 07:00 08:00",
            "*/20 1 * * *": "05:00 05:20 05:40 06:00 06:20 06:40",
            "0 */2 * * *": "04:00 07:00",
        },
    ),
    "New York, forward at 02:00": Night(
        *("America/New_York", "2027-03-14 04:30", "07:00"),
        {
            "30 2 * * *": "07:00",
            "0 3 * * *": "07:00",
            "0 * * * *": "05:00 06:00 07:00 08:00 09:00",
            "*/20 1,2 * * *": "06:00 06:20 06:40",
            "0 */2 * * *": "05:00 08:00",
        },
    ),
    "Berlin, back at 03:00": Night(
        *("Europe/Berlin", "2026-10-24 22:30", "01:00"),
        {
            "30 2 * * *": "00:30",
            "0 3 * * *": "02:00",
            "0 * * * *": "23:00 00:00 01:00 02:00 03:00",
            "*/20 2 * * *": "00:00 00:20 00:40 01:00 01:20 01:40",
            "0 */2 * * *": "00:00 01:00 03:00",
        },
    ),
    "Berlin, forward at 02:00": Night(
        *("Europe/Berlin", "2027-03-27 22:30", "01:00"),
        {
            "30 2 * * *": "01:00",
            "0 3 * * *": "01:00",
            "0 * * * *": "23:00 00:00 01:00 02:00 03:00",
            "*/20 1,2 * * *": "00:00 00:20 00:40",
            "0 */2 * * *": "23:00 02:00",
        },
    ),
    "Lord Howe, half an hour back at 02:00": Night(
        *("Australia/Lord_Howe", "2027-04-03 12:15", "15:00"),
        {
            "45 1 * * *": "14:45",
            "0 2 * * *": "15:30",
            "0 * * * *": "13:00 14:00 15:30 16:30",
            "*/20 1 * * *": "14:00 14:20 14:40 15:10",
            "0 */2 * * *": "13:00 15:30",
        },
    ),
    "Lord Howe, half an hour forward at 02:00": Night(
        *("Australia/Lord_Howe", "2026-10-03 12:45", "15:30"),
        {
            "15 2 * * *": "15:30",
            "30 2 * * *": "15:30",
            "0 * * * *": "13:30 14:30 16:00 17:00",
            "*/20 2 * * *": "15:40",
            "0 */2 * * *": "13:30 17:00",
        },
    ),
    "Santiago, back at midnight": Night(
        *("America/Santiago", "2027-04-04 00:30", "03:00"),
        {
            "30 23 * * *": "02:30",
            "0 0 * * *": "04:00",
            "0 * * * *": "01:00 02:00 03:00 04:00 05:00",
            "*/20 23 * * *": "02:00 02:20 02:40 03:00 03:20 03:40",
            "0 */2 * * *": "01:00 04:00",
        },
    ),
    "Santiago, forward at midnight": Night(
        *("America/Santiago", "2026-09-06 01:30", "04:00"),
        {
            "0 0 * * *": "04:00",
            "30 0 * * *": "04:00",
            "0 * * * *": "02:00 03:00 04:00 05:00 06:00",
            "*/20 0 * * *": "",
            "0 */2 * * *": "02:00 05:00",
        },
    ),
}


def looks(start: datetime, end: datetime) -> Iterator[datetime]:
    """When a beat looks at its schedules: at no regular step, and never a minute apart."""
    steps = cycle(STEPS)
    while start < end:
        yield start
        start += seconds(next(steps))
    yield end


def fire_times(job: Job) -> list[datetime]:
    """Of a job none of whose fires was skipped, or came later than the looks are apart."""
    found = rows.of(job)
    assert {row.state for row in found} <= {State.SCHEDULED}
    assert [row for row in found if row.created_at - row.fire_time > seconds(max(STEPS))] == []
    return [row.fire_time for row in found]


@pytest.mark.parametrize("night", NIGHTS.values(), ids=NIGHTS)
def test_in_a_night_of_a_clock_change_everything_fires_when_it_should_and_once(night: Night) -> None:
    jobs = {
        expression: a_job(now=night.start, schedule=Cron(expression, night.zone), misfire="SKIP")
        for expression in night.fires
    }
    interval = a_job(now=night.start, schedule=Every(int(QUARTERS.total_seconds()), night.start), misfire="SKIP")
    beat = a_planner()
    for now in looks(night.start, night.start + LENGTH):
        beat.plan_due(now=now)
    for expression, times in night.fires.items():
        assert fire_times(jobs[expression]) == [night.at(time) for time in times.split()], expression
    assert fire_times(interval) == [night.start + n * QUARTERS for n in range(1, 7)]


@pytest.mark.parametrize("night", NIGHTS.values(), ids=NIGHTS)
def test_what_fires_every_minute_goes_on_through_the_change(night: Night) -> None:
    start = night.at(night.change) - 30 * MINUTE
    cron = a_job(now=start, schedule=Cron("* * * * *", night.zone), misfire="SKIP")
    interval = a_job(now=start, schedule=Every(60, start), misfire="SKIP")
    beat = a_planner()
    for now in looks(start, start + 95 * MINUTE):
        beat.plan_due(now=now)
    every_minute = [start + n * MINUTE for n in range(1, 96)]
    assert fire_times(cron) == every_minute
    assert fire_times(interval) == every_minute


@pytest.mark.parametrize(
    "days",
    [
        ["2026-10-31 20:04", "2026-11-01 21:04", "2026-11-02 21:04"],
        ["2027-03-13 21:04", "2027-03-14 20:04", "2027-03-15 20:04"],
    ],
    ids=["autumn", "spring"],
)
def test_a_time_in_the_afternoon_stays_where_it_is_on_the_days_around_a_change(days: list[str]) -> None:
    """16:04 in New York is 16:04 there on each of these days, whatever that is in UTC."""
    expected = [datetime.fromisoformat(day).replace(tzinfo=UTC) for day in days]
    job = a_job(now=expected[0] - HOUR, schedule=Cron("4 16 * * *", "America/New_York"))
    beat = a_planner()
    for fire in expected:
        for early in (HOUR, MINUTE, seconds(6)):
            assert beat.plan_due(now=fire - early).fires == 0
        assert beat.plan_due(now=fire - seconds(4)).fires == 1
        assert beat.plan_due(now=fire + HOUR).fires == 0
    assert fire_times(job) == expected


@pytest.mark.full
@pytest.mark.parametrize("name", ["New York, back at 02:00", "New York, forward at 02:00"])
def test_through_the_change_a_beat_gets_its_leases_and_fires_on_time(name: str) -> None:
    """Leases and members live by Redis's own time: no clock of a zone has a say in who may fire."""
    night = NIGHTS[name]
    change = night.at(night.change)
    link = RedisLink(settings.REDIS_URL, prefix=f"t{uuid.uuid4().hex[:10]}.")
    leases = [Leases(link, holder=holder, life=seconds(10)) for holder in ("one", "other")]
    job = a_job(now=change - 90 * MINUTE, schedule=Cron("0 * * * *", night.zone), misfire="SKIP")
    for hours in (-1, 0, 1, 2):
        for holder in ("one", "other"):
            Members(link, beat=holder).renew()
        fire, (mine, theirs) = change + hours * HOUR, leases
        assert Planner(mine, look_ahead=seconds(5), batch_size=9).plan_due(now=fire - seconds(3)).fires == 1
        assert theirs.take([fire_key(job.pk, milliseconds(fire))]) == [False]
        leases.reverse()
    assert fire_times(job) == [change + hours * HOUR for hours in (-1, 0, 1, 2)]
