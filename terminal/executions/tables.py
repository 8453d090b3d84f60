"""Executions as a table, for all commands that show some."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType

from executions import words
from terminal.paper import table, toned


def executions_table(rows: Sequence[dict[str, Any]], *, has_job: bool = False) -> RenderableType:
    """As the API answers them, one a line; with the job of each where they are of many."""
    heads = ("FIRE TIME", *(("JOB",) if has_job else ()), "STATE", "TRIGGER", "ATTEMPT", "TOOK", "ID", "WHY")
    return table(heads, [_cells(row, has_job=has_job) for row in rows])


def _cells(row: dict[str, Any], *, has_job: bool) -> list[Any]:
    took = row["finished_at"] - row["started_at"] if row["started_at"] and row["finished_at"] else None
    return [
        row["fire_time"],
        *([row["job"]] if has_job else []),
        toned(row["state"]),
        row["trigger"].lower(),
        f"{row['attempt']} of {row['max_attempts']}",
        words.duration(took) if took is not None else "-",
        row["id"],
        row["reason"] or row["error"],
    ]
