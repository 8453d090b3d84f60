"""Moments and durations as people type them.

Invariant: what is not understood is refused with an example; a day that ends a range is meant whole, and so is an hour
that clocks repeat.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from jobs import dst
from jobs.explaining import timezone_of
from jobs.models import Schedule
from jobs.refusals import InvalidRun, shown

_DURATION = re.compile(r"(\d{1,9})\s*(s|m|min|h|d|w)?", re.ASCII)
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_UTC = ZoneInfo("UTC")
MOMENT = "A date (2026-11-01), a date with a time (2026-11-01T07:30, 2026-11-01T06:30Z)"


def moment_of(option: str, text: str, zone: ZoneInfo = _UTC, *, is_end: bool = False) -> datetime:
    """A date, or a date with a time; without an offset, as the clocks of the zone show it."""
    try:
        day = _day(text)
        if day is None:
            moment = datetime.fromisoformat(text)
            return moment.astimezone(UTC) if moment.tzinfo is not None else _instant(moment, zone, is_end=is_end)
        midnight = datetime.combine(day, time())
        if is_end:
            return _instant(midnight + timedelta(days=1), zone, is_end=False) - timedelta(microseconds=1)
        return _instant(midnight, zone, is_end=False)
    except (ValueError, OverflowError):
        raise InvalidRun(
            option, f"--{option} {shown(text)} is no moment; write a date such as 2026-11-01, or 2026-11-01T07:30."
        ) from None


def ago(option: str, text: str, *, now: datetime) -> datetime:
    """A moment, or how long ago it was: 2h, 3d."""
    return _from_now(option, text, now=now, way=-1)


def ahead(option: str, text: str, *, now: datetime, zone: ZoneInfo = _UTC) -> datetime:
    """A moment, or how far off it is: 2h, 3d."""
    return _from_now(option, text, now=now, way=1, zone=zone)


def _from_now(option: str, text: str, *, now: datetime, way: int, zone: ZoneInfo = _UTC) -> datetime:
    if not _DURATION.fullmatch(text.strip()):
        return moment_of(option, text, zone)
    try:
        return now + way * duration_of(option, text)
    except OverflowError:
        raise InvalidRun(
            option, f"--{option} {shown(text)} is longer than any calendar; choose a shorter one."
        ) from None


def duration_of(option: str, text: str) -> timedelta:
    """Seconds (90), or a number with s, m, h, d or w (15m)."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidRun(option, f"--{option} {shown(text)} is no duration; write one such as 90s, 15m, 2h or 3d.")
    try:
        return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    except OverflowError:
        raise InvalidRun(
            option, f"--{option} {shown(text)} is longer than any calendar; choose a shorter one."
        ) from None


def clock(moment: datetime | None, zone: ZoneInfo = _UTC) -> str:
    """What the clocks of the zone show, and in UTC."""
    if moment is None:
        return "-"
    in_utc = f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return in_utc if zone.key == "UTC" else f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S %Z} ({in_utc})"


def zone_of(schedule: Schedule | None) -> ZoneInfo:
    """Where its times without an offset are read. Only a cron has a zone; of one that is gone, UTC is told."""
    return dst.zone_named(timezone_of(schedule))


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _instant(wall: datetime, zone: ZoneInfo, *, is_end: bool) -> datetime:
    instants = dst.instants_of(zone, wall) or (dst.end_of_gap(zone, wall),)
    return instants[-1 if is_end else 0]
