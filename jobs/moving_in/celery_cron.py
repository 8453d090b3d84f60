"""Celery's crontabs, and the cron expressions that mean the same here. Pure: no Django, no Celery.

Owns the difference between the two languages. Celery reads five texts into sets of numbers, and a date must be in all
of them; here a day of month and a weekday that are both named are joined by "or". Invariant: an expression that is made
here names the minutes, hours and dates of the crontab and no others; where there is none, that is refused.
"""

import re
from collections.abc import Iterable

from jobs import cron
from jobs.cron import DAY, HOUR, MINUTE, MONTH, WEEKDAY, Kind
from jobs.moving_in.sources import Crontab
from jobs.refusals import InvalidSchedule, shown

_MONTHS = {name: number for number, name in enumerate(MONTH.names) if name}
_WEEKDAYS = {name: number for number, name in enumerate(WEEKDAY.names)}
_PART = re.compile(r"(?:(?P<star>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\d{1,6}))?", re.ASCII)
_CALLED_THERE = {MINUTE: "minute", HOUR: "hour", DAY: "day_of_month", MONTH: "month_of_year", WEEKDAY: "day_of_week"}
_WEEK = 7


def expressions(crontab: Crontab) -> list[str]:
    """The expressions that name the same times. The first is written as it was; where it begins with stars that do not
    stand for every hour, a second says the same without, which differs on nights when clocks change."""
    texts = {kind: getattr(crontab, name).strip().lower() for kind, name in _CALLED_THERE.items()}
    named = {kind: values(kind, text) for kind, text in texts.items()}
    written = {kind: _written(kind, texts[kind], named[kind]) for kind in texts}
    _join_days(written, named)
    first = _expression(written)
    if len(named[HOUR]) == len(HOUR.all):
        return [first]
    unstarred = {kind: _unstarred(kind, text) if kind in (MINUTE, HOUR) else text for kind, text in written.items()}
    return list(dict.fromkeys([first, _expression(unstarred)]))


def values(kind: Kind, text: str) -> tuple[int, ...]:
    """The numbers that Celery reads in one of the five texts, in order."""
    found: set[int] = set()
    for part in text.split(","):
        found.update(_part(kind, part.strip(), text))
    return tuple(sorted(found))


def _part(kind: Kind, part: str, text: str) -> Iterable[int]:
    match = _PART.fullmatch(part)
    # A step belongs to a star or a range, there.
    if match is None or (match["step"] and not match["star"] and not match["last"]):
        raise _refusal(kind, text, "it cannot be read")
    if match["star"]:
        numbers = list(kind.all)
    else:
        first = _number(kind, match["first"], text)
        last = _number(kind, match["last"], text) if match["last"] else first
        numbers = (
            list(range(first, last + 1))
            if first <= last
            else [*range(first, kind.high + 1), *range(kind.low, last + 1)]
        )
    step = int(match["step"] or 1)
    if step == 0:
        raise _refusal(kind, text, "a step must be 1 or more")
    return numbers[::step]


def _number(kind: Kind, text: str, whole: str) -> int:
    """A number, or a name by its first three letters: Celery looks for a month before it looks for a weekday."""
    if text.isdecimal() and len(text) <= 4:
        number = int(text)
    else:
        found = _MONTHS.get(text[:3], _WEEKDAYS.get(text[:3]))
        if found is None:
            raise _refusal(kind, whole, "it cannot be read")
        number = found
    if not kind.low <= number <= kind.high:
        raise _refusal(kind, whole, f"{number} is not from {kind.low} to {kind.high}, and Celery refuses it, too")
    return number


def _refusal(kind: Kind, text: str, problem: str) -> InvalidSchedule:
    return InvalidSchedule(
        "cron", f"The {_CALLED_THERE[kind]} {shown(text)} of its crontab cannot be moved: {problem}."
    )


# ── Written here ─────────────────────────────────────────────────────────────────────────────────────────────────


def _expression(written: dict[Kind, str]) -> str:
    return " ".join(written[kind] for kind in (MINUTE, HOUR, DAY, MONTH, WEEKDAY))


def _written(kind: Kind, text: str, numbers: tuple[int, ...]) -> str:
    """As it was written if that means the same here, or else as a list."""
    text = text.replace(" ", "")
    if len(numbers) == len(kind.all):
        return "*"
    return text if _means(kind, text, numbers) else _listed(numbers)


def _means(kind: Kind, text: str, numbers: tuple[int, ...]) -> bool:
    fields = ["*"] * 5
    place = (MINUTE, HOUR, DAY, MONTH, WEEKDAY).index(kind)
    fields[place] = text
    try:
        read = cron.parse(" ".join(fields))
    except InvalidSchedule:
        return False
    return (read.minute, read.hour, read.day, read.month, read.weekday)[place].values == numbers


def _listed(numbers: tuple[int, ...]) -> str:
    """Numbers in order, those that follow one another as a range."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))  # two are as short as a range
        for run in runs
    )


def _unstarred(kind: Kind, text: str) -> str:
    whole = f"{kind.low}-{kind.high}"
    return ",".join(whole + part[1:] if part.startswith("*") else part for part in text.split(","))


def _join_days(written: dict[Kind, str], named: dict[Kind, tuple[int, ...]]) -> None:
    """Both must match there. Here they do if one of them begins with a star; else it is said by weeks of the month."""
    days, weekdays = named[DAY], named[WEEKDAY]
    if written[DAY].startswith("*") or written[WEEKDAY].startswith("*"):
        return
    weeks = _weeks(days)
    if weeks is None:
        raise InvalidSchedule(
            "cron",
            f"Its crontab wants the days {_listed(days)} of a month where they are also the weekdays "
            f"{_listed(weekdays)}, which no cron expression here can say.",
        )
    written[DAY] = "*"
    written[WEEKDAY] = ",".join(f"{weekday}#{week}" for week in weeks for weekday in weekdays)


def _weeks(days: tuple[int, ...]) -> list[int] | None:
    """The weeks of a month that these days are, counted from its first; None: some are only a part of one."""
    weeks = sorted({(day + _WEEK - 1) // _WEEK for day in days})
    whole = [day for week in weeks for day in range((week - 1) * _WEEK + 1, min(week * _WEEK, DAY.high) + 1)]
    return weeks if tuple(whole) == days else None
