"""A schedule as a sentence that a person can check. Pure: no Django, no clock.

Owns the sentence, and in it the times of a day. Invariant: it is true. It is made of what the fields name, not of how
they were written, and says how many values it leaves out. The times are what the clocks of the named zone show; what
becomes of them when these clocks change is not told.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from jobs import dst
from jobs.cron import Fields
from jobs.day_wording import EVERY_DAY, MONTHS, days_in_words
from jobs.recurrence import Cron, Every, Once, Within
from jobs.series import LISTED, joined, runs, series

# Zones whose last part says too little ("West") or the opposite: Etc/GMT+5 lies five hours behind.
WHOLE_NAMES: tuple[str, ...] = ("US/", "Canada/", "Brazil/", "Chile/", "Mexico/", "Etc/GMT+", "Etc/GMT-")
WHOLE_NAMES += ("Australia/North", "Australia/South", "Australia/West")

LONGEST = 240  # characters; an expression may have 200
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_UNITS = ((_HOUR, "hour"), (_MINUTE, "minute"), (1, "second"))
_YEAR_OF_RULES = 2026  # stands for what the clocks of a zone do in any year


def in_words(recurrence: Cron | Every | Once | Within) -> str:
    """One line without a full stop, such as "Every weekday at 09:00, New York"."""
    if isinstance(recurrence, Within):
        return _bounded(recurrence)
    if isinstance(recurrence, Once):
        return f"Once, on {_moment(recurrence.at, ' at ')}"
    if isinstance(recurrence, Every):
        return f"Every {_interval(recurrence.seconds)}"
    return _calendar(recurrence)


def later_in_words(seconds: int) -> str:
    """How much later than its time a fire may come, such as "up to 30 seconds later"."""
    length = _interval(seconds)
    article = {"second": "a ", "minute": "a ", "hour": "an "}.get(length, "")
    return f"up to {article}{length} later"


def _bounded(within: Within) -> str:
    inner = within.recurrence
    if isinstance(inner, Once) and within.next_after(inner.at - timedelta(seconds=1)) is None:
        return "Never"  # the one instant lies out of bounds
    bounds = [("from", within.start), ("until", within.end)]
    return ", ".join([in_words(inner), *(f"{word} {_moment(at, ' ')}" for word, at in bounds if at is not None)])


def _moment(at: datetime, between: str) -> str:
    at = at.astimezone(UTC)
    precision = "seconds" if at.second else "minutes"  # a person plans no fractions
    return f"{at.day} {MONTHS[at.month]} {at.year}{between}{at.time().isoformat(precision)} UTC"


def _interval(seconds: int) -> str:
    """What follows "every": real time, in which a day is 24 hours."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    count = seconds // size
    days = f" ({count // 24} days)" if unit == "hour" and count > 24 and count % 24 == 0 else ""
    return unit if count == 1 else f"{count} {unit}s{days}"


def _calendar(cron: Cron) -> str:
    fields, days = cron.fields, days_in_words(cron.fields)
    is_daily = days == EVERY_DAY
    times = _times(fields.second.values, fields.minute.values, fields.hour.values, is_daily=is_daily)
    zone = "" if is_daily and _is_same_everywhere(times.period, cron) else f", {_zone(cron.timezone)}"
    sentence = f"{times.text} {days.behind}".rstrip() if times.is_rate else f"{days.ahead} {times.text}"
    if len(sentence) + len(zone) > LONGEST:
        sentence = f"{days.ahead} {_times_cut(fields)}"
    if len(sentence) + len(zone) > LONGEST:
        sentence = f"at the times of {' '.join(cron.expression.split())}"
    return sentence[0].upper() + sentence[1:] + zone


def _zone(name: str) -> str:
    return name if name.startswith(WHOLE_NAMES) else name.rpartition("/")[2].replace("_", " ")


def _is_same_everywhere(period: int | None, cron: Cron) -> bool:
    """Whether clocks set to UTC would give the same fires: they then show the same place within each period."""
    if period is None:
        return False
    zone = dst.zone_named(cron.timezone)
    changes = dst.changes_in_year(zone, _YEAR_OF_RULES)
    offsets = [dst.offset_at(zone, datetime(_YEAR_OF_RULES, 1, 1, tzinfo=UTC)), *(change.after for change in changes)]
    follows_real_time = not (changes and cron.fields.is_fixed_time)
    return follows_real_time and all(offset % timedelta(seconds=period) == timedelta(0) for offset in offsets)


