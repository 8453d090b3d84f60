"""Lists of values as a table or as a condition within a statement, which Django cannot say.

One parameter for a column, however many rows: for PostgreSQL the text of an array, which it reads fastest, for SQLite
JSON. Django would make a parameter of each value, and look at each several times.
"""

import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Lookup, UUIDField
from django.db.models.sql.compiler import SQLCompiler


def table(name: str, columns: Mapping[str, str], rows: Iterable[Sequence[object]]) -> tuple[str, list[str]]:
    """What stands after FROM, and its parameters. Columns are given with their types on PostgreSQL."""
    return columns_as_table(name, columns, list(zip(*rows, strict=True)) or [()] * len(columns))


def columns_as_table(
    name: str, columns: Mapping[str, str], values: Sequence[Sequence[object]]
) -> tuple[str, list[str]]:
    """The same of values that lie column by column."""
    if connection.vendor == "postgresql":
        arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
        return f"unnest({arrays}) AS {name} ({', '.join(columns)})", [_array(column) for column in values]
    numbered = ", ".join(f"json_extract(value, '$[{number}]') AS {column}" for number, column in enumerate(columns))
    text = json.dumps([[_stored(value) for value in row] for row in zip(*values, strict=True)])
    return f"(SELECT {numbered} FROM json_each(%s)) AS {name}", [text]


def _array(values: Sequence[object]) -> str:
    if values and type(values[0]) is uuid.UUID:  # as most are, thousands in a burst: asked once, not for each
        ids = cast(Sequence[uuid.UUID | None], values)
        return f"{{{','.join([one.hex if one else 'NULL' for one in ids])}}}"
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: object) -> str:
    """One of an array's values, as PostgreSQL reads them."""
    if value is None:
        return "NULL"
    if isinstance(value, uuid.UUID):
        return value.hex
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)  # numbers, and whether something is so


def as_parameters(values: Iterable[object]) -> list[Any]:
    """The values of a statement, as the database's driver takes them."""
    return list(values) if connection.vendor == "postgresql" else [_stored(value) for value in values]


def _stored(value: object) -> object:
    """As SQLite has it."""
    if isinstance(value, uuid.UUID):
        return value.hex
    return connection.ops.adapt_datetimefield_value(value) if isinstance(value, datetime) else value


def among(column: str, kind: str, values: Sequence[object]) -> tuple[str, list[str]]:
    """A condition for plain SQL, and its parameters: the column has one of these values."""
    if connection.vendor == "postgresql":
        return f"{column} = ANY(%s::{kind}[])", [_array(values)]
    return f"{column} IN (SELECT value FROM json_each(%s))", [json.dumps([_stored(value) for value in values])]


@UUIDField.register_lookup
class Among(Lookup):
    """One of these ids: `filter(pk__among=ids)`, which is `pk__in` for thousands of them."""

    lookup_name = "among"
    prepare_rhs = False
    rhs: Collection[uuid.UUID]

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        column, parameters = self.process_lhs(compiler, connection)
        condition, ids = among(column, "uuid", list(self.rhs))
        return condition, (*parameters, *ids)
