"""Read the beat_schedule of a Celery app, in a process of its own.

Invariant: another project's code runs outside of ours, with neither our settings nor our app; whatever it does wrong
there is one sentence here.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from jobs.moving_in.sources import Crontab, Interval, NoSchedule, Pattern, Task
from jobs.refusals import Refused, shown

_SCRIPT = Path(__file__).with_name("app_schedule.py")
_SECONDS = 60
_OUR_SETTINGS = "scheduler_project.settings"


class NoApp(Refused):
    """It cannot be loaded."""


def read(name: str, *, python: str = "", folder: str = "", timezone: str = "") -> list[Task]:
    """The entries of the app that `package.module:app` names, found from a folder by a Python."""
    told = _told(name, python or sys.executable, folder or os.getcwd())
    deadline = told["starting_deadline"]
    return [_task(entry, timezone or told["timezone"], deadline) for entry in told["entries"]]


def _told(name: str, python: str, folder: str) -> Any:
    environment = dict(os.environ)
    if environment.get("DJANGO_SETTINGS_MODULE") == _OUR_SETTINGS:
        del environment["DJANGO_SETTINGS_MODULE"]  # ours, set by our own command line; a project sets its own
    try:
        done = subprocess.run(
            [python, str(_SCRIPT), name],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoApp("app", f"The app {shown(name)} was not loaded within {_SECONDS} s; import it by hand.") from None
    except (OSError, ValueError) as error:
        raise NoApp("app", f"The app {shown(name)} cannot be loaded: {error}; see --python and --workdir.") from None
    if done.returncode == 0:
        try:
            return json.loads(done.stdout)
        except ValueError:
            pass
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    why = lines[-1].strip()[:200] if lines else f"it ended with {done.returncode}"
    raise NoApp(
        "app",
        f"The app {shown(name)} cannot be loaded from {folder} ({why}); write package.module:app, and see --workdir "
        "and --python.",
    )


def _task(entry: Mapping[str, Any], timezone: str, deadline: Any) -> Task:
    options: dict[str, Any] = {
        name: str(entry[name]) for name in ("queue", "exchange", "routing_key", "headers") if name in entry
    }
    others, expires = list(entry["others"]), entry.get("expires")
    priority = entry.get("priority")
    if priority is not None and type(priority) is not int:
        others.append("priority")
        priority = None
    if isinstance(expires, str):
        others.append("expires")
    return Task(
        name=entry["name"],
        task=entry["task"],
        pattern=_pattern(entry["schedule"], timezone),
        args=entry["args"],
        kwargs=entry["kwargs"],
        **options,
        priority=priority,
        expires=_moment(expires["moment"], timezone) if isinstance(expires, dict) else None,
        expire_seconds=float(expires) if isinstance(expires, int | float) else None,
        starting_deadline_seconds=None if deadline is None or "minute" not in entry["schedule"] else int(deadline),
        other_options=tuple(others),
    )


def _pattern(schedule: Mapping[str, Any], timezone: str) -> Pattern:
    if "microseconds" in schedule:
        return Interval(schedule["microseconds"], schedule["is_rounded"], timezone or "UTC")
    if "minute" in schedule:
        zone = schedule["timezone"] or timezone
        if not zone:
            return NoSchedule(
                "It is read in the local time of whichever machine runs beat.", "Name that zone with --timezone."
            )
        return Crontab(**{**schedule, "timezone": zone})
    if "solar" in schedule:
        return NoSchedule(
            f"It follows the sun ({schedule['solar']}), and no schedule here does.",
            "Choose a time of day, or let a job at midnight ask for a run at the right moment.",
        )
    if schedule.get("has_nowfun"):
        return NoSchedule("Its schedule has a clock of its own (nowfun).", "Make the job by hand.")
    return NoSchedule(
        f"Its schedule is of a class of its own, {schedule['unknown']}.", "Make a job whose schedule does the same."
    )


def _moment(text: str, timezone: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(timezone or "UTC"))).astimezone(UTC)
