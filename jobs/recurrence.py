"""When a schedule fires. Pure: no Django, no clock.

Cron, Every and Once each answer `next_after(moment)`: the first fire strictly after it, in UTC, or None when there is
none. `Within` bounds any of them by a start and an end. croniter steps through the plain calendar; what that means in a
zone with clock changes is decided here, by the rule of Debian's cron: a fixed-time job that falls into the spring gap
fires once right after it and in the repeated hour only the first time; a job with a wildcard minute or hour follows
real time.
"""

from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

from croniter import croniter
from croniter.croniter import CroniterBadDateError

from jobs import cron, dst
from jobs.refusals import InvalidSchedule, shown

_SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - croniter walks naive wall-clock time
_SECOND = timedelta(seconds=1)
_LONGEST_SECONDS = 10 * 366 * 24 * 3600


class Recurrence(Protocol):
    def next_after(self, moment: datetime) -> datetime | None: ...


@dataclass(frozen=True)
class Cron:
    """Five fields, or six with the seconds first, or an alias such as `@hourly`. `H` takes its value from the key."""

    expression: str
    timezone: str = "UTC"
    key: str = ""

    def __post_init__(self) -> None:
        for field, text in (("cron", self.expression), ("timezone", self.timezone)):
            if not isinstance(text, str):
                raise InvalidSchedule(field, f"The {field} must be text, not {type(text).__name__}.")
        dst.zone_named(self.timezone)
        _ = self.fields  # reads the expression, and refuses what cannot be

    @cached_property
    def fields(self) -> cron.Fields:
        return cron.parse(self.expression, key=self.key)

    @cached_property
    def _walk(self) -> "_Walk":
        return _walk(_calendars(self.fields), self.timezone, self.fields.is_fixed_time)

    def next_after(self, moment: datetime) -> datetime | None:
        return self._walk.next_after(moment)


def shared_cron(expression: str, timezone: str, key: str) -> Cron:
    """One Cron for all schedules that say the same; a key makes a difference only where there is an `H`."""
    return _shared_cron(expression, timezone, key if cron.depends_on_key(expression) else "")


_shared_cron = lru_cache(maxsize=16_384)(Cron)


def _calendars(fields: cron.Fields) -> tuple[str, ...]:
    """The expression as plain calendars for croniter, of which the earliest answer counts.

    croniter joins day and weekday by rules of its own and loses some where `#` takes part, so each calendar names one
    kind of day, or days that must match together.
    """
    days = [*map(str, fields.day.values), *(["l"] if fields.day.has_last_day else [])]
    day = "*" if fields.day.is_every else ",".join(days)
    nth = ",".join(
        f"l{weekday}" if place == cron.LAST else f"{weekday}#{place}" for weekday, place in fields.weekday.nth
    )
    weekdays = [text for text in (_listed(fields.weekday) if fields.weekday.values else "", nth) if text]
    if fields.needs_both_days:
        pairs = [(day, weekday) for weekday in weekdays]
    else:
        pairs = [(day, "*"), *(("*", weekday) for weekday in weekdays)]
    times = [_listed(fields.minute), _listed(fields.hour)]
    end = [_listed(fields.second)] if fields.has_seconds else []
    return tuple(" ".join([*times, day, _listed(fields.month), weekday, *end]) for day, weekday in pairs)


def _listed(field: cron.Field) -> str:
    return "*" if field.is_every else ",".join(map(str, field.values))


@lru_cache(maxsize=16_384)
def _walk(calendars: tuple[str, ...], timezone: str, is_fixed_time: bool) -> "_Walk":
    return _Walk(calendars, dst.zone_named(timezone), is_fixed_time)


