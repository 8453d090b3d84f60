"""Create definitions.

Owns what may be a job. Invariant: a definition that cannot work is refused with the field, the value and the remedy,
and nothing of it is saved.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from executions.models import DEFAULT_PRIORITY, DEFAULT_QUEUE, MAX_PRIORITY
from executions.queues import DEAD_LETTERS
from executions.retry import DEFAULT_MAX_ATTEMPTS
from executions.storable import holds_nul, is_too_deep, levels
from jobs.models import Job, Kind, Schedule, shard_of
from jobs.recurrence import Cron, Every, Once

_MOST_ATTEMPTS = 10_000
# Messages say dates and the like in this form, so a plain object of this form would arrive as something else.
_MARKED = {"__type__", "__value__"}
_TYPES: dict[str, tuple[Any, str]] = {
    "key": (str, "text"),
    "task": (str, "text"),
    "queue": (str, "text"),
    "schedule": (Cron | Every | Once | None, "a Cron, Every or Once"),
    "args": (list | tuple, "a list"),
    "kwargs": (Mapping | None, "a mapping"),
    "priority": (int, "a whole number"),
    "max_attempts": (int, "a whole number"),
}
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,199}")
_TASK = re.compile(r"[!-~]{1,255}")
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class InvalidDefinition(ValueError):
    """A definition was refused. `field` is what to correct; the text says how."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


def create(
    *,
    key: str,
    task: str,
    schedule: Cron | Every | Once | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    queue: str = DEFAULT_QUEUE,
    priority: int = DEFAULT_PRIORITY,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    now: datetime,
) -> Job:
    """Store a job and, if it has one, its schedule: both or neither."""
    _check_types(key=key, task=task, queue=queue, schedule=schedule, args=args, kwargs=kwargs)
    _check_types(priority=priority, max_attempts=max_attempts)
    kwargs = dict(kwargs or {})
    _check_names(key=key, task=task, queue=queue)
    _check_limits(priority=priority, max_attempts=max_attempts)
    _check_payload(args, kwargs)
    first_fire = _first_fire(schedule, now) if schedule is not None else None
    try:
        with transaction.atomic():
            job = Job.objects.create(
                key=key,
                task=task,
                args=list(args),
                kwargs=kwargs,
                queue=queue,
                priority=priority,
                max_attempts=max_attempts,
                created_at=now,
                changed_at=now,
            )
            if schedule is not None:
                Schedule.objects.create(job=job, next_fire_at=first_fire, shard=shard_of(key), **_columns(schedule))
    except IntegrityError:
        raise InvalidDefinition("key", f"There is a job {key!r} already; choose another key.") from None
    return job


def _check_types(**values: object) -> None:
    for field, value in values.items():
        kind, name = _TYPES[field]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InvalidDefinition(field, f"{field} must be {name}, not {type(value).__name__}.")


def _check_names(*, key: str, task: str, queue: str) -> None:
    if not _KEY.fullmatch(key):
        raise InvalidDefinition(
            "key", f"The key {key!r} must be 1 to 200 letters, digits and . _ : @ / - and start with a letter or digit."
        )
    if not _TASK.fullmatch(task):
        raise InvalidDefinition(
            "task", f"The task {task[:80]!r} must be the registered name of a Celery task, up to 255 characters."
        )
    if not _QUEUE.fullmatch(queue) or queue == DEAD_LETTERS:
        raise InvalidDefinition(
            "queue", f"The queue {queue!r} must be 1 to 100 letters, digits and . _ - and not {DEAD_LETTERS!r}."
        )


def _check_limits(*, priority: int, max_attempts: int) -> None:
    if not 0 <= priority <= MAX_PRIORITY:
        raise InvalidDefinition(
            "priority", f"The priority must be 0 (low) to {MAX_PRIORITY} (critical), not {priority}."
        )
    if not 1 <= max_attempts <= _MOST_ATTEMPTS:
        raise InvalidDefinition("max_attempts", f"max_attempts must be 1 to {_MOST_ATTEMPTS}, not {max_attempts}.")


def _check_payload(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    size = _json_bytes("args", list(args)) + _json_bytes("kwargs", dict(kwargs))
    if not all(isinstance(name, str) for name in kwargs):
        raise InvalidDefinition("kwargs", "The names of keyword arguments must be text.")
    if size > settings.ONBEAT_JOBS_PAYLOAD_BYTES:
        raise InvalidDefinition(
            "kwargs",
            f"The arguments take {size} bytes and the limit is {settings.ONBEAT_JOBS_PAYLOAD_BYTES}; "
            "store large data elsewhere and pass a reference.",
        )


def _json_bytes(field: str, value: object) -> int:
    try:
        encoded = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # UnicodeEncodeError is a ValueError: half a surrogate pair is no text.
        raise InvalidDefinition(field, f"The {field} must be plain JSON: {error}.") from None
    if holds_nul(encoded):
        raise InvalidDefinition(field, f"The {field} must not hold a NUL character.")
    if any(isinstance(part, dict) and part.keys() == _MARKED for level in levels(value) for part in level):
        raise InvalidDefinition(field, f"The {field} must not hold an object of just __type__ and __value__.")
    if is_too_deep(value):
        raise InvalidDefinition(field, f"The {field} are nested too deep; keep them flatter.")
    return len(encoded)


def _first_fire(schedule: Cron | Every | Once, now: datetime) -> datetime:
    first = schedule.next_after(now)
    if first is None:
        raise InvalidDefinition("schedule", "The schedule never fires after now; choose a date that will come.")
    return first


def _columns(schedule: Cron | Every | Once) -> dict[str, Any]:
    match schedule:
        case Cron(expression, timezone):
            return {"kind": Kind.CRON, "expression": expression, "timezone": timezone}
        case Every(seconds, anchor):
            return {"kind": Kind.EVERY, "expression": str(seconds), "anchor_at": anchor}
        case Once(at):
            return {"kind": Kind.ONCE, "expression": at.isoformat()}
