"""How large the tables are that fires write to, and how that changes: whether they bloat.

Sizes are those that the server tells, of a table with its long values and maps, of an index alone. How many rows there
are is counted; how many are dead, and how often autovacuum came, is what the server's statistics say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

SCHEDULES = "onbeat_schedule"

_SIZES = """
SELECT relname, NULL, pg_table_size(oid) FROM pg_class WHERE relname = ANY(%(tables)s) AND relkind = 'r'
UNION ALL
SELECT of_index.relname, of_table.relname, pg_relation_size(of_index.oid)
FROM pg_index
JOIN pg_class AS of_table ON of_table.oid = indrelid
JOIN pg_class AS of_index ON of_index.oid = indexrelid
WHERE of_table.relname = ANY(%(tables)s)
"""

_STATISTICS = """
SELECT relname, n_dead_tup, autovacuum_count, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
WHERE relname = ANY(%(tables)s)
"""


@dataclass(frozen=True)
class Table:
    """As the server's statistics see it; the last three since the table was made."""

    dead: int
    autovacuums: int
    updates: int
    hot_updates: int


@dataclass(frozen=True)
class Look:
    """At one moment."""

    sizes: Mapping[str, int]
    tables_of: Mapping[str, str]  # of the indexes
    tables: Mapping[str, Table]
    rows: Mapping[str, int]  # empty if nobody counted

    def whole(self, table: str) -> int:
        """A table and its indexes."""
        return self.sizes[table] + sum(self.sizes[index] for index, of in self.tables_of.items() if of == table)


def tables(now: datetime) -> list[str]:
    """What fires of this month write to."""
    from executions.partitions import PARENTS, Month

    return [SCHEDULES, *(f"{parent}_{Month.of(now)}" for parent in PARENTS)]


def look(inside: "psycopg.Connection[Any]", names: Sequence[str], *, counts_rows: bool = True) -> Look:
    given = {"tables": list(names)}
    sizes = inside.execute(_SIZES, given).fetchall()
    statistics = inside.execute(_STATISTICS, given).fetchall()
    counted = names if counts_rows else []
    return Look(
        sizes={name: size for name, _, size in sizes},
        tables_of={name: table for name, table, _ in sizes if table is not None},
        tables={name: Table(*figures) for name, *figures in statistics},
        rows={name: inside.execute(f'SELECT count(*) FROM "{name}"').fetchall()[0][0] for name in counted},
    )


def growth(start: Look, middle: Look, end: Look) -> dict[str, dict[str, Any]]:
    """Of each table and index. What a new row took is told where there are new ones."""
    return {name: _growth_of(name, start, middle, end) for name in sorted(start.sizes)}


def _growth_of(name: str, start: Look, middle: Look, end: Look) -> dict[str, Any]:
    table = start.tables_of.get(name, name)
    before, after = start.rows[table], end.rows[table]
    grown = end.sizes[name] - start.sizes[name]
    figures: dict[str, Any] = {
        "start_bytes": start.sizes[name],
        "middle_bytes": middle.sizes[name],
        "end_bytes": end.sizes[name],
        "growth_percent": percent(start.sizes[name], end.sizes[name]),
        "bytes_per_row_start": _each(start.sizes[name], before),
        "bytes_per_row_end": _each(end.sizes[name], after),
        "bytes_per_new_row": _each(grown, after - before),
    }
    if table != name:
        return figures | {"of": table}
    first, last = start.tables[name], end.tables[name]
    return figures | {
        "rows_start": before,
        "rows_end": after,
        "dead_start": first.dead,
        "dead_middle": middle.tables[name].dead,
        "dead_end": last.dead,
        "autovacuums": last.autovacuums - first.autovacuums,
        "updates": last.updates - first.updates,
        "hot_updates": last.hot_updates - first.hot_updates,
    }


def percent(before: int, after: int) -> float | None:
    return round((after - before) / before * 100, 2) if before else None


def _each(size: int, rows: int) -> float | None:
    return round(size / rows, 1) if rows > 0 else None
