"""Lists of values arrive in a statement as they were given."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from executions import value_lists

pytestmark = pytest.mark.django_db

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
TEXTS = [
    "plain",
    "",
    "NULL",
    "null",
    'a "quote"',
    "back\\slash",
    "{brace},comma",
    "line\nbreak",
    "é 😀",
    " spaces ",
    "'",
    "%s",
]


def read(kinds: dict[str, str], rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    table, parameters = value_lists.table("given", kinds, rows)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(kinds)} FROM {table}", parameters)
        return [tuple(row) for row in cursor.fetchall()]


def test_texts_of_every_kind_arrive_as_they_are() -> None:
    rows: list[tuple[object, ...]] = [(number, text) for number, text in enumerate([*TEXTS, None])]
    assert sorted(read({"number": "integer", "said": "text"}, rows)) == sorted(rows)


def test_numbers_and_truths_arrive_as_they_are() -> None:
    rows: list[tuple[object, ...]] = [(1, True), (-(2**62), False), (0, None)]
    assert [
        (number, None if truth is None else bool(truth))
        for number, truth in read({"n": "bigint", "t": "boolean"}, rows)
    ] == rows


def test_no_rows_are_no_rows() -> None:
    assert read({"number": "integer", "said": "text"}, []) == []


@pytest.mark.full
def test_ids_and_moments_arrive_as_they_are() -> None:
    rows: list[tuple[object, ...]] = [
        (uuid.uuid4(), MOMENT),
        (uuid.uuid4(), MOMENT + timedelta(days=1)),
        (uuid.uuid4(), None),
    ]
    assert read({"id": "uuid", "moment": "timestamptz"}, rows) == rows
