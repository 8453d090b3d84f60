"""What clock changes do to fires is said beside each that they touch, and beside no other."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import dst
from jobs.recurrence import Cron, Every, Once, Within
from jobs.shifts import with_remarks
from jobs.upcoming import upcoming

MOVED = "moved: the clocks skip its own time that night"
TWICE, SECOND = "this hour comes twice", "this hour comes twice, and this is the second time"


def forward(before: str, after: str) -> str:
    return f"after the clocks went forward: UTC{before} became UTC{after}"


def back(before: str, after: str) -> str:
    return f"after the clocks went back: UTC{before} became UTC{after}"


def told(cron: str, zone: str, since: str, count: int) -> dict[str, str]:
    """The remark of each fire, by what the clocks show then."""
    recurrence = Cron(cron, zone)
    moment = datetime.fromisoformat(since).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    fires = with_remarks(recurrence, upcoming(recurrence, after=moment, count=count), since=moment)
    return {f"{fire.local:%m-%d %H:%M%z}": fire.remark for fire in fires}


@pytest.mark.parametrize(
    ("cron", "zone", "since", "remarks"),
    [
        # Its time is skipped: it comes when the gap ends.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2027-03-27T00:00",
            {"03-27 02:30+0100": "", "03-28 03:00+0200": MOVED, "03-29 02:30+0200": ""},
        ),
        (
            "30 2 * * *",
            "America/New_York",
            "2027-03-13T12:00",
            {"03-14 03:00-0400": MOVED, "03-15 02:30-0400": ""},
        ),
        (
            "15 2 * * *",
            "Australia/Lord_Howe",  # by half an hour
            "2027-10-02T12:00",
            {"10-03 02:30+1100": MOVED, "10-04 02:15+1100": ""},
        ),
        # A whole day that this zone never had.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T00:00",
            {"12-29 12:00-1000": "", "12-31 00:00+1400": MOVED, "12-31 12:00+1400": ""},
        ),
        # Its hour comes twice: a fixed time fires once, and everything else both times.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2027-10-30T12:00",
            {"10-31 02:30+0200": TWICE, "11-01 02:30+0100": back("+02:00", "+01:00")},
        ),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2027-10-31T01:15",
            {
                "10-31 01:30+0200": "",
                "10-31 02:00+0200": TWICE,
                "10-31 02:30+0200": TWICE,
                "10-31 02:00+0100": SECOND,
                "10-31 02:30+0100": SECOND,
                "10-31 03:00+0100": "",
            },
        ),
        # It fires at another offset than before.
        (
            "0 9 * * *",
            "Europe/Berlin",
            "2027-03-27T10:00",
            {"03-28 09:00+0200": forward("+01:00", "+02:00"), "03-29 09:00+0200": ""},
        ),
        (
            "0 9 * * 1",
            "America/New_York",
            "2027-11-02T00:00",
            {"11-08 09:00-0500": back("-04:00", "-05:00"), "11-15 09:00-0500": ""},
        ),
        (
            "0 9 * * *",
            "Asia/Pyongyang",  # for good, by half an hour
            "2018-05-04T12:00",
            {"05-05 09:00+0900": forward("+08:30", "+09:00"), "05-06 09:00+0900": ""},
        ),
        ("0 2 * * *", "Asia/Tokyo", "2027-03-27T00:00", {"03-27 02:00+0900": "", "03-28 02:00+0900": ""}),
    ],
)
def test_a_remark_stands_beside_the_fires_that_a_change_touches(
    cron: str, zone: str, since: str, remarks: dict[str, str]
) -> None:
    assert told(cron, zone, since, len(remarks)) == remarks


@pytest.mark.parametrize(
    "recurrence", [Every(3600, datetime(2027, 3, 27, tzinfo=UTC)), Once(datetime(2027, 3, 28, 1, 30, tzinfo=UTC))]
)
def test_what_is_of_no_zone_has_no_remark(recurrence: Every | Once) -> None:
    since = datetime(2027, 3, 28, tzinfo=UTC)
    fires = with_remarks(recurrence, upcoming(recurrence, after=since, count=5), since=since)
    assert fires
    assert {(fire.remark, fire.local) for fire in fires} == {("", fire.at) for fire in fires}


def test_bounds_change_no_remark() -> None:
    since = datetime(2027, 3, 27, 12, 0, tzinfo=UTC)
    within = Within(Cron("30 2 * * *", "Europe/Berlin"), since, since + timedelta(days=30))
    (fire,) = with_remarks(within, upcoming(within, after=since, count=1), since=since)
    assert fire.remark == MOVED


@given(
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"]),
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    day=st.integers(0, 700),
)
def test_a_remark_is_there_exactly_if_the_fire_or_what_lies_before_it_is_special(
    zone: str, hour: int, minute: int, day: int
) -> None:
    place, since = dst.zone_named(zone), datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    cron = Cron(f"{minute} {hour} * * *", zone)
    before = since
    for fire in with_remarks(cron, upcoming(cron, after=since, count=10), since=since):
        is_another_offset = dst.offset_at(place, before) != dst.offset_at(place, fire.at)
        comes_twice = len(dst.instants_of(place, fire.local.replace(tzinfo=None, fold=0))) == 2
        is_moved = (fire.local.hour, fire.local.minute) != (hour, minute)
        assert bool(fire.remark) == (is_another_offset or comes_twice or is_moved)
        before = fire.at
