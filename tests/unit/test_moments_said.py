"""Moments as people write them on a command line."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobs.refusals import InvalidRun
from terminal.moments import moment_of

BERLIN = ZoneInfo("Europe/Berlin")
INSTANT = timedelta(microseconds=1)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "as_start", "as_end"),
    [
        ("2026-11-01", utc(2026, 10, 31, 23), utc(2026, 11, 1, 23) - INSTANT),
        ("2026-11-01T12:00", utc(2026, 11, 1, 11), utc(2026, 11, 1, 11)),
        ("2026-11-01 12:00:30", utc(2026, 11, 1, 11, 0, 30), utc(2026, 11, 1, 11, 0, 30)),
        ("2026-11-01T12:00Z", utc(2026, 11, 1, 12), utc(2026, 11, 1, 12)),
        ("2026-11-01T12:00-05:00", utc(2026, 11, 1, 17), utc(2026, 11, 1, 17)),
        # The day on which clocks go back has 25 hours; the hour that comes twice is in the range twice.
        ("2026-10-25", utc(2026, 10, 24, 22), utc(2026, 10, 25, 23) - INSTANT),
        ("2026-10-25T02:30", utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 1, 30)),
        # The hour that does not come ends when it would have begun.
        ("2026-03-29T02:30", utc(2026, 3, 29, 1), utc(2026, 3, 29, 1)),
    ],
)
def test_a_moment_is_read_in_the_zone_of_the_job(text: str, as_start: datetime, as_end: datetime) -> None:
    assert moment_of("from", text, BERLIN, is_end=False) == as_start
    assert moment_of("to", text, BERLIN, is_end=True) == as_end


def test_a_day_whose_midnight_does_not_come_begins_after_the_gap() -> None:
    cairo = ZoneInfo("Africa/Cairo")
    assert moment_of("from", "2026-04-24", cairo, is_end=False) == utc(2026, 4, 23, 22)
    assert moment_of("to", "2026-04-23", cairo, is_end=True) == utc(2026, 4, 23, 22) - INSTANT


@pytest.mark.parametrize(
    ("text", "is_end"),
    [
        ("", False),
        ("yesterday", True),
        ("2026-13-01", False),
        ("2026-11-31", True),
        ("2026-11-01T25:00", False),
        ("x" * 500, True),
        ("0001-01-01", False),  # in UTC it would lie before the calendar's first day
        ("9999-12-31", True),  # its end is after the calendar's last
    ],
)
def test_what_is_no_moment_is_refused_with_an_example(text: str, is_end: bool) -> None:
    with pytest.raises(InvalidRun, match=r"no moment; write a date such as 2026-11-01") as refusal:
        moment_of("to", text, BERLIN, is_end=is_end)
    assert refusal.value.field == "to"
    assert len(str(refusal.value)) < 200
