"""What a cron expression may say, and what it stands for."""

from collections import Counter
from datetime import date, timedelta
from statistics import mean

import pytest

from jobs import cron
from tests.unit import cron_oracle

PLACES = ("second", "minute", "hour", "day", "month", "weekday")
EVERY = {"second": range(60), "minute": range(60), "hour": range(24), "day": range(1, 32), "month": range(1, 13)}
EVERY["weekday"] = range(7)


def expression_with(place: str, text: str) -> str:
    return " ".join(text if other == place else "*" for other in PLACES)


def field(place: str, text: str, key: str = "") -> cron.Field:
    found = getattr(cron.parse(expression_with(place, text), key=key), place)
    assert isinstance(found, cron.Field)
    return found


def values(place: str, text: str, key: str = "") -> list[int]:
    return list(field(place, text, key).values)


# ── What it stands for ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", PLACES)
def test_a_star_is_every_value(place: str) -> None:
    assert values(place, "*") == list(EVERY[place])
    assert field(place, "*").is_every
    assert field(place, "*").is_starred


@pytest.mark.parametrize("place", PLACES)
def test_every_value_from_the_lowest_to_the_highest_may_be_named(place: str) -> None:
    for value in EVERY[place]:
        assert values(place, str(value)) == [value]


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("month", "jan", [1]),
        ("month", "DEC", [12]),
        ("month", "Mar,apr", [3, 4]),
        ("month", "jun-aug", [6, 7, 8]),
        ("month", "jan-12/4", [1, 5, 9]),
        ("weekday", "sun", [0]),
        ("weekday", "SAT", [6]),
        ("weekday", "Thu,fri", [4, 5]),
        ("weekday", "mon-fri", [1, 2, 3, 4, 5]),
        ("weekday", "7", [0]),
        ("weekday", "0,7", [0]),
    ],
)
def test_months_and_weekdays_have_names_in_any_case(place: str, text: str, expected: list[int]) -> None:
    assert values(place, text) == expected


def test_all_names_stand_for_their_numbers() -> None:
    months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    weekdays = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
    assert [values("month", name) for name in months] == [[number] for number in range(1, 13)]
    assert [values("weekday", name) for name in weekdays] == [[number] for number in range(7)]


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("minute", "10-13", [10, 11, 12, 13]),
        ("minute", "5-5", [5]),
        ("hour", "3-03", [3]),
        ("weekday", "mon-1", [1]),
        ("hour", "22-6", [0, 1, 2, 3, 4, 5, 6, 22, 23]),
        ("minute", "58-1", [0, 1, 58, 59]),
        ("second", "59-0", [0, 59]),
        ("day", "30-2", [1, 2, 30, 31]),
        ("month", "nov-feb", [1, 2, 11, 12]),
        ("weekday", "sat-sun", [0, 6]),
        ("weekday", "sat-0", [0, 6]),
        ("weekday", "6-7", [0, 6]),
        ("weekday", "5-7", [0, 5, 6]),
        ("weekday", "7-2", [0, 1, 2]),
        ("weekday", "0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("weekday", "7-7", [0]),
        ("weekday", "fri-mon", [0, 1, 5, 6]),
    ],
)
def test_a_range_may_go_over_the_top(place: str, text: str, expected: list[int]) -> None:
    assert values(place, text) == expected


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("minute", "*/15", [0, 15, 30, 45]),
        ("minute", "*/1", list(range(60))),
        ("minute", "*/59", [0, 59]),
        ("minute", "10/20", [10, 30, 50]),
        ("minute", "59/5", [59]),
        ("minute", "10-30/10", [10, 20, 30]),
        ("hour", "3-3/2", [3]),
        ("hour", "22-6/2", [0, 2, 4, 6, 22]),
        ("hour", "22-6/3", [1, 4, 22]),
        ("day", "*/10", [1, 11, 21, 31]),
        ("month", "*/3", [1, 4, 7, 10]),
        ("month", "nov-feb/2", [1, 11]),
        ("weekday", "*/2", [0, 2, 4, 6]),
        ("weekday", "1-7/2", [0, 1, 3, 5]),
        ("weekday", "fri/1", [5, 6]),
    ],
)
def test_a_step_leaves_values_out(place: str, text: str, expected: list[int]) -> None:
    assert values(place, text) == expected


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("minute", "0,30", [0, 30]),
        ("minute", "30,0,30", [0, 30]),
        ("minute", "5-7,20-40/10,59", [5, 6, 7, 20, 30, 40, 59]),
        ("weekday", "mon,wed-thu,7", [0, 1, 3, 4]),
        ("hour", "1,*/12", [0, 1, 12]),
    ],
)
def test_a_list_joins_what_its_items_name(place: str, text: str, expected: list[int]) -> None:
    assert values(place, text) == expected


