"""The tables of django-celery-beat in a test's own database, by plain SQL: the package is not installed here."""

from collections.abc import Collection
from typing import Any

from django.db import connection

_TASK = {
    "id": "integer PRIMARY KEY",
    "name": "varchar(200)",
    "task": "varchar(200)",
    "interval_id": "integer",
    "crontab_id": "integer",
    "solar_id": "integer",
    "clocked_id": "integer",
    "args": "text",
    "kwargs": "text",
    "queue": "varchar(200)",
    "exchange": "varchar(200)",
    "routing_key": "varchar(200)",
    "headers": "text",
    "priority": "integer",
    "expires": "MOMENT",
    "expire_seconds": "integer",
    "one_off": "bool",
    "start_time": "MOMENT",
    "enabled": "bool",
    "last_run_at": "MOMENT",
    "total_run_count": "integer",
    "date_changed": "MOMENT",
    "description": "text",
}
_TABLES = {
    "periodictask": _TASK,
    "intervalschedule": {"id": "integer PRIMARY KEY", "every": "integer", "period": "varchar(24)"},
    "crontabschedule": {
        "id": "integer PRIMARY KEY",
        **dict.fromkeys(("minute", "hour", "day_of_month", "month_of_year", "day_of_week"), "varchar(240)"),
        "timezone": "varchar(63)",
    },
    "solarschedule": {"id": "integer PRIMARY KEY", "event": "varchar(24)", "latitude": "text", "longitude": "text"},
    "clockedschedule": {"id": "integer PRIMARY KEY", "clocked_time": "MOMENT"},
}
_IF_NOTHING_IS_SAID = {"task": "onbeat.echo", "args": "[]", "kwargs": "{}", "enabled": True, "one_off": False}


class OldTables:
    def __init__(self, *, without: Collection[str] = ()) -> None:
        """All of them; `without` names tables, or columns, that a version does not have."""
        moment = "timestamp with time zone" if connection.vendor == "postgresql" else "datetime"
        self._without = without
        for table, columns in _TABLES.items():
            if table not in without:
                said = [
                    f"{name} {kind.replace('MOMENT', moment)}" for name, kind in columns.items() if name not in without
                ]
                self.run(f"CREATE TABLE django_celery_beat_{table} ({', '.join(said)})")

    def run(self, statement: str, *values: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement, values)

    def _add(self, table: str, values: dict[str, Any]) -> int:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT coalesce(max(id), 0) + 1 FROM django_celery_beat_{table}")
            number: int = cursor.fetchone()[0]
        row = {"id": number} | {name: value for name, value in values.items() if name not in self._without}
        marks = ", ".join(["%s"] * len(row))
        self.run(f"INSERT INTO django_celery_beat_{table} ({', '.join(row)}) VALUES ({marks})", *row.values())
        return number

    def add(
        self, name: str | None, *, crontab: str = "", every: Any = None, timezone: str = "UTC", **more: Any
    ) -> None:
        """A task with a crontab (minute hour day month weekday), an interval in seconds, or what `more` says."""
        if crontab:
            names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
            texts = dict(zip(names, crontab.split(" "), strict=True))
            more["crontab_id"] = self._add("crontabschedule", {**texts, "timezone": timezone})
        if every is not None:
            more["interval_id"] = self._add("intervalschedule", {"every": every, "period": "seconds"})
        if "clocked_time" in more:
            more["clocked_id"] = self._add("clockedschedule", {"clocked_time": more.pop("clocked_time")})
        self._add("periodictask", {"name": name, **_IF_NOTHING_IS_SAID, **more})

    def change(self, name: str, **values: Any) -> None:
        said = ", ".join(f"{column} = %s" for column in values)
        self.run(f"UPDATE django_celery_beat_periodictask SET {said} WHERE name = %s", *values.values(), name)

    def remove(self, name: str) -> None:
        self.run("DELETE FROM django_celery_beat_periodictask WHERE name = %s", name)
