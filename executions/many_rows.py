"""Rows of one model, thousands of them in one statement.

Thousands of rows cost Django seconds, most of it for columns that are the same in all and for arrays that psycopg
makes of the others. Here a column that is the same in all is one parameter, and the others travel as one list of values
(`value_lists`). Rows are stored as they are: without signals, and a row without a key gets one and does not learn it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import Field, JSONField, Model

from executions import value_lists

# Django can neither insert from a query nor join a list of values.
_INSERT = "INSERT INTO {table} ({columns}) SELECT {values} FROM {given} WHERE true {ending}"
_TEXTS = ("CharField", "TextField")


def insert(rows: Sequence[Model], *, ending: str = "") -> list[tuple[Any, ...]]:
    """Insert them, with what the statement shall say at its end; what it returns, if it returns anything."""
    if not rows:
        return []
    fields = rows[0]._meta.concrete_fields
    return insert_like(rows[0], {field.attname: _values(rows, field) for field in fields}, ending=ending)


def insert_like(row: Model, columns: Mapping[str, Sequence[Any]], *, ending: str = "") -> list[tuple[Any, ...]]:
    """The same for rows of which these columns are given, JSON as its text; in all others they are like this row."""
    kinds: dict[str, str] = {}
    differing: list[Sequence[object]] = []
    same: dict[str, Any] = {}
    for field in row._meta.concrete_fields:
        values = columns.get(field.attname)
        first = getattr(row, field.attname) if values is None else _read(values[0], field)
        if field.primary_key and first is None:
            continue  # the database gives it
        if values is not None and (field.primary_key or any(value != values[0] for value in values)):
            kinds[str(field.column)] = _kind(field)
            differing.append(values)
        else:
            same[str(field.column)] = field.get_db_prep_save(first, connection)
    if not differing:  # of one row, or of many that are alike
        kinds["place"] = "integer"
        differing.append(range(max(map(len, columns.values()))))
    names = [*(column for column in kinds if column != "place"), *same]
    values_of = [*(f"given.{column}" for column in kinds if column != "place"), *["%s"] * len(same)]
    given, parameters = value_lists.columns_as_table("given", kinds, differing)
    statement = _INSERT.format(
        table=row._meta.db_table, columns=", ".join(names), values=", ".join(values_of), given=given, ending=ending
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [*same.values(), *parameters])
        return cursor.fetchall() if "RETURNING" in ending else []


def store_again(rows: Sequence[Model], fields: Collection[str]) -> None:
    """Rows that are there and held, with other values in these fields. Django's bulk_update takes minutes for many."""
    if not rows:
        return
    meta = rows[0]._meta
    columns = [str(meta.get_field(name).column) for name in sorted(fields)]  # type: ignore[union-attr]
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns)
    insert(rows, ending=f"ON CONFLICT ({meta.pk.column}) DO UPDATE SET {changes}")


def _values(rows: Sequence[Model], field: "Field[Any, Any]") -> Sequence[object]:
    """JSON as its text: in Python [1] and [True] are the same, and in JSON they are not."""
    name = field.attname
    values = [getattr(row, name) for row in rows]
    if not isinstance(field, JSONField):
        return values
    if all(value is values[0] for value in values):  # that of the job
        return [_text(values[0], field)] * len(values)
    return [_text(value, field) for value in values]


def _text(value: object, field: "JSONField[Any, Any]") -> str | None:
    return None if value is None else json.dumps(value, cls=field.encoder)


def _read(value: Any, field: "Field[Any, Any]") -> Any:
    """The value of a field again."""
    return json.loads(value) if isinstance(field, JSONField) and value is not None else value


def _kind(field: "Field[Any, Any]") -> str:
    """Its type on PostgreSQL. Text without its length: a cast would cut it, and a column refuses what is too long."""
    return "text" if field.get_internal_type() in _TEXTS else str(field.db_type(connection))
