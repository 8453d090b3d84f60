"""When a schedule fires. Pure: no Django, no clock.

Cron, Every and Once each answer `next_after(moment)`: the first fire strictly after it, in UTC, or None when there is
none. croniter steps through the plain calendar; what that means in a zone with clock changes is decided here, by the
rule of Debian's cron: a fixed-time job that falls into the spring gap fires once right after it and in the repeated
hour only the first time; a job with a wildcard minute or hour follows real time.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

from croniter import croniter
from croniter.croniter import CroniterBadCronError, CroniterBadDateError

from jobs import dst


class InvalidSchedule(ValueError):
    """The schedule cannot be: the text says what is wrong and what would be right."""


class Recurrence(Protocol):
    def next_after(self, moment: datetime) -> datetime | None: ...


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidSchedule(f"{name!r} is no time zone; use an IANA name such as 'Europe/Berlin' or 'UTC'.") from None


_SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - croniter walks naive wall-clock time

EXPRESSION_CHARACTERS = 200
# croniter's own `R` is drawn anew each time it is read: two beats would disagree on the fire time.
_DICE = re.compile(r"[HhRr](\(|/|$)")
_RANGE = re.compile(r"(\w+)-(\w+)(?:/[1-9]\d*)?")
_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MONTHS = ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def _without_empty_range(item: str) -> str:
    """croniter reads `3-3` as "every"; a range with equal ends is that one value."""
    ends = _RANGE.fullmatch(item)
    return ends[1] if ends and _value(ends[1]) == _value(ends[2]) else item


def _value(text: str) -> int | str:
    if text.isdecimal():
        return int(text)
    return next((names.index(text.lower()) for names in (_WEEKDAYS, _MONTHS) if text.lower() in names), text)


@dataclass(frozen=True)
class Cron:
    """Five fields, or six with the seconds first, or an alias such as `@hourly`."""

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if len(self.expression) > EXPRESSION_CHARACTERS:
            raise InvalidSchedule(f"A cron expression may have {EXPRESSION_CHARACTERS} characters, not more.")
        if len(self._fields) not in (5, 6):
            raise InvalidSchedule(
                f"The cron expression {self.expression!r} must have 5 fields (minute hour day month weekday), "
                "or 6 with the seconds first."
            )
        if any(_DICE.match(item) for field in self._fields for item in field.split(",")):
            raise InvalidSchedule(
                f"The cron expression {self.expression!r} asks for a random or hashed value; name the value."
            )
        try:
            self._calendar(_SOME_DAY)
        except CroniterBadCronError as error:
            raise InvalidSchedule(f"The cron expression {self.expression!r} cannot be read: {error}.") from None
        _zone(self.timezone)

    @cached_property
    def _fields(self) -> list[str]:
        fields = _ALIASES.get(self.expression, self.expression).split()
        return [",".join(map(_without_empty_range, field.split(","))) for field in fields]

    @cached_property
    def is_fixed_time(self) -> bool:
        """Neither minute nor hour starts with `*`."""
        minute, hour = self._fields[-5:-3]
        return not (minute.startswith("*") or hour.startswith("*"))

    def next_after(self, moment: datetime) -> datetime | None:
        zone = _zone(self.timezone)
        try:
            return self._next_fixed(zone, moment) if self.is_fixed_time else self._next_in_real_time(zone, moment)
        except CroniterBadDateError:
            return None  # such as 30 February

    def _calendar(self, wall: datetime) -> croniter:
        """Matching naive wall-clock times strictly after one, as a calendar without clock changes has them."""
        return croniter(
            " ".join(self._fields), wall, ret_type=datetime, second_at_beginning=True, implement_cron_bug=True
        )

    def _next_fixed(self, zone: ZoneInfo, moment: datetime) -> datetime:
        # In the second pass of a repeated hour the wall clock shows times whose only fire is past: walk on over them.
        calendar = self._calendar(moment.astimezone(zone).replace(tzinfo=None, fold=0, microsecond=0))
        while True:
            wall: datetime = calendar.get_next()
            instants = dst.instants_of(zone, wall)
            instant = instants[0] if instants else dst.end_of_gap(zone, wall)
            if instant > moment:
                return instant

    def _next_in_real_time(self, zone: ZoneInfo, moment: datetime) -> datetime:
        """Walk the stretches of constant offset: within one, wall clock and real time run alike."""
        stretch, offset = moment, dst.offset_at(zone, moment)
        after = moment.replace(microsecond=0)
        while True:
            wall = (after.astimezone(UTC) + offset).replace(tzinfo=None)
            candidate: datetime = (self._calendar(wall).get_next() - offset).replace(tzinfo=UTC)
            change = dst.next_change(zone, stretch)
            if change is None or candidate < change.instant:
                return candidate
            stretch, offset = change.instant, change.after
            after = change.instant - timedelta(seconds=1)  # the instant of the change itself may match


_LONGEST_SECONDS = 10 * 366 * 24 * 3600


def _check_aware(what: str, moment: datetime) -> None:
    if moment.tzinfo is None:
        raise InvalidSchedule(f"The {what} {moment.isoformat()} has no time zone; add one, such as +00:00.")
    if not 1970 <= moment.year < 9999:
        raise InvalidSchedule(f"The {what} {moment.isoformat()} must lie between the years 1970 and 9998.")


@dataclass(frozen=True)
class Every:
    """Every so many seconds, in phase with an anchor: it never drifts."""

    seconds: int
    anchor: datetime

    def __post_init__(self) -> None:
        if type(self.seconds) is not int:
            raise InvalidSchedule(f"An interval must be a whole number of seconds, not {self.seconds!r}.")
        if not 1 <= self.seconds <= _LONGEST_SECONDS:
            raise InvalidSchedule(f"An interval must be 1 second to 10 years, not {self.seconds} seconds.")
        _check_aware("anchor", self.anchor)

    def next_after(self, moment: datetime) -> datetime:
        step = timedelta(seconds=self.seconds)
        return self.anchor.astimezone(UTC) + ((moment - self.anchor) // step + 1) * step


@dataclass(frozen=True)
class Once:
    at: datetime

    def __post_init__(self) -> None:
        _check_aware("instant", self.at)

    def next_after(self, moment: datetime) -> datetime | None:
        return self.at.astimezone(UTC) if self.at > moment else None
