"""Which fires there must be, by a walk over the schedules that shares nothing with the product's own. Pure.

A job is what its versions say, from one change to the next. Each fire of such a stretch must have its row. Around a
change there are a few that may have one: the change names the moment at which it began, and beats went on by the old
schedule until it was committed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from chaos.evidence import Version
from chaos.load import EPOCH

_ENDS = ("archived", "completed")
_PAUSED, _CHANGED = "paused", "changed"
_CRON = re.compile(r"(?:\*|\*/(\d+)) \* \* \* \* \*")
# A change whose answer nobody heard may have taken until its connection was given up.
NEVER_ANSWERED = timedelta(seconds=60)


@dataclass(frozen=True)
class Expected:
    must: frozenset[datetime]  # exactly one row, or in one skipped range
    may: frozenset[datetime]  # one at most
    paused: frozenset[datetime] = frozenset()  # of those that must: left out, if there is a row


def expected(versions: Sequence[Version], *, until: datetime, answered_at: dict[int, datetime]) -> Expected:
    """The fires of one job up to a moment. Its versions come in order; `answered_at` tells when each was known."""
    must: set[datetime] = set()
    may: set[datetime] = set()
    paused: set[datetime] = set()
    paused_from: datetime | None = None
    for place, version in enumerate(versions):
        change = version.change.lower()
        if change == _PAUSED:
            paused_from = paused_from or _known_at(version, answered_at)
        elif change != _CHANGED:
            paused_from = None
        if version.schedule is None or change in _ENDS:
            continue
        following = versions[place + 1] if place + 1 < len(versions) else None
        end = min(until, following.changed_at) if following else until
        must |= set(_fires(version.schedule, version.changed_at, end))
        if paused_from is not None:
            paused |= set(_fires(version.schedule, max(paused_from, version.changed_at), end))
        if following:
            may |= set(_fires(version.schedule, following.changed_at, min(until, _known_at(following, answered_at))))
    return Expected(frozenset(must), frozenset(may - must), frozenset(paused))


def _known_at(version: Version, answered_at: dict[int, datetime]) -> datetime:
    return answered_at.get(version.number, version.changed_at + NEVER_ANSWERED)


def step_of(schedule: object) -> int | None:
    """Every so many seconds; None for a schedule that is none of this kind."""
    if not isinstance(schedule, dict):
        return None
    found = _CRON.fullmatch(schedule["expression"])
    if schedule["kind"].upper() == "CRON":
        return int(found[1] or 1) if found else None
    return int(schedule["expression"]) if schedule["kind"].upper() == "EVERY" else None


def _fires(schedule: object, after: datetime, until: datetime) -> Iterator[datetime]:
    """Later than a moment, up to another."""
    assert isinstance(schedule, dict)
    expression = schedule["expression"]
    match schedule["kind"].upper():
        case "ONCE":
            at = datetime.fromisoformat(expression)
            if after < at <= until:
                yield at
        case "EVERY":
            anchor = datetime.fromisoformat(schedule["anchor_at"])
            yield from _multiples(anchor, int(expression), after, until)
        case "CRON":
            found = _CRON.fullmatch(expression)
            assert found, f"the harness makes no such schedule: {expression}"
            yield from _multiples(EPOCH, int(found[1] or 1), after, until)


def _multiples(anchor: datetime, seconds: int, after: datetime, until: datetime) -> Iterator[datetime]:
    step = timedelta(seconds=seconds)
    fire = anchor + ((after - anchor) // step + 1) * step
    while fire <= until:
        yield fire
        fire += step
