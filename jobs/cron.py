"""The language of cron expressions. Pure: no Django, no clock.

Owns what an expression may say: five fields, or six with the seconds first; numbers, names, `*`, ranges, steps, lists,
`L`, `#`, `H` and the aliases. Invariant: what cannot be meant is refused with the field, the value and what is allowed.
The outcome names plain values, so that nothing after this module has to know the language.
"""

import re
from calendar import monthrange
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from hashlib import sha256

from jobs.refusals import InvalidSchedule

EXPRESSION_CHARACTERS = 200
LAST = -1  # the place of a weekday within its month: first is 1

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True)
class Kind:
    """One of the six places in an expression, and what may stand there."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    allowed: str = ""
    unit: str = ""  # of an interval that would do instead of a long step

    @property
    def all(self) -> range:
        return range(self.low, self.high + 1)


_MONTHS = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SECOND = Kind("second", 0, 59, allowed="0 to 59", unit="second")
MINUTE = Kind("minute", 0, 59, allowed="0 to 59", unit="minute")
HOUR = Kind("hour", 0, 23, allowed="0 to 23", unit="hour")
DAY = Kind("day of month", 1, 31, allowed="1 to 31, or L for the last day", unit="day")
MONTH = Kind("month", 1, 12, _MONTHS, allowed="1 to 12 or jan to dec")
WEEKDAY = Kind(
    "weekday",
    0,
    6,
    ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
    allowed="0 to 7 (0 and 7 are Sunday) or sun to sat; 5#3 is the third Friday, 5L the last",
)
KINDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)

_NO_YEAR = " There is no field for the year: bound the schedule by a start and an end."
_NO_ALIASES = {
    "@every": " For an interval use Every(seconds=…, anchor=…).",
    "@reboot": " A schedule fires at moments, never because something was started.",
}

_ITEM = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?", re.ASCII)
_SPREAD = re.compile(r"h(?:\((?P<first>\d+)-(?P<last>\d+)\))?(?:/(?P<step>\d+))?", re.ASCII)
_NTH = re.compile(r"(?P<weekday>\w+)#(?P<nth>\d+)", re.ASCII)
_LAST_WEEKDAY = re.compile(r"l(?P<after>\w+)|(?P<before>\w+)l", re.ASCII)
_BEGINS_WITH_H = re.compile(r"(?<![\w@])h", re.IGNORECASE)  # no name does


@dataclass(frozen=True)
class Field:
    """What one place names: the values in order, and for days also those that depend on the month."""

    kind: Kind
    text: str
    values: tuple[int, ...]
    has_last_day: bool = False
    nth: tuple[tuple[int, int], ...] = ()  # (weekday, place in its month)

    @property
    def is_starred(self) -> bool:
        """Debian's cron looks at the first character only."""
        return self.text.startswith("*")

    @property
    def is_every(self) -> bool:
        return len(self.values) == len(self.kind.all)


_EVERY = {kind.name: Field(kind, "*", tuple(kind.all)) for kind in KINDS}  # most fields of most expressions


@dataclass(frozen=True)
class Fields:
    """A whole expression, read."""

    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def has_seconds(self) -> bool:
        return self.second.text != ""

    @property
    def is_fixed_time(self) -> bool:
        """Neither minute nor hour starts with `*`: Debian's cron treats such a job apart when clocks change."""
        return not (self.minute.is_starred or self.hour.is_starred)

    @property
    def needs_both_days(self) -> bool:
        """Whether day and weekday must both match. If neither starts with `*`, one of them is enough."""
        return self.day.is_starred or self.weekday.is_starred

    def falls_on(self, day: date) -> bool:
        """Whether it names a date."""
        if day.month not in self.month.values:
            return False
        length = monthrange(day.year, day.month)[1]
        is_day = day.day in self.day.values or (self.day.has_last_day and day.day == length)
        weekday, place = day.isoweekday() % 7, (day.day + 6) // 7
        is_weekday = weekday in self.weekday.values or (weekday, place) in self.weekday.nth
        is_weekday = is_weekday or ((weekday, LAST) in self.weekday.nth and day.day + 7 > length)
        return (is_day and is_weekday) if self.needs_both_days else (is_day or is_weekday)


@lru_cache(maxsize=16_384)
def parse(expression: str, *, key: str = "") -> Fields:
    """Read an expression; `key` is whose hash `H` stands for."""
    if len(expression) > EXPRESSION_CHARACTERS:
        raise InvalidSchedule("cron", f"A cron expression may have {EXPRESSION_CHARACTERS} characters, not more.")
    texts = _unaliased(expression).split()
    if len(texts) not in (5, 6):
        raise InvalidSchedule(
            "cron",
            f"The cron expression {expression!r} must have 5 fields (minute hour day month weekday), or 6 with the "
            f"seconds first, not {len(texts)}." + (_NO_YEAR if len(texts) == 7 else ""),
        )
    kinds = KINDS[6 - len(texts) :]
    read = [
        _EVERY[kind.name] if text == "*" else _Reader(kind, expression, key).read(text.lower())
        for kind, text in zip(kinds, texts, strict=True)
    ]
    if len(read) == 5:
        read.insert(0, Field(SECOND, "", (0,)))
    fields = Fields(*read)
    _check_date_comes(fields, expression)
    return fields


def depends_on_key(expression: str) -> bool:
    """Whether there is an `H`."""
    return _BEGINS_WITH_H.search(expression) is not None


