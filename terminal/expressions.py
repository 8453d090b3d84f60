"""A schedule as somebody types it in one argument: a cron expression, an interval or a moment.

Invariant: what it is can be told by its beginning, so nothing is guessed at; what cannot be is refused by the domain.
"""

import re
from collections.abc import Sequence
from typing import Any

from jobs import dst
from jobs.refusals import InvalidRun, shown
from terminal.frame import refuse
from terminal.moments import duration_of, moment_of

_INTERVAL = re.compile(r"every\s+(.+)", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOST_FIELDS = 7  # one more than a cron has: its own refusal tells why there is no year


def schedule_of(words: Sequence[str], timezone: str | None) -> dict[str, Any]:
    """The schedule of a body. A moment without an offset is read in the zone, and a cron is kept in it."""
    text = " ".join(words).strip()
    if not text:
        refuse('Say a schedule, such as "30 7 * * 1-5", "every 15m" or 2026-11-01T07:30; or --job KEY.')
    if len(words) > _MOST_FIELDS:
        refuse('The shell has put the names of files in the place of a *: write the expression in quotes, "* * * * *".')
    zone = {} if timezone is None else {"timezone": timezone}
    if interval := _INTERVAL.fullmatch(text):
        return {"every": _seconds(interval[1]), **zone}
    if _DATE.match(text):
        return {"once": {"at": _moment(text, timezone or "UTC")}}
    return {"cron": text, **zone}


def _seconds(text: str) -> int:
    try:
        return round(duration_of("every", text).total_seconds())
    except InvalidRun:
        refuse(f"{shown(text)} is no interval; write one such as every 15m, every 2h, or every 900 (seconds).")


def _moment(text: str, timezone: str) -> Any:
    try:
        return moment_of("at", text, dst.zone_named(timezone))
    except InvalidRun:
        refuse(f"{shown(text)} is no moment; write one such as 2026-11-01T07:30, or 2026-11-01T06:30Z.")
