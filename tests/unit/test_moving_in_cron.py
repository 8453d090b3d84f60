"""Celery's crontabs and our expressions: what is translated names the same times, by Celery's own code."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from celery import Celery, schedules
from hypothesis import given
from hypothesis import strategies as st

from jobs.cron import DAY, HOUR, MINUTE, MONTH, WEEKDAY, Kind
from jobs.moving_in import celery_cron, clock_changes
from jobs.moving_in.sources import Crontab
from jobs.recurrence import Cron
from jobs.refusals import InvalidSchedule

APP = Celery("there", set_as_current=False)
SIZES = {MINUTE: (60, 0), HOUR: (24, 0), DAY: (31, 1), MONTH: (12, 1), WEEKDAY: (7, 0)}
AUTUMN, SPRING = datetime(2026, 10, 24, 18, tzinfo=UTC), datetime(2027, 3, 27, 18, tzinfo=UTC)


def crontab(text: str, timezone: str = "UTC") -> Crontab:
    minute, hour, day, month, weekday = text.split(" ")
    return Crontab(minute, hour, day, month, weekday, timezone)


def by_celery(text: str, timezone: str, start: datetime, end: datetime) -> list[datetime]:
    """The fires that Celery's own class finds, each from the one before."""
    minute, hour, day, month, weekday = text.split(" ")
    zone, fires, now = ZoneInfo(timezone), [], start
    theirs = schedules.crontab(minute, hour, weekday, day, month, nowfun=lambda: now.astimezone(zone), app=APP)
    theirs.tz = zone  # as django-celery-beat's subclass has it
    last = start
    while True:
        is_due, seconds = theirs.is_due(last.astimezone(zone))
        if is_due:
            fires.append(now)
            last = now
            seconds = theirs.is_due(last.astimezone(zone)).next
        now += timedelta(seconds=float(seconds))
        if now > end:
            return fires


def here(expression: str, timezone: str, start: datetime, end: datetime) -> list[datetime]:
    fires, moment = [], Cron(expression, timezone).next_after(start)
    while moment is not None and moment <= end:
        fires.append(moment)
        moment = Cron(expression, timezone).next_after(moment)
    return fires


@st.composite
def texts(draw: st.DrawFn, kind: Kind) -> str:
    number = st.integers(kind.low, kind.high)
    names = [name for name in kind.names if name] if kind in (MONTH, WEEKDAY) else []
    named = st.sampled_from(names) if names else st.nothing()
    one = number.map(str) | named
    step = st.integers(1, kind.high + 3)
    part = (
        st.just("*")
        | one
        | st.builds("{}-{}".format, one, one)
        | st.builds("{}-{}/{}".format, one, one, step)
        | step.map("*/{}".format)
    )
    return ",".join(draw(st.lists(part, min_size=1, max_size=3)))


@pytest.mark.parametrize("kind", SIZES, ids=lambda kind: kind.name)
@given(data=st.data())
def test_each_field_is_read_as_celery_reads_it(kind: Kind, data: st.DataObject) -> None:
    text = data.draw(texts(kind))
    assert set(celery_cron.values(kind, text)) == schedules.crontab_parser(*SIZES[kind]).parse(text)


@given(data=st.data())
def test_what_is_translated_names_the_dates_and_times_of_the_crontab(data: st.DataObject) -> None:
    fields = [data.draw(texts(kind)) for kind in (MINUTE, HOUR, DAY, MONTH, WEEKDAY)]
    try:
        expressions = celery_cron.expressions(Crontab(*fields, timezone="UTC"))
        read = [Cron(expression).fields for expression in expressions]
    except InvalidSchedule:
        return
    minute, hour, day, month, weekday = (
        celery_cron.values(kind, text) for kind, text in zip(SIZES, fields, strict=True)
    )
    for one in read:
        assert (one.minute.values, one.hour.values) == (minute, hour)
        for number in range(366):
            date = datetime(2028, 1, 1, tzinfo=UTC).date() + timedelta(days=number)  # a leap year
            is_there = date.day in day and date.month in month and date.isoweekday() % 7 in weekday
            assert one.falls_on(date) == is_there, (expressions, date)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("*/5 * * * *", ["*/5 * * * *"]),
        ("0 */2 * * *", ["0 */2 * * *", "0 0-23/2 * * *"]),
        ("* 9-17 * * mon-fri", ["* 9-17 * * mon-fri", "0-59 9-17 * * mon-fri"]),
        ("30 7 * * monday", ["30 7 * * 1"]),
        ("0 0 1 january *", ["0 0 1 1 *"]),
        ("*/90 0 * * *", ["0 0 * * *"]),
        ("0 0 * * sat-mon", ["0 0 * * sat-mon"]),
        ("0 0 1-7 * mon", ["0 0 * * 1#1"]),
        ("0 0 1-7,15-21 * mon,fri", ["0 0 * * 1#1,5#1,1#3,5#3"]),
        ("0 0 29-31 * sun", ["0 0 * * 0#5"]),
        ("0 0 */2 * fri", ["0 0 */2 * fri"]),
        ("0 0 13 * 0-6", ["0 0 13 * *"]),
        ("0-59 0-23 * * *", ["* * * * *"]),
    ],
)
def test_it_is_written_as_it_was_where_that_means_the_same(there: str, expected: list[str]) -> None:
    assert celery_cron.expressions(crontab(there)) == expected


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ("0 0 13 * fri", "the days 13 of a month where they are also the weekdays 5"),
        ("0 0 * * 7", "7 is not from 0 to 6, and Celery refuses it, too"),
        ("60 * * * *", "60 is not from 0 to 59"),
        ("5/10 * * * *", "The minute '5/10' of its crontab cannot be moved"),
        ("*/0 * * * *", "a step must be 1 or more"),
        ("0 0 L * *", "The day_of_month 'l' of its crontab cannot be moved"),
        (", * * * *", "cannot be moved"),
    ],
)
def test_what_cannot_be_said_here_is_refused(there: str, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says.replace("*", r"\*")):
        celery_cron.expressions(crontab(there))


NIGHTS = [
    *("30 2 * * *", "0 2 * * *", "0,30 2 * * *", "15,45 2 * * *", "30 2,3 * * *", "5,20 1-3 * * *", "*/15 1-3 * * *"),
    *("*/30 2 * * *", "* 2 * * *", "0 * * * *", "30 * * * *", "*/20 * * * *", "30 */2 * * *", "0 */3 * * *"),
    *("0 0 * * *", "59 1 * * *", "0 3 * * sun", "30 2 * * sun", "30 2 25,28 * *", "30 2 * 3,10 *", "30 2 22-28 * 0"),
]


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "UTC"]
)
@pytest.mark.parametrize("there", NIGHTS)
def test_what_is_said_to_differ_when_clocks_change_is_what_differs_by_celerys_own_code(there: str, zone: str) -> None:
    now = datetime(2026, 8, 1, tzinfo=UTC)
    for expression in celery_cron.expressions(crontab(there)):
        differing = {night.change: night for night in clock_changes.differing(expression, zone, now=now)}
        for start in [now + timedelta(days=days) for days in range(0, 365, 5)]:
            end = start + timedelta(days=5)
            change = clock_changes.dst.next_change(ZoneInfo(zone), start, until=end)
            if change is None:
                continue
            start, end = change.instant - timedelta(days=1, minutes=7), change.instant + timedelta(days=1)
            celerys, ours = set(by_celery(there, zone, start, end)), set(here(expression, zone, start, end))
            night = differing.get(change)
            assert celerys - ours == set(night.only_there if night else ())
            assert ours - celerys == set(night.only_here if night else ())
