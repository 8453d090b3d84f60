"""Durations, states and counts as people read them. Pure: no Django."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

# How a state is coloured: ok, bad, warn, run or calm.
TONES = {
    "ACTIVE": "ok",
    "PAUSED": "warn",
    "COMPLETED": "calm",
    "ARCHIVED": "calm",
    "SCHEDULED": "calm",
    "QUEUED": "run",
    "RUNNING": "run",
    "SUCCEEDED": "ok",
    "DEAD": "bad",
    "CANCELLED": "calm",
    "SKIPPED": "warn",
    "FAILED": "bad",
    "TIMED_OUT": "bad",
    "WORKER_LOST": "bad",
    "valid": "ok",
    "expired": "warn",
    "revoked": "calm",
    "ticking": "ok",
    "alive": "ok",
    "silent": "bad",
    "refusing": "bad",
    "resting": "warn",
    "well": "ok",
}


def tone(state: str) -> str:
    return TONES.get(state, "calm")


def duration(seconds: float | timedelta | None) -> str:
    """Such as 320 ms, 4.2 s, 3 min 5 s, 2 h 10 min, 3 d 4 h."""
    if seconds is None:
        return "–"
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    seconds = max(seconds, 0.0)
    if seconds < 0.9995:  # above it would be 1000 of them
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for size, unit, part, part_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {part_unit}" if rest else f"{whole // size} {unit}"
    raise AssertionError


def away(moment: datetime, *, now: datetime) -> str:
    """How far off: in 3 min 5 s, or 2 h 10 min ago."""
    seconds = (moment - now).total_seconds()
    return f"in {duration(seconds)}" if seconds >= 0 else f"{duration(-seconds)} ago"


def clock(moment: datetime, zone: str = "UTC") -> str:
    """With its zone, to the second."""
    place = UTC if zone == "UTC" else ZoneInfo(zone)
    return f"{moment.astimezone(place):%Y-%m-%d %H:%M:%S} {zone}"


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
