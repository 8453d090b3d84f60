"""Print the beat_schedule of a Celery app as JSON. Run by itself, by the Python that has the app's packages.

    python app_schedule.py package.module:app

Owns the look at another project's code, which happens in a process of its own: that project's settings, signals and
current app stay there. It needs Celery and nothing of ours, and must run on the old Pythons that a project may have.
"""

import json
import os
import sys
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

ARGUMENTS = ("queue", "exchange", "routing_key", "priority", "expires", "headers")


def main(name: str) -> None:
    sys.path.insert(0, os.getcwd())
    out, sys.stdout = sys.stdout, sys.stderr  # what the project prints is not our answer
    app = found(name)
    entries = app.conf.beat_schedule or {}
    told = {
        "timezone": zone_name(app.timezone),
        "starting_deadline": app.conf.beat_cron_starting_deadline,
        "entries": [entry_told(key, entry, app) for key, entry in entries.items()],
    }
    json.dump(told, out)


def found(name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    module = import_module(module_name)
    names = [attribute] if attribute else ["app", "celery"]
    app = next((getattr(module, each) for each in names if hasattr(getattr(module, each, None), "conf")), None)
    if app is None:
        sys.exit(f"no Celery app is called {' or '.join(names)} in {module_name}")
    return app


def zone_name(zone: Any) -> str:
    """Empty: it has none that another machine would know."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name:
        return str(name)
    return "UTC" if str(zone).upper() == "UTC" else ""


def entry_told(key: Any, entry: Any, app: Any) -> Any:
    entry = dict(entry)
    options = dict(entry.get("options") or {})
    told = {
        "name": str(key),
        "task": str(entry.get("task", "")),
        "schedule": schedule_told(entry.get("schedule"), bool(entry.get("relative")), app),
        "args": as_json(list(entry.get("args") or ())),
        "kwargs": as_json(dict(entry.get("kwargs") or {})),
        "others": sorted(str(name) for name in options if name not in ARGUMENTS),
    }
    told.update((name, plain(options[name])) for name in ARGUMENTS if options.get(name) is not None)
    return told


def schedule_told(schedule: Any, is_rounded: bool, app: Any) -> Any:
    from celery import schedules

    kind: Any = type(schedule)
    name = f"{kind.__module__}.{kind.__name__}"
    if isinstance(schedule, (int, float)) and not isinstance(schedule, bool):
        schedule = timedelta(seconds=schedule)
    if isinstance(schedule, timedelta):
        return {"microseconds": schedule // timedelta(microseconds=1), "is_rounded": is_rounded}
    if getattr(schedule, "nowfun", None) is not None and kind.__name__ != "TzAwareCrontab":
        return {"unknown": name, "has_nowfun": True}
    if kind is schedules.schedule:
        microseconds = schedule.run_every // timedelta(microseconds=1)
        return {"microseconds": microseconds, "is_rounded": bool(schedule.relative)}
    if kind is schedules.crontab or kind.__name__ == "TzAwareCrontab":
        names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        texts = {name: field_told(getattr(schedule, "_orig_" + name)) for name in names}
        schedule.app = app
        return dict(texts, timezone=zone_name(schedule.tz))
    if kind is schedules.solar:
        return {"solar": str(schedule.event)}
    return {"unknown": name}


def field_told(value: Any) -> str:
    """A crontab takes a number, a text, or any number of numbers."""
    if isinstance(value, (int, str)):
        return str(value)
    return ",".join(str(number) for number in sorted(value))


def as_json(value: Any) -> str:
    """Text, and what it is if JSON cannot say it."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"moment": value.isoformat()}
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if isinstance(value, (int, float, str)) else as_json(value)


if __name__ == "__main__":
    main(sys.argv[1])
