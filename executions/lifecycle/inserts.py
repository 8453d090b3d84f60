"""Rows of executions, a batch of them in one statement. Invariant: a fire that already has its row keeps that one."""

from collections.abc import Sequence

from executions import many_rows
from executions.models import Execution


def insert(executions: Sequence[Execution]) -> None:
    many_rows.insert(executions, ending="ON CONFLICT DO NOTHING")
