"""Executions as a table, for all commands that show some."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

from executions import words
from terminal.paper import table, toned

_WIDE = 130  # columns; on less an id would be broken, and could not be copied


def executions_table(rows: Sequence[dict[str, Any]], *, has_job: bool = False) -> RenderableType:
    """As the API answers them, one a line; with the job of each where they are of many."""
    return _Executions(rows, has_job)


@dataclass(frozen=True)
class _Executions:
    rows: Sequence[dict[str, Any]]
    has_job: bool

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._wide() if options.max_width >= _WIDE else self._narrow()

    def _wide(self) -> RenderableType:
        heads = ("FIRE TIME", *(("JOB",) if self.has_job else ()), "STATE", "TRIGGER", "ATTEMPT", "TOOK", "ID", "WHY")
        return table(heads, [_cells(row, has_job=self.has_job) for row in self.rows], whole=("FIRE TIME", "ID"))

    def _narrow(self) -> RenderableType:
        """Without what `executions show` tells."""
        heads = ("FIRE TIME, UTC", "STATE", "ID", "JOB" if self.has_job else "WHY")
        rows = [
            (
                f"{row['fire_time'].astimezone(UTC):%m-%d %H:%M:%S}",
                toned(row["state"]),
                row["id"],
                row["job"] if self.has_job else row["reason"] or row["error"],
            )
            for row in self.rows
        ]
        return table(heads, rows, whole=heads[:3])


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
