"""The page about schedules says what the code does: each of its tables is read and tried."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from jobs import cron, dst
from jobs.recurrence import Cron, Every, Recurrence
from jobs.refusals import InvalidSchedule
from tests.unit.cron_oracle import Pattern
from tests.unit.fire_times import utc

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cron.md"
PLACES = {kind.name: number for number, kind in enumerate(cron.KINDS)}


def tables(head: str) -> list[list[str]]:
    """The rows below each head that reads like this, without backticks."""
    found, is_inside = [], False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            is_inside = False
        elif cells == head.split(" | "):
            is_inside = True
        elif is_inside and set(line) != {"|", "-"}:
            found.append(cells)
    assert found, f"no table {head!r}"
    return found


def times(cell: str) -> list[datetime]:
    return [utc(text.strip()) for text in cell.split(",")]


def series(recurrence: Recurrence, moment: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < count:
        following = recurrence.next_after(found[-1] if found else moment)
        assert following is not None
        found.append(following)
    return found


def read_field(name: str, text: str, key: str = "") -> cron.Field:
    texts = ["*"] * 6
    texts[PLACES[name]] = text
    fields = cron.parse(" ".join(texts), key=key)
    found = (fields.second, fields.minute, fields.hour, fields.day, fields.month, fields.weekday)[PLACES[name]]
    assert found.kind.name == name
    return found


def test_fields_are_those_of_the_code() -> None:
    in_code = [
        [kind.name, f"{kind.low} to {kind.high}", f"{kind.names[kind.low]} to {kind.names[-1]}" if kind.names else ""]
        for kind in cron.KINDS
    ]
    assert tables("field | numbers | names") == in_code


def test_aliases_are_those_of_the_code() -> None:
    assert dict(tables("alias | stands for")) == cron.ALIASES


def test_limits_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"up to {cron.EXPRESSION_CHARACTERS} characters" in page
    assert f"between the years 1970 and {dst.LAST_YEAR}." in page.replace("\n", " ")


@pytest.mark.parametrize(("text", "field", "values"), tables("written | field | stands for"))
def test_what_a_field_stands_for(text: str, field: str, values: str) -> None:
    assert ", ".join(map(str, read_field(field, text).values)) == values


@pytest.mark.parametrize(("text", "field", "meaning"), tables("written | field | means"))
def test_what_is_said_of_days_and_of_h_is_read_as_that(text: str, field: str, meaning: str) -> None:
    if "H" not in text:
        found = read_field(field, text)
        assert found.has_last_day or found.nth or found.is_every
        return
    low, high = map(int, re.findall(r"from (\d+) to (\d+)", meaning)[0])
    begins = {read_field(field, text, key=str(key)).values[0] for key in range(1000)}
    ends = {read_field(field, text, key=str(key)).values[-1] for key in range(1000)}
    if step := re.search(r"every (\d+) minutes", meaning):
        low, high = map(int, re.findall(r"from (\d+) to (\d+)", meaning)[-1])
        last = 29 if "(" in text else 59
        assert ends == set(range(last - int(step[1]) + 1, last + 1))
    else:
        assert ends == begins
    assert begins == set(range(low, high + 1))


@pytest.mark.parametrize(("expression", "days"), tables("expression | days in July 2026"))
def test_how_days_combine(expression: str, days: str) -> None:
    expected = [datetime(2026, 7, int(day), tzinfo=utc("2026-07-01").tzinfo) for day in days.split(",")]
    found = series(Cron(expression), utc("2026-06-30 23:59"), len(expected) + 1)
    assert found[:-1] == expected
    assert found[-1] >= utc("2026-08-01")


@pytest.mark.parametrize(("expression", "following"), tables("expression | first fires"))
def test_the_examples(expression: str, following: str) -> None:
    expected = times(following)
    assert series(Cron(expression), utc("2026-06-15 12:00"), len(expected)) == expected


CLOCK_CHANGES = tables("expression | zone | after (UTC) | next fires (UTC) | why")


@pytest.mark.parametrize(("expression", "zone", "after", "following", "_why"), CLOCK_CHANGES)
def test_the_examples_of_clock_changes(expression: str, zone: str, after: str, following: str, _why: str) -> None:
    expected = times(following)
    assert series(Cron(expression, zone), utc(after), len(expected)) == expected


def test_the_examples_show_both_directions_for_both_kinds_of_job() -> None:
    shown = set()
    for expression, zone, after, following, _ in CLOCK_CHANGES:
        begin, end = (dst.offset_at(dst.zone_named(zone), moment) for moment in (utc(after), times(following)[-1]))
        shown.add((Pattern(expression).is_fixed_time, end > begin))
    assert shown == {(True, True), (True, False), (False, True), (False, False)}


@pytest.mark.parametrize(("expression", "_why"), tables("expression | why"))
def test_what_is_refused(expression: str, _why: str) -> None:
    with pytest.raises(InvalidSchedule):
        Cron(expression)


@pytest.mark.parametrize(
    ("seconds", "anchor", "after", "following"), tables("seconds | anchor (UTC) | after (UTC) | next fires (UTC)")
)
def test_the_examples_of_intervals(seconds: str, anchor: str, after: str, following: str) -> None:
    expected = times(following)
    assert series(Every(int(seconds), utc(anchor)), utc(after), len(expected)) == expected


def test_the_longest_interval_is_ten_years(noon: datetime) -> None:
    longest = 10 * 366 * 24 * 3600
    assert Every(longest, noon).next_after(noon) == noon + timedelta(seconds=longest)
    with pytest.raises(InvalidSchedule, match="1 second to 10 years"):
        Every(longest + 1, noon)