def _unaliased(expression: str) -> str:
    text = expression.strip().lower()
    if not text.startswith("@"):
        return expression
    if text not in ALIASES:
        remedy = next((hint for start, hint in _NO_ALIASES.items() if text.startswith(start)), "")
        raise InvalidSchedule("cron", f"There is no alias {expression!r}; there are {', '.join(ALIASES)}.{remedy}")
    return ALIASES[text]


def _check_date_comes(fields: Fields, expression: str) -> None:
    if fields.day.has_last_day or not fields.needs_both_days:
        return  # the last day comes in every month, and a weekday comes by itself
    longest = max(monthrange(2024, month)[1] for month in fields.month.values)  # a leap year
    if fields.day.values and min(fields.day.values) > longest:
        raise InvalidSchedule(
            "cron",
            f"The cron expression {expression!r} never fires: the chosen months have at most {longest} days and the "
            f"day of month is {fields.day.text}; L is the last day of a month.",
        )


@dataclass(frozen=True)
class _Reader:
    """Reads the text of one place."""

    kind: Kind
    expression: str
    key: str

    def read(self, text: str) -> Field:
        values: set[int] = set()
        nth: set[tuple[int, int]] = set()
        has_last_day = False
        for item in text.split(","):
            if self.kind is DAY and item == "l":
                has_last_day = True
            elif self.kind is WEEKDAY and (special := self._special_weekday(item)):
                nth.add(special)
            else:
                values.update(self._values(item))
        return Field(self.kind, text.replace("?", "*"), tuple(sorted(values)), has_last_day, tuple(sorted(nth)))

    def _special_weekday(self, item: str) -> tuple[int, int] | None:
        if match := _NTH.fullmatch(item):
            if not 1 <= int(match["nth"]) <= 5:
                raise self._refusal(item, "a weekday comes one to five times in a month, so # takes 1 to 5")
            return self._number(match["weekday"], item), int(match["nth"])
        if match := _LAST_WEEKDAY.fullmatch(item):
            return self._number(match["after"] or match["before"], item), LAST
        return None

    def _values(self, item: str) -> Iterable[int]:
        if item == "?" and self.kind in (DAY, WEEKDAY):
            return self.kind.all
        if match := _SPREAD.fullmatch(item):
            return self._spread(item, match)
        match = _ITEM.fullmatch(item)
        if match is None or (match["first"] == "*" and match["last"]):
            raise self._refusal(item, f"allowed are {self.kind.allowed}, with lists, ranges and steps")
        step = self._step(item, match["step"])
        if match["first"] == "*":
            return self._stepped(item, list(self.kind.all), step)
        if match["last"] is None:
            first = self._number(match["first"], item)
            last = self.kind.high if match["step"] else first  # 10/5 is 10-59/5
        else:
            first, last = (self._number(match[end], item, is_end=True) for end in ("first", "last"))
        return self._stepped(item, self._from_to(first, last), step)

    def _from_to(self, first: int, last: int) -> list[int]:
        """A range; one that ends before it begins goes over the top: 22-6 is 22, 23, 0 … 6."""
        if first <= last:
            return list(range(first, last + 1))
        return [*range(first, self.kind.high + 1), *range(self.kind.low, last + 1)]

    def _stepped(self, item: str, values: list[int], step: int) -> list[int]:
        if step >= len(values) > 1:
            raise self._refusal(
                item,
                f"a step of {step} leaves only the first of {len(values)} values; name that value alone"
                + (f", or use an interval for every {step} {self.kind.unit}s" if self.kind.unit else ""),
            )
        return [value % 7 if self.kind is WEEKDAY else value for value in values[::step]]

    def _spread(self, item: str, match: re.Match[str]) -> Iterable[int]:
        """One value, or one phase of a step, chosen by the hash of the key: always the same for the same job."""
        low = int(match["first"]) if match["first"] else self.kind.low
        # Not every month has the days after the 28th.
        high = int(match["last"]) if match["last"] else (28 if self.kind is DAY else self.kind.high)
        if not self.kind.low <= low <= high <= self.kind.high:
            raise self._refusal(
                item, f"the range of H must lie within {self.kind.low} to {self.kind.high}, lowest first"
            )
        span = high - low + 1
        digest = sha256(f"{self.key}\0{self.kind.name}".encode()).digest()
        number = int.from_bytes(digest[:8], "big")
        if match["step"] is None:
            return [low + number % span]
        step = self._step(item, match["step"])
        if step > span:
            raise self._refusal(item, f"a step of {step} is longer than the {span} values it spreads over")
        return range(low + number % step, high + 1, step)

    def _step(self, item: str, text: str | None) -> int:
        if text is None:
            return 1
        if len(text) > 4 or int(text) == 0:
            raise self._refusal(item, f"a step must be 1 to {self.kind.high}")
        return int(text)

    def _number(self, text: str, item: str, *, is_end: bool = False) -> int:
        if text in self.kind.names and text:
            number = self.kind.names.index(text)
        elif text.isdecimal() and len(text) <= 4:
            number = int(text)
        else:
            raise self._refusal(item, f"allowed are {self.kind.allowed}")
        if self.kind is WEEKDAY and number == 7:
            return 7 if is_end else 0  # 5-7 ends with Sunday
        if not self.kind.low <= number <= self.kind.high:
            raise self._refusal(item, f"allowed are {self.kind.allowed}")
        return number

    def _refusal(self, item: str, problem: str) -> InvalidSchedule:
        return InvalidSchedule(
            "cron", f"The {self.kind.name} {item!r} of the cron expression {self.expression!r} cannot be: {problem}."
        )