class _Walk:
    """Walks calendars in a zone, for all schedules that share them, and remembers its last answer."""

    def __init__(self, calendars: tuple[str, ...], zone: ZoneInfo, is_fixed_time: bool) -> None:
        # day_or=False: what must match together stands together, and alternatives are calendars of their own.
        self._croniters = [croniter(text, _SOME_DAY, ret_type=datetime, day_or=False) for text in calendars]
        self._zone = zone
        self._find = self._next_fixed if is_fixed_time else self._next_in_real_time
        self._remembered: tuple[datetime, datetime] | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        moment = moment.astimezone(UTC)  # two moments of one zone are compared by their wall clocks, a trap of Python's
        if moment.year >= dst.LAST_YEAR:
            return None
        remembered = self._remembered
        if remembered is not None and remembered[0] <= moment < remembered[1]:
            return remembered[1]  # between a question and its answer the answer stays the same
        try:
            answer = self._find(moment)
        except CroniterBadDateError:
            return None  # such as a 29 February on the fifth Monday, within fifty years
        self._remembered = moment, answer
        return answer

    def _next_wall(self, wall: datetime) -> datetime:
        """The first matching wall-clock time strictly after one, in a calendar without clock changes."""
        # A croniter holds its position, and threads may ask at the same time: each asks a copy.
        found: list[datetime] = []
        for calendar in self._croniters:
            try:
                found.append(copy(calendar).get_next(start_time=wall))
            except CroniterBadDateError:
                continue
        if not found:
            raise CroniterBadDateError
        return min(found)

    def _next_fixed(self, moment: datetime) -> datetime:
        # In the second pass of a repeated hour the wall clock shows times whose only fire is past: walk on over them.
        wall = moment.astimezone(self._zone).replace(tzinfo=None, fold=0, microsecond=0)
        while True:
            wall = self._next_wall(wall)
            instants = dst.instants_of(self._zone, wall)
            instant = instants[0] if instants else dst.end_of_gap(self._zone, wall)
            if instant > moment:
                return instant

    def _next_in_real_time(self, moment: datetime) -> datetime:
        """Walk the stretches of constant offset: within one, wall clock and real time run alike."""
        stretch, offset = moment, dst.offset_at(self._zone, moment)
        after = moment.replace(microsecond=0)
        while True:
            wall = (after.astimezone(UTC) + offset).replace(tzinfo=None)
            candidate = (self._next_wall(wall) - offset).replace(tzinfo=UTC)
            change = dst.next_change(self._zone, stretch, until=candidate)
            if change is None:
                return candidate
            stretch, offset = change.instant, change.after
            after = change.instant - _SECOND  # the instant of the change itself may match


def _check_aware(field: str, what: str, moment: datetime) -> None:
    if not isinstance(moment, datetime):
        raise InvalidSchedule(field, f"The {what} must be a date with a time, not {type(moment).__name__}.")
    if moment.tzinfo is None:
        raise InvalidSchedule(field, f"The {what} {moment.isoformat()} has no time zone; add one, such as +00:00.")
    if not 1970 <= moment.year <= dst.LAST_YEAR:
        raise InvalidSchedule(
            field, f"The {what} {moment.isoformat()} must lie between the years 1970 and {dst.LAST_YEAR}."
        )


@dataclass(frozen=True)
class Every:
    """Every so many seconds, in phase with an anchor: it never drifts."""

    seconds: int
    anchor: datetime

    def __post_init__(self) -> None:
        if type(self.seconds) is not int:
            raise InvalidSchedule("every", f"An interval must be a whole number of seconds, not {self.seconds!r}.")
        if not 1 <= self.seconds <= _LONGEST_SECONDS:
            raise InvalidSchedule(
                "every", f"An interval must be 1 second to 10 years, not {shown(self.seconds)} seconds."
            )
        _check_aware("anchor", "anchor", self.anchor)

    def next_after(self, moment: datetime) -> datetime | None:
        if moment.year >= dst.LAST_YEAR:
            return None
        step, anchor = timedelta(seconds=self.seconds), self.anchor.astimezone(UTC)
        return anchor + ((moment - anchor) // step + 1) * step


@dataclass(frozen=True)
class Once:
    at: datetime

    def __post_init__(self) -> None:
        _check_aware("once", "instant", self.at)

    def next_after(self, moment: datetime) -> datetime | None:
        at = self.at.astimezone(UTC)
        return at if at > moment else None


@dataclass(frozen=True)
class Within:
    """The fires of another recurrence from `start` up to `end`, both included. It never fires at `start` by itself."""

    recurrence: Cron | Every | Once
    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.recurrence, Cron | Every | Once):
            raise InvalidSchedule(
                "schedule", f"Bounds are for a Cron, Every or Once, not for {type(self.recurrence).__name__}."
            )
        for field, moment in (("start", self.start), ("end", self.end)):
            if moment is not None:
                _check_aware(field, field, moment)
        if self.start is not None and self.end is not None and self.end.astimezone(UTC) < self.start:
            raise InvalidSchedule(
                "end",
                f"The end {self.end.isoformat()} comes before the start {self.start.isoformat()}; "
                "choose a later end or an earlier start.",
            )

    def next_after(self, moment: datetime) -> datetime | None:
        if self.start is not None:
            moment = max(moment, self.start.astimezone(UTC) - timedelta(microseconds=1))
        following = self.recurrence.next_after(moment)
        return None if following is None or (self.end is not None and following > self.end) else following
