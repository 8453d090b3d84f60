"""The days of a cron expression in words. Pure: no Django, no clock.

Owns what day of month, month and weekday mean together: one of the two kinds of day alone, either of them, or both at
once. Invariant: the words claim no day that does not come: not every month has a 31st or a fifth Friday.
"""

from calendar import monthrange
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobs.cron import LAST, Field, Fields
from jobs.series import LISTED, cut, joined, runs, series

MONTHS = (
    "",
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
ALL_MONTHS = tuple(range(1, 13))
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
PLACES = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}


@dataclass(frozen=True)
class Days:
    """The same days for two places in a sentence."""

    ahead: str  # "every weekday" at 09:00
    behind: str  # every 5 minutes "on weekdays"


EVERY_DAY = Days("every day", "")


def days_in_words(fields: Fields) -> Days:
    months, weekday = fields.month.values, fields.weekday
    dates = _Dates.of(fields.day, months)
    is_any_day = all if fields.needs_both_days else any
    if is_any_day((dates.is_every, weekday.is_every)):
        return Days(f"every day{_in(months)}", _in(months).strip())
    has_dates = dates.count > 0 and not dates.is_every  # none are left of a 31 February
    nth = [pair for pair in weekday.nth if pair[0] not in weekday.values]
    if not has_dates and not nth:
        return _weekly(weekday.values, months)
    if weekday.is_every:
        return _on([_on_dates(dates, months)])
    weekdays = [*([_every(weekday.values)] if weekday.values else []), *([_places(nth)] if nth else [])]
    if not has_dates:
        return _on(weekdays, months, _of(months, come=_always_come(nth), count=len(nth)))
    if fields.needs_both_days:
        scope = " of the month" if months == ALL_MONTHS else _of(months)
        return _on([f"{text} falling on {dates.text('or')}" for text in weekdays], months, scope)
    come = dates.always_come and _always_come(nth)
    return _on([dates.text(), *weekdays], months, _of(months, come=come, count=2) if nth else "")


def _on(texts: Sequence[str], months: tuple[int, ...] = ALL_MONTHS, scope: str = "") -> Days:
    """Kinds of days of which one is enough. Months that bind more than the last of them stand before all."""
    if len(texts) > 1 and months != ALL_MONTHS:
        text = f"{_in(months).strip()} on {' and on '.join(texts)}"
    else:
        text = f"on {' and on '.join(texts)}{scope}"
    return Days(text, text)


@dataclass(frozen=True)
class _Dates:
    """Days of the month, without those that none of the chosen months has."""

    values: tuple[int, ...]
    has_last_day: bool
    shortest: int  # the fewest days that a chosen month can have
    longest: int

    @classmethod
    def of(cls, field: Field, months: tuple[int, ...]) -> "_Dates":
        shortest = min(monthrange(2023, month)[1] for month in months)
        longest = max(monthrange(2024, month)[1] for month in months)  # a leap year
        return cls(tuple(day for day in field.values if day <= longest), field.has_last_day, shortest, longest)

    @property
    def is_every(self) -> bool:
        return len(self.values) == self.longest

    @property
    def is_odd_or_even(self) -> bool:
        return self.values in [tuple(range(first, self.longest + 1, 2)) for first in (1, 2)]

    @property
    def always_come(self) -> bool:
        return self.is_odd_or_even or all(day <= self.shortest for day in self.values)

    @property
    def count(self) -> int:
        return len(self.values) + self.has_last_day

    def text(self, word: str = "and") -> str:
        texts = ["the last day"] if self.has_last_day else []
        if self.is_odd_or_even:
            texts.insert(0, "odd days" if self.values[0] == 1 else "even days")
        elif self.values:
            texts.insert(0, f"the {series(self.values, _ordinal, word)}")
        return joined(texts, word)


def _on_dates(dates: _Dates, months: tuple[int, ...]) -> str:
    if len(months) == 1 and len(dates.values) <= LISTED and not dates.has_last_day:
        return f"{series(dates.values)} {MONTHS[months[0]]}"
    return dates.text() + _of(months, come=dates.always_come, count=dates.count)


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _weekly(weekdays: Sequence[int], months: tuple[int, ...]) -> Days:
    every = _every(weekdays)
    behind = every if "except" in every else joined([f"{name}s" for name in _weekday_names(weekdays)])
    return Days(f"{every}{_in(months)}", f"on {behind}{_in(months)}")


def _every(weekdays: Sequence[int]) -> str:
    names = _weekday_names(weekdays)
    if len(names) > 4:
        return f"every day except {joined([name for name in WEEKDAYS if name not in names])}"
    return f"every {joined(names)}"


def _weekday_names(weekdays: Sequence[int]) -> list[str]:
    if tuple(weekdays) == (1, 2, 3, 4, 5):
        return ["weekday"]
    return [WEEKDAYS[weekday] for weekday in _from_monday(weekdays)]


def _from_monday(weekdays: Iterable[int]) -> list[int]:
    return sorted(weekdays, key=lambda weekday: weekday or 7)


def _places(nth: Sequence[tuple[int, int]]) -> str:
    """Such as "the first and third Monday and the last Friday"."""
    pieces = []
    for weekday in _from_monday({weekday for weekday, _ in nth}):
        places = [name for place, name in PLACES.items() if (weekday, place) in nth]
        pieces.append((f"the {joined(places)} {WEEKDAYS[weekday]}", len(places)))
    return cut(pieces)


def _always_come(nth: Sequence[tuple[int, int]]) -> bool:
    return all(place != 5 for _, place in nth)


def _months(months: tuple[int, ...]) -> str:
    if months == ALL_MONTHS:
        return "every month"
    if len(months) > 3 and len(runs(months)) == 1:
        return f"every month from {MONTHS[months[0]]} to {MONTHS[months[-1]]}"
    if len(months) > 8:
        return f"every month except {joined([MONTHS[month] for month in ALL_MONTHS if month not in months])}"
    return joined([MONTHS[month] for month in months])


def _in(months: tuple[int, ...]) -> str:
    return f" in {_months(months)}".replace("in every month from", "from") if months != ALL_MONTHS else ""


def _of(months: tuple[int, ...], *, come: bool = True, count: int = 1) -> str:
    """The months of so many days, which may come in all of these months or not."""
    if come:
        return f" of {_months(months)}"
    if months != ALL_MONTHS:
        return f" of {_months(months)} where there is one"
    return " of every month that has one" if count == 1 else " of any month"
