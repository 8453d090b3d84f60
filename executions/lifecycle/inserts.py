"""Rows of executions, a batch of them in one statement.

Thousands of rows of a model cost Django a second, most of it for columns that are the same in all. Here a column that
is the same in all is one parameter, and the others travel as one list of values. Invariant: a fire that already has its
row keeps that one.
"""

import json
from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.models import Field, JSONField

from executions import value_lists
from executions.models import Execution

# Django can neither insert from a query nor join a list of values.
_INSERT = "INSERT INTO onbeat_execution ({columns}) SELECT {values} FROM {given} WHERE true ON CONFLICT DO NOTHING"
_TEXTS = ("CharField", "TextField")


def insert(executions: Sequence[Execution]) -> None:
    kinds: dict[str, str] = {}
    differing: list[Sequence[object]] = []
    same: dict[str, Any] = {}
    for field in Execution._meta.concrete_fields:
        values = _values(executions, field)
        if field.primary_key or any(value != values[0] for value in values):
            kinds[str(field.column)] = _kind(field)
            differing.append(values)
        else:
            same[str(field.column)] = field.get_db_prep_save(getattr(executions[0], field.attname), connection)
    columns = ", ".join([*kinds, *same])
    values_of = ", ".join([*(f"given.{column}" for column in kinds), *["%s"] * len(same)])
    given, parameters = value_lists.table("given", kinds, zip(*differing, strict=True))
    with connection.cursor() as cursor:
        cursor.execute(_INSERT.format(columns=columns, values=values_of, given=given), [*same.values(), *parameters])


def _values(executions: Sequence[Execution], field: "Field[Any, Any]") -> Sequence[object]:
    """JSON as its text: in Python [1] and [True] are the same, and in JSON they are not."""
    name = field.attname
    values = [getattr(execution, name) for execution in executions]
    if not isinstance(field, JSONField):
        return values
    if all(value is values[0] for value in values):  # that of the job
        return [None] * len(values)
    return [None if value is None else json.dumps(value) for value in values]


def _kind(field: "Field[Any, Any]") -> str:
    """Its type on PostgreSQL. Text without its length: a cast would cut it, and a column refuses what is too long."""
    return "text" if field.get_internal_type() in _TEXTS else str(field.db_type(connection))