@dataclass(frozen=True)
class _Times:
    """The times of a day."""

    text: str
    is_rate: bool  # "every 5 minutes" stands before the days, "at 09:00" after them
    period: int | None = None  # the seconds after which it repeats, if an hour or less


@lru_cache(maxsize=1024)
def _times(seconds: tuple[int, ...], minutes: tuple[int, ...], hours: tuple[int, ...], *, is_daily: bool) -> _Times:
    moments = [hour * _HOUR + minute * _MINUTE + second for hour in hours for minute in minutes for second in seconds]
    step = min((later - earlier for earlier, later in pairwise(moments)), default=_DAY)
    windows = _windows(moments, step, is_daily=is_daily)
    if len(windows) == 1 and step * len(moments) == _DAY and len(moments) > 2:
        return _around_the_clock(step, moments[0])
    is_one_window = len(windows) == 1 and len(moments) > 3 and step <= _HOUR
    if is_one_window or (len(moments) > LISTED and len(windows) <= 3 and min(map(len, windows)) > 1):
        spans = [f"from {_clock(window[0], step)} to {_clock(window[-1], step)}" for window in windows]
        return _Times(f"every {_interval(step)} {joined(spans)}", is_rate=True)
    if len(moments) <= LISTED:
        return _Times(f"at {joined([_clock(moment) for moment in moments])}", is_rate=False)
    return _field_by_field(seconds, minutes, hours)


def _windows(moments: Sequence[int], step: int, *, is_daily: bool) -> list[list[int]]:
    """The stretches of a day with a constant step. One may go over midnight if the next day is like this one."""
    windows = runs(moments, step)
    if is_daily and len(windows) > 1 and moments[-1] + step == moments[0] + _DAY:
        return [*windows[1:-1], windows[-1] + windows[0]]
    return windows


def _around_the_clock(step: int, first: int) -> _Times:
    every = f"every {_interval(step)}"
    if step > _HOUR:
        return _Times(f"{every} starting at {_clock(first)}", is_rate=True)
    word = "at" if step in (_MINUTE, _HOUR) else "starting at"
    minute, second = divmod(first, _MINUTE)
    place = [f"minute {minute}"] if step > _MINUTE else []
    place += [f"second {second}"] if second else []
    return _Times(f"{every} {word} {', '.join(place)}" if first else every, is_rate=True, period=step)


def _field_by_field(seconds: tuple[int, ...], minutes: tuple[int, ...], hours: tuple[int, ...]) -> _Times:
    """The long form, for what has no rhythm over the day."""
    if len(minutes) == 60 and len(hours) == 24:
        return _Times(f"every minute at {_named('second', seconds, 60)}", is_rate=True, period=_MINUTE)
    of_hour = _named("minute", minutes, 60)
    if seconds != (0,):
        of_hour = f"{_named('second', seconds, 60)} of {of_hour}"
    if len(hours) == 24:
        return _Times(f"every hour at {of_hour}", is_rate=True, period=_HOUR)
    is_rate = of_hour.startswith("every ")
    return _Times(f"{'' if is_rate else 'at '}{of_hour} of {_named('hour', hours, 24)}", is_rate)


def _times_cut(fields: Fields) -> str:
    hours, minutes, seconds = fields.hour.values, fields.minute.values, fields.second.values
    others = len(hours) * len(minutes) * len(seconds) - 1
    return f"at {_clock(hours[0] * _HOUR + minutes[0] * _MINUTE + seconds[0])} and {others} more times of the day"


def _named(unit: str, values: tuple[int, ...], all_of_them: int) -> str:
    if len(values) == all_of_them:
        return f"every {unit}"
    return f"{unit} {values[0]}" if len(values) == 1 else f"{unit}s {series(values)}"


def _clock(moment: int, step: int = _DAY) -> str:
    """A time of day; with seconds where it, or the step to the next, has some."""
    minutes, second = divmod(moment, _MINUTE)
    shown = f"{minutes // 60:02}:{minutes % 60:02}"
    return f"{shown}:{second:02}" if second or step % _MINUTE else shown
