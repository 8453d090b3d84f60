"""Read the tables of django-celery-beat, of any version from 2.0 on, without needing the package.

Owns the SQL. Invariants: nothing is written; columns that a version does not have are taken as empty; a row that cannot
be read becomes a task that says so, and keeps none of the others from being read.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.moving_in.sources import Clocked, Crontab, Interval, NoSchedule, Pattern, Task
from jobs.refusals import Refused, shown

_PREFIX = "django_celery_beat_"
_TASKS = f"{_PREFIX}periodictask"
# In the order in which django-celery-beat looks at them.
_SCHEDULES = {
    "interval": (f"{_PREFIX}intervalschedule", ("every", "period")),
    "crontab": (
        f"{_PREFIX}crontabschedule",
        ("minute", "hour", "day_of_month", "month_of_year", "day_of_week", "timezone"),
    ),
    "solar": (f"{_PREFIX}solarschedule", ("event", "latitude", "longitude")),
    "clocked": (f"{_PREFIX}clockedschedule", ("clocked_time",)),
}
_TEXTS = ("name", "task", "args", "kwargs", "queue", "exchange", "routing_key", "headers", "description")
_MOMENTS = ("expires", "start_time", "last_run_at", "date_changed")
_OTHERS = ("priority", "expire_seconds", "one_off", "enabled", "total_run_count")
_MICROSECONDS = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
    "microseconds": 1,
}
_ARE_MOMENTS = {*_MOMENTS, "clocked_time"}


class NoTables(Refused):
    """The database does not have them."""


class _Unreadable(Exception):
    pass


def read(connection: BaseDatabaseWrapper, *, moments_in: ZoneInfo | None = None) -> list[Task]:
    """All tasks, in the order in which they were made. Moments without an offset are of a zone, UTC if none is said."""
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
    if _TASKS not in tables:
        raise NoTables(
            "database",
            f"There is no table {_TASKS} in this database; name the one that django-celery-beat uses with --database.",
        )
    reader = _Reader(connection, moments_in)
    schedules = {
        kind: {row["id"]: row for row in reader.rows(table, columns)} if table in tables else {}
        for kind, (table, columns) in _SCHEDULES.items()
    }
    columns = (*_TEXTS, *_MOMENTS, *_OTHERS, *(f"{kind}_id" for kind in _SCHEDULES))
    return [reader.task(row, schedules) for row in reader.rows(_TASKS, columns)]


class _Reader:
    def __init__(self, connection: BaseDatabaseWrapper, moments_in: ZoneInfo | None) -> None:
        self._connection = connection
        self._zone = moments_in or UTC

    def rows(self, table: str, wanted: Sequence[str]) -> list[dict[str, Any]]:
        """Those of the columns that are there; the others are None."""
        quote = self._connection.ops.quote_name
        with self._connection.cursor() as cursor:
            there = {column.name for column in self._connection.introspection.get_table_description(cursor, table)}
            columns = ["id", *(name for name in wanted if name in there)]
            # As text: SQLite's driver would end everything with an error of its own at one moment that is none.
            is_text = self._connection.vendor == "sqlite"
            chosen = [
                f"CAST({quote(name)} AS TEXT)" if is_text and name in _ARE_MOMENTS else quote(name) for name in columns
            ]
            cursor.execute(f"SELECT {', '.join(chosen)} FROM {quote(table)} ORDER BY {quote('id')}")
            missing = dict.fromkeys(wanted)
            return [missing | dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]

    def task(self, row: Mapping[str, Any], schedules: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> Task:
        texts: dict[str, Any] = {name: _text(row[name]) for name in _TEXTS}
        try:
            moments = {name: self._moment(name, row[name]) for name in _MOMENTS}
            numbers = {name: _whole(name, row[name]) for name in ("priority", "expire_seconds", "total_run_count")}
            pattern = self._pattern(row, schedules)
        except _Unreadable as problem:
            return Task(
                name=texts["name"], task=texts["task"], pattern=NoSchedule(str(problem), "Correct the row there.")
            )
        return Task(
            **texts,
            pattern=pattern,
            expires=moments["expires"],
            start_time=moments["start_time"],
            last_run_at=moments["last_run_at"],
            changed_at=moments["date_changed"],
            priority=numbers["priority"],
            expire_seconds=numbers["expire_seconds"],
            total_run_count=numbers["total_run_count"] or 0,
            is_one_off=bool(row["one_off"]),
            is_enabled=row["enabled"] is None or bool(row["enabled"]),
        )

    def _pattern(self, row: Mapping[str, Any], schedules: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> Pattern:
        kind = next((kind for kind in _SCHEDULES if row[f"{kind}_id"] is not None), None)
        if kind is None:
            return NoSchedule("It has no schedule.", "Give it one there, or leave it out.")
        found = schedules[kind].get(row[f"{kind}_id"])
        if found is None:
            return NoSchedule(f"Its {kind} schedule is no longer there.", "Give it one there, or leave it out.")
        match kind:
            case "interval":
                return _interval(found)
            case "crontab":
                texts = {name: _text(found[name]) or "*" for name in _SCHEDULES["crontab"][1] if name != "timezone"}
                return Crontab(**texts, timezone=_text(found["timezone"]) or "UTC")
            case "clocked":
                at = self._moment("clocked_time", found["clocked_time"])
                return Clocked(at) if at else NoSchedule("It has no moment.", "Give it one there, or leave it out.")
        return NoSchedule(
            f"It follows the sun ({_text(found['event'])}), and no schedule here does.",
            "Choose a time of day, or let a job at midnight ask for a run at the right moment.",
        )

    def _moment(self, name: str, value: Any) -> datetime | None:
        if value is None or value == "":
            return None
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=self._zone)
            return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            raise _Unreadable(f"Its {name} {shown(value)} is no moment.") from None


def _interval(row: Mapping[str, Any]) -> Pattern:
    every, unit = _whole("every", row["every"]), _MICROSECONDS.get(_text(row["period"]))
    if every is None or unit is None:
        raise _Unreadable(f"Its interval {shown(row['every'])} {shown(row['period'])} cannot be read.")
    return Interval(every * unit)


def _whole(name: str, value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise _Unreadable(f"Its {name} {shown(value)} is no number.") from None


def _text(value: Any) -> str:
    return "" if value is None else str(value)
