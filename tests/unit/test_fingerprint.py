"""Errors of one cause have one fingerprint; another kind, another place or other words make another."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executions.fingerprint import CHARACTERS, of_error

TRACEBACK = """Traceback (most recent call last):
  File "{file}", line {line}, in {function}
    work()
{error}"""
NUMBERS = st.integers(min_value=0)
IDS = st.uuids().flatmap(lambda one: st.sampled_from([str(one), one.hex, str(one).upper()]))
ADDRESSES = st.integers(min_value=0, max_value=2**64 - 1).map(hex)
PRINTED = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="'\"`")
QUOTED = st.builds("{0}{1}{0}".format, st.sampled_from("'\"`"), st.text(PRINTED))
VALUES = st.one_of(NUMBERS.map(str), IDS, ADDRESSES, QUOTED)


def told(error: str = "ValueError: no", *, file: str = "a.py", line: int = 1, function: str = "f") -> str:
    return TRACEBACK.format(file=file, line=line, function=function, error=error)


@given(st.one_of(*(st.tuples(kind, kind) for kind in (NUMBERS, IDS, ADDRESSES, QUOTED))))
def test_numbers_ids_addresses_and_quoted_values_do_not_matter(values: tuple[object, object]) -> None:
    one, other = (of_error(told(f"ValueError: the order {value} of today is gone")) for value in values)
    assert one == other


@given(NUMBERS, NUMBERS)
def test_the_line_in_the_file_does_not_matter(one: int, other: int) -> None:
    assert of_error(told(line=one)) == of_error(told(line=other))


@given(VALUES)
def test_another_kind_of_error_another_place_and_other_words_do(value: str) -> None:
    errors = [
        told(f"ValueError: order {value}"),
        told(f"KeyError: order {value}"),
        told(f"ValueError: invoice {value}"),
        told(f"ValueError: order {value}", file="b.py"),
        told(f"ValueError: order {value}", function="g"),
        f"ValueError: order {value}",
    ]
    assert len({of_error(error) for error in errors}) == len(errors)


@given(st.text())
def test_any_text_has_one_and_only_the_empty_one_has_none(text: str) -> None:
    assert len(of_error(text)) == (CHARACTERS if text else 0)
    assert of_error(text) == of_error(text)


def test_only_the_innermost_place_counts() -> None:
    inner = '  File "c.py", line 3, in h\n    work()\nValueError: no'
    ways = [f'Traceback (most recent call last):\n  File "{file}", line 1, in f\n    g()\n{inner}' for file in "ab"]
    assert of_error(ways[0]) == of_error(ways[1])


@pytest.mark.parametrize("number", [1, 22])
def test_a_real_traceback_is_read(number: int) -> None:
    try:
        raise LookupError(f"no order {number}")
    except LookupError as error:
        said = "".join(traceback.format_exception(error))
    assert of_error(said) == of_error(said.replace(f"order {number}", "order 333"))
    assert of_error(said) != of_error(said.replace("order", "invoice"))
