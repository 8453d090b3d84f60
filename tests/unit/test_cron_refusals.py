"""What a cron expression may not say, and the words in which it is refused."""

import pytest

from jobs import cron
from jobs.refusals import InvalidSchedule
from tests.unit.test_cron_language import PLACES, expression_with

ALLOWED = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day": "1 to 31, or L for the last day",
    "month": "1 to 12 or jan to dec",
    "weekday": "0 to 7 (0 and 7 are Sunday) or sun to sat; 5#3 is the third Friday, 5L the last",
}


def refusal_of(expression: str) -> str:
    with pytest.raises(InvalidSchedule) as refusal:
        cron.parse(expression)
    assert refusal.value.field == "cron"
    return str(refusal.value)


@pytest.mark.parametrize(
    ("expression", "count"), [("", 0), ("   ", 0), ("* * * *", 4), ("* * * * * * * *", 8), ("*****", 1)]
)
def test_a_wrong_number_of_fields_is_refused(expression: str, count: int) -> None:
    assert refusal_of(expression) == (
        f"The cron expression {expression!r} must have 5 fields (minute hour day month weekday), "
        f"or 6 with the seconds first, not {count}."
    )


def test_a_year_is_refused_with_what_does_the_same() -> None:
    assert refusal_of("0 0 12 * * ? 2027").endswith(
        "not 7. There is no field for the year: bound the schedule by a start and an end."
    )


@pytest.mark.parametrize(("alias", "remedy"), [("@every 5m", "use Every(seconds=…"), ("@reboot", "never because")])
def test_an_alias_of_others_is_refused_with_what_does_the_same(alias: str, remedy: str) -> None:
    assert remedy in refusal_of(alias)


@pytest.mark.parametrize("alias", ["@", "@hourly 5", "@daily @daily"])
def test_an_unknown_alias_is_refused_with_those_that_there_are(alias: str) -> None:
    assert refusal_of(alias) == (
        f"There is no alias {alias!r}; there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually."
    )


def test_an_expression_of_200_characters_is_read_and_a_longer_one_refused() -> None:
    longest = "0 0 * * *".ljust(200)
    assert cron.parse(longest) == cron.parse("0 0 * * *")
    assert refusal_of(longest + " ") == "A cron expression may have 200 characters, not more."


WRONG_VALUES = [
    *(("second", text) for text in ("60", "-", "a")),
    *(("minute", text) for text in ("60", "61-5", "5-60", "a", "hour", "12345", "r", "?")),
    *(("hour", text) for text in ("24", "1-24", "mon", "1,24")),
    *(("day", text) for text in ("0", "32", "0-5", "15w", "lw", "l-3", "5l", "5#3")),
    *(("month", text) for text in ("0", "13", "january", "mon", "l", "5#1", "?")),
    *(("weekday", text) for text in ("8", "0-8", "monday", "jan", "l", "ll", "8l", "x#1", "8#1", "5-fril")),
]
WRONG_VALUES += [
    (place, text)
    for place in PLACES
    for text in ("5-", "-5", "*-5", "1-2-3", "1.5", "1/", "/2", "*/-1", "*5", "5*", "r(0-5)", "h5", "h(1)", "h(1-2)-3")
]
WRONG_VALUES += [(place, text) for place in PLACES for text in ("٣", "*/٥", "h(٠-٥)", "²", "1;2", "", "*/*", "%")]


@pytest.mark.parametrize(("place", "text"), WRONG_VALUES)
def test_a_wrong_value_is_refused_with_the_field_the_value_and_what_is_allowed(place: str, text: str) -> None:
    expression = expression_with(place, f"1,{text}")
    name = "day of month" if place == "day" else place
    item = next(item for item in text.split(",") if item != "1")
    message = refusal_of(expression)
    assert message.startswith(f"The {name} {item!r} of the cron expression {expression!r} cannot be: allowed are ")
    assert message.removesuffix(", with lists, ranges and steps.").removesuffix(".").endswith(ALLOWED[place])


@pytest.mark.parametrize(
    ("place", "text", "problem"),
    [
        ("minute", "*/0", "a step must be 1 to 59"),
        ("minute", "3-3/0", "a step must be 1 to 59"),
        ("hour", "h/0", "a step must be 1 to 23"),
        ("day", "*/12345", "a step must be 1 to 31"),
        ("weekday", "5#6", "a weekday comes one to five times in a month, so # takes 1 to 5"),
        ("weekday", "5#0", "a weekday comes one to five times in a month, so # takes 1 to 5"),
        ("minute", "h(30-60)", "the range of H must lie within 0 to 59, lowest first"),
        ("minute", "h(9-3)", "the range of H must lie within 0 to 59, lowest first"),
        ("day", "h(0-5)", "the range of H must lie within 1 to 31, lowest first"),
        ("minute", "h/90", "a step of 90 is longer than the 60 values it spreads over"),
        ("hour", "h(0-7)/9", "a step of 9 is longer than the 8 values it spreads over"),
    ],
)
def test_a_step_place_or_range_that_cannot_be_is_refused(place: str, text: str, problem: str) -> None:
    expression = expression_with(place, text)
    name = "day of month" if place == "day" else place
    assert refusal_of(expression) == f"The {name} {text!r} of the cron expression {expression!r} cannot be: {problem}."


@pytest.mark.parametrize(
    ("place", "text", "step", "count"),
    [("minute", "*/90", 90, 60), ("minute", "*/60", 60, 60), ("hour", "*/24", 24, 24), ("minute", "10-20/30", 30, 11)],
)
def test_a_step_that_leaves_one_value_is_refused(place: str, text: str, step: int, count: int) -> None:
    """`*/90` looks like every 90 minutes, and other crons take it for hourly."""
    expression = expression_with(place, text)
    assert refusal_of(expression) == (
        f"The {place} {text!r} of the cron expression {expression!r} cannot be: a step of {step} leaves only the first "
        f"of {count} values; name that value alone, or use an interval for every {step} {place}s."
    )


@pytest.mark.parametrize(
    ("expression", "days", "day"),
    [
        ("0 0 30 2 *", 29, "30"),
        ("0 0 31 4,6,9,11 *", 30, "31"),
        ("* * 30-31 feb ?", 29, "30-31"),
        ("0 0 31 jun */2", 30, "31"),
        ("0 0 0 30 2 *", 29, "30"),
    ],
)
def test_a_date_that_never_comes_is_refused(expression: str, days: int, day: str) -> None:
    assert refusal_of(expression) == (
        f"The cron expression {expression!r} never fires: the chosen months have at most {days} days and the day of "
        f"month is {day}; L is the last day of a month."
    )


@pytest.mark.parametrize(
    "expression",
    ["0 0 29 2 *", "0 0 30,L 2 *", "0 0 30 2,3 *", "0 0 29,30 2 *", "0 0 30 2 1", "0 0 30 2 mon#1", "0 0 31 12 *"],
)
def test_a_date_that_comes_now_and_then_is_taken(expression: str) -> None:
    cron.parse(expression)
