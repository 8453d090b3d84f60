"""Whatever a handler returns or raises can be stored."""

import json

import pytest

from executions.storable import ERROR_CHARACTERS, in_a_line, storable_error, storable_result, storable_text

KILOBYTE = 1024


class Opaque:
    def __repr__(self) -> str:
        return "<Opaque \x00\ud800>"


def stored(value: object, limit_bytes: int = KILOBYTE) -> object:
    """What is kept of a value, after a check that PostgreSQL's JSON would take it."""
    result = storable_result(value, limit_bytes=limit_bytes)
    text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    text.encode("utf-8")  # no lone surrogate
    assert "\\u0000" not in text.replace("\\\\", "")  # after an escaped backslash it is only text that looks so
    return result


def raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error) as caught:
        return caught


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1.5, "", "text ✓ 😀", [], {}, [1, "a", None], {"nested": {"list": [1, {"x": False}]}}, 10**30],
    ids=repr,
)
def test_plain_json_is_kept_as_it_is(value: object) -> None:
    assert stored(value) == value


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ((1, 2), [1, 2]),
        ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        ("a\x00b", "a␀b"),
        ({"k\x00": ["\x00"]}, {"k␀": ["␀"]}),
        ("\\\x00", "\\␀"),  # a NUL after a backslash
        ("\\\\\x00", "\\\\␀"),
        ("\x00\x00", "␀␀"),
        (r"\u0000" + "\x00", r"\u0000" + "␀"),
        ("a\ud800b", "a?b"),
        ({"\udfff": 1}, {"?": 1}),
        ("line\nbreak\ttab\x01", "line\nbreak\ttab\x01"),
    ],
    ids=repr,
)
def test_what_a_database_cannot_hold_is_replaced(value: object, kept: object) -> None:
    assert stored(value) == kept


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        ([float("inf")], "[inf]"),
        ({7}, "{7}"),
        (b"bytes", "b'bytes'"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (Opaque(), "<Opaque ␀?>"),
        (ValueError("as a value"), "ValueError('as a value')"),
    ],
    ids=ascii,
)
def test_what_is_not_json_leaves_a_note(value: object, shown: str) -> None:
    assert stored(value) == {"not_json": shown}


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "kind"),
    [(10**5000, "int"), ([10**5000], "list"), (nested(100_000), "list"), (Mute(), "Mute"), ({"a": Mute()}, "dict")],
    ids=["a number of 5001 digits", "such a number in a list", "a deep list", "no repr", "no repr inside"],
)
def test_what_can_be_neither_json_nor_shown_leaves_its_kind(value: object, kind: str) -> None:
    assert stored(value) == {"not_json": f"a value of type {kind}"}


@pytest.mark.parametrize("value", [r"\u0000", r"\\u0000", r"C:\u0000\x", {r"\u0000": [r"\u0000"]}], ids=ascii)
def test_text_that_only_spells_a_nul_is_kept_as_it_is(value: object) -> None:
    assert stored(value) == value


def test_a_structure_that_contains_itself_leaves_a_note() -> None:
    circle: list[object] = [1]
    circle.append(circle)
    assert stored(circle) == {"not_json": "[1, [...]]"}


def test_the_note_on_a_large_value_that_is_not_json_is_short() -> None:
    assert stored({"x" * 5000: {1}}) == {"not_json": "{'" + "x" * 998}


def test_a_value_of_exactly_the_limit_is_kept() -> None:
    assert stored("x" * 98, limit_bytes=100) == "x" * 98


def test_a_value_above_the_limit_leaves_its_size_and_its_start() -> None:
    assert stored("x" * 99, limit_bytes=100) == {
        "too_large": "101 bytes, the limit is 100",
        "start": '"' + "x" * 99 + '"',
    }


def test_the_limit_is_in_bytes_and_the_start_never_ends_inside_a_character() -> None:
    assert stored("✓" * 1000) == {"too_large": "3002 bytes, the limit is 1024", "start": '"' + "✓" * 66}


def test_a_huge_value_leaves_little_behind() -> None:
    assert len(json.dumps(stored(["x" * 100] * 100_000))) < 400


def test_an_error_is_kept_as_its_traceback() -> None:
    text = storable_error(raised(ValueError("no such customer")))
    assert text.startswith("Traceback (most recent call last):")
    assert "in raised" in text
    assert text.endswith("ValueError: no such customer")


def test_the_cause_of_an_error_is_kept_too() -> None:
    error = RuntimeError("outer")
    error.__cause__ = raised(KeyError("inner"))
    text = storable_error(raised(error))
    assert "KeyError: 'inner'" in text
    assert text.endswith("RuntimeError: outer")


def test_an_error_that_was_never_raised_has_its_message() -> None:
    assert storable_error(ValueError("quiet")) == "ValueError: quiet"


def test_an_error_that_cannot_say_itself_is_kept_by_its_name() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "Mute: <exception str() failed>" in storable_error(raised(Mute()))


def test_of_a_long_error_the_end_is_kept() -> None:
    text = storable_error(raised(ValueError("x" * 2 * ERROR_CHARACTERS + " the point")))
    assert len(text) == ERROR_CHARACTERS
    assert text.endswith("x the point")


def test_an_error_with_odd_characters_can_be_stored() -> None:
    assert storable_error(ValueError("a\x00b\ud800c")) == "ValueError: a␀b?c"


@pytest.mark.parametrize(("text", "limit", "kept"), [("abc", 3, "abc"), ("abcd", 3, "abc"), ("", 3, "")])
def test_text_is_cut_at_its_limit(text: str, limit: int, kept: str) -> None:
    assert storable_text(text, limit) == kept


def test_a_value_that_is_nested_too_deep_is_told_and_not_kept() -> None:
    value: list[object] = []
    for _ in range(900):
        value = [value]
    assert storable_result(value, limit_bytes=10_000) == {"too_deep": "nested more than 100 levels"}


def test_a_log_line_has_no_values_of_a_row_that_the_database_refused() -> None:
    error = ValueError('null value in column "key"\nDETAIL:  Failing row contains (7, {"password": "hunter2"}).')
    assert in_a_line(error) == 'ValueError: null value in column "key"'
