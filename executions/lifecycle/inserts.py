"""Rows of executions, a batch of them in one statement. Invariant: a fire that already has its row keeps that one."""

from collections.abc import Mapping, Sequence
from typing import Any

from executions import many_rows
from executions.models import Execution

_ENDING = "ON CONFLICT DO NOTHING"


def insert(executions: Sequence[Execution]) -> None:
    many_rows.insert(executions, ending=_ENDING)


def insert_like(execution: Execution, columns: Mapping[str, Sequence[Any]]) -> None:
    many_rows.insert_like(execution, columns, ending=_ENDING)
