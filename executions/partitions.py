"""Monthly partitions of executions and attempts on PostgreSQL. On SQLite there are none, and nothing to do.

Owns which months have a table. Invariant: a month is dropped only when nothing in it has to stay, and that is looked at
while nobody can write to it. What has to stay, `executions/retention.py` says.
There is no default partition: it would have to be searched, under a lock, whenever a month is added.

Tables are made on a connection of their own, so that they stay when the caller's transaction is rolled back and hold
no lock until it commits.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q

from executions.models import Attempt, Execution

PARENTS = (Execution._meta.db_table, Attempt._meta.db_table)
MONTHS_AHEAD = 3
_LOCK = 0x6F6E_7061  # of whoever makes or drops partitions
_MONTH = re.compile(r"_(\d{4})_(\d{2})$")
# Room for updates on the same page, and a vacuum that comes early: rows change state a few times and then never again.
_STORAGE = "fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1"
_MAKER_PATIENCE_MS = 10_000
# Shorter than the second after which PostgreSQL looks for a ring of waiters and gives up one of them: rather this one.
_DROPPER_PATIENCE_MS = 500
# Who has asked for the rows of a month so often, twice for each, knows that there are some.
_WELL_FILLED = 500
IN_USE = "somebody uses it; tried again next time"


@dataclass(frozen=True, order=True)
class Month:
    year: int
    number: int

    @classmethod
    def of(cls, moment: datetime) -> "Month":
        moment = moment.astimezone(UTC)
        return cls(moment.year, moment.month)

    @property
    def start(self) -> datetime:
        return datetime(self.year, self.number, 1, tzinfo=UTC)

    @property
    def first_day(self) -> str:
        """As text, which the year 10000 has as well."""
        return f"{self.year:04}-{self.number:02}-01"

    @property
    def following(self) -> "Month":
        return Month(self.year + self.number // 12, self.number % 12 + 1)

    def __str__(self) -> str:
        return f"{self.year:04}_{self.number:02}"


_asked: Counter[Month] = Counter()


def are_used() -> bool:
    return connection.vendor == "postgresql"


def month_in_words(fire_time: datetime) -> str:
    """For the WHERE of a statement that the server keeps: its month as constants, which leave one table to plan for.

    With values alone the plan that would do for all months names each of their tables, so PostgreSQL makes another one
    for each call, which takes longer than the statement itself. Nothing at first: a plan from when the table was nearly
    empty would read all of it for each call, until the server has looked at the table again.
    """
    month = Month.of(fire_time)
    _asked[month] += 1
    if _asked[month] <= _WELL_FILLED or not are_used():
        return ""
    return f"AND fire_time >= '{month.first_day} 00:00+00' AND fire_time < '{month.following.first_day} 00:00+00'"


def make_ahead(now: datetime) -> list[Month]:
    """Make this month and the next ones, so that no insert has to wait for its table."""
    return make(months_ahead(now))


def months_ahead(now: datetime) -> list[Month]:
    """This one and the next ones."""
    months = [Month.of(now)]
    while len(months) <= MONTHS_AHEAD:
        months.append(months[-1].following)
    return months


def make(months: Iterable[Month]) -> list[Month]:
    """Make the tables of these months where they are missing; returns the new ones."""
    missing = sorted(set(months) - set(existing())) if are_used() else []
    if not missing:
        return []
    with _own_connection(_MAKER_PATIENCE_MS) as own:
        return make_on(own, missing)


def make_on(database: BaseDatabaseWrapper, months: Iterable[Month]) -> list[Month]:
    """The same on a given connection, within its transaction."""
    made = []
    with database.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        there = {parent: set(_months_of(cursor, parent)) for parent in PARENTS}
        for month in sorted(set(months)):
            lacking = [parent for parent in PARENTS if month not in there[parent]]
            for parent in lacking:
                _make_table(cursor, parent, month)
            made += [month] if lacking else []
    return made


def _make_table(cursor: Any, parent: str, month: Month) -> None:
    # Made apart and attached: `PARTITION OF` would lock the parent against every reader and writer.
    name = f"{parent}_{month}"
    cursor.execute(
        f'CREATE TABLE IF NOT EXISTS "{name}" (LIKE "{parent}" INCLUDING DEFAULTS INCLUDING CONSTRAINTS) '
        f"WITH ({_STORAGE})"
    )
    cursor.execute(
        f'ALTER TABLE "{parent}" ATTACH PARTITION "{name}" '
        f"FOR VALUES FROM ('{month.start.isoformat()}') TO ('{month.following.start.isoformat()}')"
    )


def existing() -> list[Month]:
    if not are_used():
        return []
    with connection.cursor() as cursor:
        executions, attempts = (_months_of(cursor, parent) for parent in PARENTS)
        return sorted(set(executions) & set(attempts))


def tables() -> dict[str, set[Month]]:
    """The months of each of the two, which should be the same."""
    with connection.cursor() as cursor:
        return {parent: set(_months_of(cursor, parent)) for parent in PARENTS}


def _months_of(cursor: Any, parent: str) -> list[Month]:
    cursor.execute(
        "SELECT relid::regclass::text FROM pg_partition_tree(%s::regclass) WHERE isleaf AND level > 0", [parent]
    )
    found = [_MONTH.search(name.strip('"')) for (name,) in cursor.fetchall()]
    return sorted(Month(int(match[1]), int(match[2])) for match in found if match)


def ended_before(moment: datetime) -> list[Month]:
    """The months that have a table and were over by a moment."""
    return [month for month in existing() if month.following.start <= moment]


def rows_estimated() -> dict[Month, int | None]:
    """How many executions each month has, as the database thinks; None: it has not counted yet."""
    if not are_used():
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, reltuples::bigint FROM pg_class JOIN pg_inherits ON inhrelid = oid "
            "WHERE inhparent = %s::regclass",
            [PARENTS[0]],
        )
        found = [(_MONTH.search(name), rows) for name, rows in cursor.fetchall()]
    return {Month(int(match[1]), int(match[2])): None if rows < 0 else rows for match, rows in found if match}


def drop(month: Month, *, unless: Mapping[str, Q]) -> str:
    """Drop a month, unless it has executions of one of these kinds; returns why not, if not.

    Looked at twice: first in passing, so that a month that has to stay is not locked for nothing.
    """
    if reason := why_kept(month, unless=unless):
        return reason
    try:
        return _drop(month, unless)
    except OperationalError:
        return IN_USE


def why_kept(month: Month, *, unless: Mapping[str, Q]) -> str:
    """Of which of these kinds a month has an execution; empty if of none. Only looked at."""
    return _first_of(unless, month, connection)


def _drop(month: Month, unless: Mapping[str, Q]) -> str:
    execution, attempt = (f'"{parent}_{month}"' for parent in PARENTS)
    with _own_connection(_DROPPER_PATIENCE_MS) as own, own.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        cursor.execute("SELECT to_regclass(%s)", [execution])
        if cursor.fetchone() == (None,):
            return ""  # another beat has just dropped it
        cursor.execute(f"LOCK TABLE {execution} IN SHARE ROW EXCLUSIVE MODE")  # nobody writes while it is looked at
        reason = _first_of(unless, month, own)
        if not reason:
            cursor.execute(f"DROP TABLE {execution}, {attempt}")
    return reason


def _first_of(kinds: Mapping[str, Q], month: Month, database: BaseDatabaseWrapper) -> str:
    """The first of these kinds of which the month has an execution. One by one: most have an index of their own."""
    rows = Execution.objects.firing_between(month.start, month.following.start)
    for kind, condition in kinds.items():
        if rows.filter(condition).query.exists().get_compiler(connection=database).has_results():
            return kind
    return ""


@contextmanager
def _own_connection(patience_ms: int) -> Iterator[BaseDatabaseWrapper]:
    """A transaction apart from the caller's, and apart from the pool: those who wait here hold what is in it."""
    own = connection.copy()
    own.settings_dict["OPTIONS"].pop("pool", None)
    try:
        own.set_autocommit(False)
        with own.cursor() as cursor:
            # A lock that does not come soon would make everybody wait behind it: rather come again.
            cursor.execute(f"SET LOCAL lock_timeout = {patience_ms}")
        try:
            yield own
        except BaseException:
            own.rollback()
            raise
        own.commit()
    finally:
        own.close()


def is_missing(error: Exception) -> bool:
    """Whether an insert failed for want of a partition. PostgreSQL calls that a check without a name."""
    cause = error.__cause__
    diagnosis = getattr(cause, "diag", None)
    return getattr(cause, "sqlstate", "") == "23514" and diagnosis is not None and not diagnosis.constraint_name


def months_of(moments: Iterable[datetime]) -> set[Month]:
    return {Month.of(moment) for moment in moments}


def months_between(first: datetime, last: datetime) -> list[Month]:
    months = [Month.of(first)]
    while months[-1].following.start <= last:
        months.append(months[-1].following)
    return months
