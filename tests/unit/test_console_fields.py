"""Fields of the admin's forms: moments in the viewer's zone, JSON, lists of words."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django import forms

from console.fields import JsonField, MomentField, WordsField, ZonedForm


class Meeting(ZonedForm):
    at = MomentField(required=False)
    name = forms.CharField(required=False)


def said(text: str, zone: str = "UTC", *, was: Any = None) -> Any:
    """The moment that a form understands, or what it says is wrong."""
    form = Meeting({"at": text, "viewer_zone": zone}, initial={"at": was})
    return form.cleaned_data["at"] if form.is_valid() else form.errors["at"][0]


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2026-06-15T12:00", "UTC", datetime(2026, 6, 15, 12, 0, tzinfo=UTC)),
        ("2026-06-15T12:00:07", "", datetime(2026, 6, 15, 12, 0, 7, tzinfo=UTC)),
        ("2026-06-15T21:00", "Asia/Tokyo", datetime(2026, 6, 15, 12, 0, tzinfo=UTC)),
        ("2026-06-15T17:45", "Asia/Kathmandu", datetime(2026, 6, 15, 12, 0, tzinfo=UTC)),
        ("2026-06-15T08:00", "America/New_York", datetime(2026, 6, 15, 12, 0, tzinfo=UTC)),
        ("2026-01-15T07:00", "America/New_York", datetime(2026, 1, 15, 12, 0, tzinfo=UTC)),
        # Of two hours that look the same the first.
        ("2026-10-25T02:30", "Europe/Berlin", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        # An offset goes before the zone of the page.
        ("2026-06-15T14:00+02:00", "Asia/Tokyo", datetime(2026, 6, 15, 12, 0, tzinfo=UTC)),
        ("", "Asia/Tokyo", None),
        ("   ", "Nowhere/Land", None),
    ],
)
def test_a_moment_is_of_the_zone_that_the_page_shows(text: str, zone: str, moment: datetime | None) -> None:
    assert said(text, zone) == moment


def test_without_a_zone_it_is_utc() -> None:
    form = Meeting({"at": "2026-06-15T12:00"})
    assert form.is_valid()
    assert form.cleaned_data["at"] == datetime(2026, 6, 15, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "wrong"),
    [
        ("soon", "UTC", "'soon' is no date and time; write it as 2026-11-17T08:30:00."),
        ("2026-02-30T12:00", "UTC", "'2026-02-30T12:00' is no date and time; write it as 2026-11-17T08:30:00."),
        ("x" * 99, "UTC", f"'{'x' * 40}' is no date and time; write it as 2026-11-17T08:30:00."),
        ("0001-01-01T00:00+14:00", "UTC", "'0001-01-01T00:00+14:00' is no date and time"),
        ("9999-12-31T23:00", "America/New_York", ""),
        ("2026-03-29T02:30", "Europe/Berlin", "The clocks of Europe/Berlin skip 2026-03-29 02:30:00; choose a moment"),
        ("2026-10-04T02:15", "Australia/Lord_Howe", "The clocks of Australia/Lord_Howe skip"),
        ("2026-06-15T12:00", "Nowhere/Land", "'Nowhere/Land' is no time zone"),
        ("2026-06-15T12:00", "../../etc/passwd", "is no time zone"),
        ("2026-06-15T12:00", "localtime", "is no time zone"),
    ],
)
def test_what_is_no_moment_is_told(text: str, zone: str, wrong: str) -> None:
    told = said(text, zone)
    assert isinstance(told, str)
    assert wrong in told


SECOND_OF_TWO = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("was", "text", "zone"),
    [
        (datetime(2026, 6, 15, 12, 0, 7, 123_456, tzinfo=UTC), "2026-06-15T12:00:07", "UTC"),
        (datetime(2026, 6, 15, 12, 0, 7, 123_456, tzinfo=UTC), "2026-06-15T21:00:07", "Asia/Tokyo"),
        (SECOND_OF_TWO, "2026-10-25T02:30", "Europe/Berlin"),
    ],
)
def test_a_moment_that_nobody_touched_stays_what_it_was(was: datetime, text: str, zone: str) -> None:
    assert said(text, zone, was=was) == was
    assert said(text.replace(":3", ":2").replace(":07", ":08"), zone, was=was) != was


def test_a_moment_is_written_in_utc_with_the_instant_for_the_script() -> None:
    tokyo = datetime.fromisoformat("2026-06-15T21:00:07.123+09:00")
    html = str(Meeting(initial={"at": tokyo})["at"])
    assert 'type="datetime-local"' in html
    assert 'value="2026-06-15T12:00:07"' in html
    assert 'data-instant="2026-06-15T12:00:07.123000+00:00"' in html
    assert 'step="1"' in html


def test_what_was_typed_is_written_as_it_was() -> None:
    html = str(Meeting({"at": "<soon>"})["at"])
    assert 'value="&lt;soon&gt;"' in html
    assert "data-instant" not in html
    assert "value=" not in str(Meeting()["at"])


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (list, "", []),
        (dict, "  ", {}),
        (list, '[1, "é", null]', [1, "é", None]),
        (dict, '\n{"a": {"b": [true, 1.5]}}\n', {"a": {"b": [True, 1.5]}}),
    ],
)
def test_json_is_read(kind: type, text: str, value: Any) -> None:
    assert JsonField(kind).clean(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        (list, "{}", 'This must be a list: ["value", 7].'),
        (dict, "[]", 'This must be an object: {"name": "value"}.'),
        (dict, "null", "This must be an object"),
        (list, '"text"', "This must be a list"),
        (list, "[1", "This is no JSON: "),
        (list, "[NaN]", "This is no JSON: NaN is no JSON number."),
        (list, "[-Infinity]", "-Infinity is no JSON number"),
        (list, "[" * 100_000, "This is no JSON: "),
        (list, f"[{'9' * 5000}]", "This is no JSON: "),
        (dict, "{'a': 1}", "This is no JSON: "),
    ],
)
def test_what_is_no_json_of_its_kind_is_told(kind: type, text: str, wrong: str) -> None:
    with pytest.raises(forms.ValidationError) as refused:
        JsonField(kind).clean(text)
    assert wrong in refused.value.messages[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"é": [1]}, '{\n  "é": [\n    1\n  ]\n}'),
        ([], "[]"),
        ('{"as it was typed', '{"as it was typed'),
        (None, None),
        ([timedelta(minutes=1)], '[\n  "P0DT00H01M00S"\n]'),
    ],
)
def test_json_is_written_so_that_a_person_can_edit_it(value: Any, text: str | None) -> None:
    assert JsonField(dict).prepare_value(value) == text


# ── Words ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "words"),
    [("", []), ("a", ["a"]), (" a ,b,, c d ,", ["a", "b", "c d"]), (",", []), ("ä, 200", ["ä", "200"])],
)
def test_words_have_commas_between_them(text: str, words: list[str]) -> None:
    assert WordsField().clean(text) == words


@pytest.mark.parametrize(("value", "text"), [(["a", 200], "a, 200"), ((), ""), ("a,b", "a,b"), (None, None)])
def test_words_are_written_as_they_are_typed(value: Any, text: str | None) -> None:
    assert WordsField().prepare_value(value) == text