def test_a_list_is_starred_only_if_its_first_item_is() -> None:
    assert field("hour", "*/12,1").is_starred
    assert not field("hour", "1,*/12").is_starred


def test_l_is_the_last_day_of_a_month_alone_or_in_a_list() -> None:
    for text in ("L", "l"):
        assert field("day", text).has_last_day
        assert field("day", text).values == ()
    assert field("day", "15,L").has_last_day
    assert values("day", "15,L") == [15]
    assert not field("day", "15").has_last_day


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5#3", [(5, 3)]),
        ("fri#3", [(5, 3)]),
        ("FRI#1", [(5, 1)]),
        ("7#5", [(0, 5)]),
        ("5L", [(5, cron.LAST)]),
        ("friL", [(5, cron.LAST)]),
        ("FRIl", [(5, cron.LAST)]),
        ("L5", [(5, cron.LAST)]),
        ("Lfri", [(5, cron.LAST)]),
        ("7L", [(0, cron.LAST)]),
        ("mon#1,mon#3,friL", [(1, 1), (1, 3), (5, cron.LAST)]),
    ],
)
def test_a_weekday_may_be_the_nth_or_the_last_of_its_month(text: str, expected: list[tuple[int, int]]) -> None:
    assert list(field("weekday", text).nth) == expected
    assert field("weekday", text).values == ()


def test_the_last_weekday_is_neither_the_fourth_nor_the_fifth() -> None:
    assert [field("weekday", f"5#{nth}").nth for nth in range(1, 6)] == [((5, nth),) for nth in range(1, 6)]
    assert all(field("weekday", "5L").nth != field("weekday", f"5#{nth}").nth for nth in range(1, 6))


def test_an_nth_weekday_may_stand_beside_plain_ones() -> None:
    assert field("weekday", "1,5#3").nth == ((5, 3),)
    assert values("weekday", "1,5#3") == [1]


@pytest.mark.parametrize("place", ["day", "weekday"])
def test_a_question_mark_is_a_star_for_days(place: str) -> None:
    assert field(place, "?") == field(place, "*")
    assert field(place, "?,1").is_starred


@pytest.mark.parametrize(
    ("alias", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_an_alias_stands_for_its_expression_in_any_case(alias: str, expression: str) -> None:
    for text in (alias, alias.upper(), alias.title(), f"  {alias} "):
        assert cron.parse(text) == cron.parse(expression)


def test_five_fields_mean_second_0() -> None:
    assert cron.parse("* * * * *").second.values == (0,)
    assert not cron.parse("* * * * *").has_seconds
    assert cron.parse("0 * * * * *").has_seconds


def test_spaces_and_tabs_may_separate_and_surround_the_fields() -> None:
    assert cron.parse("\t0   3 *\t* *  ") == cron.parse("0 3 * * *")


@pytest.mark.parametrize(
    ("expression", "is_fixed_time"),
    [
        ("0 3 * * *", True),
        ("0-59 3 * * *", True),
        ("H H * * *", True),
        ("* 0 3 * * *", True),  # the second does not count
        ("* 3 * * *", False),
        ("0 * * * *", False),
        ("*/5 3 * * *", False),
        ("0 */2 * * *", False),
        ("*,5 3 * * *", False),
    ],
)
def test_a_fixed_time_has_no_star_before_minute_and_hour(expression: str, is_fixed_time: bool) -> None:
    assert cron.parse(expression).is_fixed_time == is_fixed_time


# ── H ────────────────────────────────────────────────────────────────────────────────────────────────────────────

KEYS = [f"job-{number}" for number in range(3000)]


@pytest.mark.parametrize(
    ("place", "text", "span"),
    [
        ("second", "H", range(60)),
        ("minute", "h", range(60)),
        ("hour", "H", range(24)),
        ("hour", "H(0-7)", range(8)),
        ("minute", "H(58-59)", range(58, 60)),
        ("minute", "H(30-30)", range(30, 31)),
        ("day", "H", range(1, 29)),  # not every month has the days after the 28th
        ("day", "H(1-31)", range(1, 32)),
        ("month", "H", range(1, 13)),
        ("weekday", "H", range(7)),
        ("weekday", "H(1-5)", range(1, 6)),
    ],
)
def test_h_spreads_the_keys_evenly_over_all_values(place: str, text: str, span: range) -> None:
    counts = Counter(value for key in KEYS for value in values(place, text, key))
    assert set(counts) == set(span)
    fair = len(KEYS) / len(span)
    assert all(0.5 * fair < count < 1.6 * fair for count in counts.values())


@pytest.mark.parametrize(
    ("place", "text", "span", "step"),
    [
        ("minute", "H/15", range(60), 15),
        ("minute", "H(0-29)/10", range(30), 10),
        ("second", "H/60", range(60), 60),
        ("hour", "H(9-17)/4", range(9, 18), 4),
        ("day", "H/7", range(1, 29), 7),
    ],
)
def test_h_with_a_step_spreads_the_phase(place: str, text: str, span: range, step: int) -> None:
    phases: Counter[int] = Counter()
    for key in KEYS[:2000]:
        found = values(place, text, key)
        assert found == list(range(found[0], span.stop, step))
        assert found[0] - span.start < step
        phases[found[0]] += 1
    assert len(phases) == step
    assert max(phases.values()) < 2 * mean(phases.values())


def test_h_is_the_same_for_the_same_key_for_ever() -> None:
    found = cron.parse("H H H H H H", key="nightly-report")
    assert [getattr(found, place).values for place in PLACES] == [(0,), (4,), (23,), (14,), (12,), (6,)]


def test_h_differs_from_field_to_field() -> None:
    pairs = {(*values("second", "H", key), *values("minute", "H", key)) for key in KEYS}
    assert len(pairs) > 1800  # of 3,600; were both the same there would be 60


def test_h_may_stand_in_a_list() -> None:
    assert set(values("minute", "0,H(30-59)", "one")) == {0, *values("minute", "H(30-59)", "one")}


@pytest.mark.parametrize(
    ("expression", "depends"),
    [
        ("H * * * *", True),
        ("0 h(0-7) * * *", True),
        ("0,H/15 * * * *", True),
        ("@hourly", False),
        ("0 0 * * thu", False),
        ("0 0 1 mar THU", False),
    ],
)
def test_only_an_h_makes_an_expression_depend_on_the_key(expression: str, depends: bool) -> None:
    assert cron.depends_on_key(expression) == depends
    assert (len({cron.parse(expression, key=key) for key in KEYS[:100]}) > 1) == depends


# ── Dates ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "days",
    [
        *("* * *", "1 * *", "31 * *", "L * *", "29 2 *", "*/10 * *", "* 2,12 *", "* * mon-fri", "15,L 6 *"),
        *("* * 5#1", "* * 5#5", "* * 5L", "* * L0", "* * 1#2,3L", "13 * 5", "*/2 * 5", "13 * */2", "1 2 5L", "L * 1#1"),
    ],
)
def test_an_expression_falls_on_the_dates_that_an_oracle_names(days: str) -> None:
    fields, oracle = cron.parse(f"0 0 {days}"), cron_oracle.Pattern(f"0 0 {days}")
    dates = [date(2026, 1, 1) + timedelta(days=number) for number in range(3 * 365)]  # a leap year is among them
    found = [day for day in dates if fields.falls_on(day)]
    assert found == [day for day in dates if oracle.matches_date(day)]
    assert found
