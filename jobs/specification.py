"""What a person says about a job, every field of it, checked.

Owns the fields of a definition, their limits and their form as JSON. Invariant: a specification that passes `check` can
be stored and will work; one that cannot is refused with the field, the value and the remedy.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from executions.models import DEFAULT_PRIORITY, DEFAULT_QUEUE, MAX_PRIORITY
from executions.queues import DEAD_LETTERS
from executions.retry import DEFAULT_MAX_LOST, MOST_SECONDS, Backoff, RetryPolicy
from executions.states import Overlap
from jobs import payloads, targets
from jobs.cron import depends_on_key
from jobs.http_target import HTTP_QUEUE, HTTP_TASK, HttpTarget
from jobs.jitter import MOST_JITTER_SECONDS
from jobs.misfires import DEFAULT_MISFIRE_LIMIT, MOST_MISFIRES, Misfire
from jobs.models import DEFAULT_GRACE_SECONDS, DEFAULT_STOP_GRACE_SECONDS, Job, Kind, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidDefinition, shown

MOST_ATTEMPTS = 10_000
MOST_TAGS = 20
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,199}")
_TASK = re.compile(r"[!-~]{1,255}")
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,49}")
_LARGEST = 2**31 - 1
_ERROR_NAME = re.compile(r"[A-Za-z_][\w.]{0,199}")


@dataclass(frozen=True)
class Specification:
    key: str
    task: str
    http: HttpTarget | None = None
    schedule: Cron | Every | Once | Within | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue: str | None = None  # by its target, if none is named
    priority: int = DEFAULT_PRIORITY
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_lost: int = DEFAULT_MAX_LOST
    timeout_seconds: int | None = None
    stop_grace_seconds: int = DEFAULT_STOP_GRACE_SECONDS
    keep_result: bool = False
    overlap: Overlap = Overlap.ALLOW
    max_concurrency: int | None = None
    max_fires: int | None = None
    misfire_grace_seconds: int = DEFAULT_GRACE_SECONDS
    misfire: Misfire = Misfire.FIRE_ONCE
    misfire_limit: int = DEFAULT_MISFIRE_LIMIT
    jitter_seconds: int = 0
    owner: str = ""
    tags: Sequence[str] = ()

    @classmethod
    def of(cls, job: Job, schedule: Schedule | None) -> "Specification":
        """What a stored job says."""
        return cls(
            key=job.key,
            task=job.task,
            http=HttpTarget.stored(job.http) if job.http else None,
            schedule=schedule.recurrence if schedule else None,
            args=tuple(job.args),
            kwargs=job.kwargs,
            queue=job.queue,
            priority=job.priority,
            retry=replace(RetryPolicy.stored(job.retry), max_attempts=job.max_attempts),
            max_lost=job.max_lost,
            timeout_seconds=job.timeout_seconds,
            stop_grace_seconds=job.stop_grace_seconds,
            keep_result=job.keep_result,
            overlap=Overlap(job.overlap),
            max_concurrency=job.max_concurrency,
            owner=job.owner,
            tags=tuple(job.tags),
            **(policies_of(schedule) if schedule else {}),
        )

    def changed(self, changes: Mapping[str, Any]) -> "Specification":
        """The same with other values; a field that does not exist is refused."""
        known = [each.name for each in fields(self)]
        for name in changes:
            if name not in known:
                raise InvalidDefinition(name, f"A job has no field {shown(name)}; {_nearest_field(name, known)}")
        if "schedule" in changes and changes["schedule"] is None:
            changes = {**_IF_NOTHING_IS_SAID, **changes}  # gone with it
        if changes.get("http") is not None:
            changes = {"task": HTTP_TASK, **changes}
        elif "task" in changes:
            changes = {"http": None, **changes}
        return replace(self, **changes)

    def normalised(self) -> "Specification":
        """With what follows from the other fields: `H` is spread by the key, and an overlap policy needs a limit."""
        most = self.max_concurrency
        overlap = Overlap(self.overlap)
        if most is None and overlap is not Overlap.ALLOW:
            most = 1
        return replace(
            self,
            overlap=overlap,
            misfire=Misfire(self.misfire),
            schedule=_spread(self.schedule, self.key),
            http=self.http and self.http.normalised(),
            queue=self.queue or (DEFAULT_QUEUE if self.http is None else HTTP_QUEUE),
            max_concurrency=most,
            retry=replace(self.retry, retry_on=tuple(self.retry.retry_on), give_up_on=tuple(self.retry.give_up_on)),
            args=tuple(self.args),
            kwargs=dict(self.kwargs),
            tags=tuple(dict.fromkeys(self.tags)),
        )

    def job_columns(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "http": self.http and self.http.to_store(),
            "args": list(self.args),
            "kwargs": dict(self.kwargs),
            "queue": self.queue,
            "priority": self.priority,
            "max_attempts": self.retry.max_attempts,
            "retry": self.retry.to_store(),
            "max_lost": self.max_lost,
            "timeout_seconds": self.timeout_seconds,
            "stop_grace_seconds": self.stop_grace_seconds,
            "keep_result": self.keep_result,
            "overlap": self.overlap,
            "max_concurrency": self.max_concurrency,
            "owner": self.owner,
            "tags": list(self.tags),
        }

    def schedule_columns(self) -> dict[str, Any]:
        assert self.schedule is not None
        bounded = self.schedule if isinstance(self.schedule, Within) else Within(self.schedule)
        return {
            **_pattern_columns(bounded.recurrence),
            "start_at": bounded.start,
            "end_at": bounded.end,
            **{name: getattr(self, name) for name in _OF_A_SCHEDULE},
        }

    def is_same_as(self, other: "Specification") -> bool:
        """Python holds 1, 1.0 and True equal; a task that gets them does not."""
        payloads_ = (
            json.dumps([said.args, said.kwargs, said.http and said.http.body], sort_keys=True) for said in (self, other)
        )
        return self == other and len(set(payloads_)) == 1

    def differs_in_labels_only(self, other: "Specification") -> bool:
        """Whether nothing about its fires is another: neither when they come nor what they run."""
        return replace(self, owner=other.owner, tags=other.tags).is_same_as(other)

    def check(self) -> None:
        _check_types(self)
        _check_names(self)
        _check_numbers(self)
        _check_retry(self.retry)
        _check_labels(self)
        targets.check_form(self.task, self.http, self.args, keep_result=self.keep_result)
        payloads.check(self.args, self.kwargs, InvalidDefinition)
        _check_policies(self)


_OF_A_SCHEDULE = ("max_fires", "misfire_grace_seconds", "misfire", "misfire_limit", "jitter_seconds")
_IF_NOTHING_IS_SAID = {name: getattr(Specification, name) for name in _OF_A_SCHEDULE}


def policies_of(schedule: Schedule) -> dict[str, Any]:
    """The fields of a specification that only a schedule has, besides when it fires."""
    return {name: getattr(schedule, name) for name in _OF_A_SCHEDULE} | {"misfire": Misfire(schedule.misfire)}


# What people from elsewhere call things.
_CALLED_HERE = {
    "cron": "schedule=Cron(…)",
    "every": "schedule=Every(…)",
    "interval": "schedule=Every(…)",
    "once": "schedule=Once(…)",
    "timezone": 'schedule=Cron(…, timezone="Europe/Berlin")',
    "start": "schedule=Within(…, start=…)",
    "end": "schedule=Within(…, end=…)",
    "max_retries": "retry=RetryPolicy(max_attempts=…)",
    "timeout": "timeout_seconds=…",
    "soft_time_limit": "timeout_seconds=…",
    "time_limit": "timeout_seconds=…, with stop_grace_seconds=… on top",
    "ignore_result": "keep_result=…",
    "jitter": "jitter_seconds=… for fires, or retry=RetryPolicy(jitter=…) for retries",
    "catchup": "misfire=Misfire.FIRE_ALL",
    "name": "key=…",
    "enabled": "definitions.pause(…) and definitions.resume(…)",
}


def _nearest_field(name: str, known: list[str]) -> str:
    if name in _CALLED_HERE:
        return f"use {_CALLED_HERE[name]}."
    if name in {each.name for each in fields(RetryPolicy)}:
        return f"it belongs to the retry policy: retry=RetryPolicy({name}=…)."
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."


_JOB_COLUMNS = [
    *("key", "task", "http", "args", "kwargs", "queue", "priority", "max_attempts", "retry", "max_lost", "overlap"),
    *("max_concurrency", "timeout_seconds", "stop_grace_seconds", "keep_result", "owner", "tags"),
]
_SCHEDULE_COLUMNS = [
    *("kind", "expression", "timezone", "anchor_at", "start_at", "end_at"),
    *_OF_A_SCHEDULE,
]


def stored_definition(job: Job, schedule: Schedule | None) -> dict[str, Any]:
    """The form that is kept in the history: as stored, so that it can be told of any job, also of a broken one."""
    said = {name: getattr(job, name) for name in _JOB_COLUMNS}
    said["schedule"] = schedule and {name: _plain(getattr(schedule, name)) for name in _SCHEDULE_COLUMNS}
    return said


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value  # to the microsecond, unlike Django's encoder


def _spread(schedule: Cron | Every | Once | Within | None, key: str) -> Cron | Every | Once | Within | None:
    """An `H` takes its value from the job's key. Where there is none, the key makes no difference."""
    if isinstance(schedule, Within):
        if schedule.start is None and schedule.end is None:
            return _of_key(schedule.recurrence, key)
        return replace(schedule, recurrence=_of_key(schedule.recurrence, key))
    return None if schedule is None else _of_key(schedule, key)


def _of_key(pattern: Cron | Every | Once, key: str) -> Cron | Every | Once:
    if not isinstance(pattern, Cron):
        return pattern
    return replace(pattern, key=key if depends_on_key(pattern.expression) else "")


def _pattern_columns(pattern: Cron | Every | Once) -> dict[str, Any]:
    columns: dict[str, Any] = {"timezone": "UTC", "anchor_at": None}
    match pattern:
        case Cron(expression, timezone):
            return columns | {"kind": Kind.CRON, "expression": expression, "timezone": timezone}
        case Every(seconds, anchor):
            return columns | {"kind": Kind.EVERY, "expression": str(seconds), "anchor_at": anchor}
        case Once(at):
            return columns | {"kind": Kind.ONCE, "expression": at.isoformat()}


_TYPES: dict[str, tuple[Any, str]] = {
    "key": (str, "text"),
    "task": (str, "text"),
    "http": (HttpTarget | None, "an HttpTarget"),
    "schedule": (Cron | Every | Once | Within | None, "a Cron, Every, Once or Within"),
    "args": (list | tuple, "a list"),
    "kwargs": (Mapping, "a mapping"),
    "queue": (str | None, "text"),
    "priority": (int, "a whole number"),
    "retry": (RetryPolicy, "a RetryPolicy"),
    "max_lost": (int, "a whole number"),
    "timeout_seconds": (int | None, "a whole number"),
    "stop_grace_seconds": (int, "a whole number"),
    "keep_result": (bool, "True or False"),
    "overlap": (str, "text"),
    "max_concurrency": (int | None, "a whole number"),
    "max_fires": (int | None, "a whole number"),
    "misfire_grace_seconds": (int, "a whole number"),
    "misfire": (str, "text"),
    "misfire_limit": (int, "a whole number"),
    "jitter_seconds": (int, "a whole number"),
    "owner": (str, "text"),
    "tags": (list | tuple, "a list"),
}


def _check_types(said: Specification) -> None:
    for name, (kind, words) in _TYPES.items():
        value = getattr(said, name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InvalidDefinition(name, f"{name} must be {words}, not {type(value).__name__}.{_as_cron(name, value)}")


def _as_cron(name: str, value: object) -> str:
    return (
        f" A cron expression is given as Cron({shown(value)})." if name == "schedule" and isinstance(value, str) else ""
    )


def _check_names(said: Specification) -> None:
    if not _KEY.fullmatch(said.key):
        raise InvalidDefinition(
            "key",
            f"The key {said.key[:80]!r} must be 1 to 200 letters, digits and . _ : @ / - and start with a letter or "
            "digit.",
        )
    if not _TASK.fullmatch(said.task):
        raise InvalidDefinition(
            "task", f"The task {said.task[:80]!r} must be the registered name of a Celery task, up to 255 characters."
        )
    if said.queue is not None and (not _QUEUE.fullmatch(said.queue) or said.queue == DEAD_LETTERS):
        raise InvalidDefinition(
            "queue",
            f"The queue {said.queue[:80]!r} must be 1 to 100 letters, digits and . _ - and not {DEAD_LETTERS!r}.",
        )


def _check_range(name: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        raise InvalidDefinition(name, f"{name} must be {low} to {high}, not {shown(value)}.")


def _check_numbers(said: Specification) -> None:
    if not 0 <= said.priority <= MAX_PRIORITY:
        raise InvalidDefinition(
            "priority", f"The priority must be 0 (low) to {MAX_PRIORITY} (critical), not {shown(said.priority)}."
        )
    _check_range("max_lost", said.max_lost, 1, MOST_ATTEMPTS)
    _check_range("timeout_seconds", said.timeout_seconds, 1, MOST_SECONDS)
    _check_range("stop_grace_seconds", said.stop_grace_seconds, 0, MOST_SECONDS)
    _check_range("max_concurrency", said.max_concurrency, 1, MOST_ATTEMPTS)
    _check_range("max_fires", said.max_fires, 1, _LARGEST)
    _check_range("misfire_grace_seconds", said.misfire_grace_seconds, 0, _LARGEST)
    _check_range("misfire_limit", said.misfire_limit, 1, MOST_MISFIRES)
    _check_range("jitter_seconds", said.jitter_seconds, 0, MOST_JITTER_SECONDS)


def _check_policies(said: Specification) -> None:
    if said.overlap not in list(Overlap):
        raise InvalidDefinition("overlap", f"overlap must be one of {', '.join(Overlap)}, not {shown(said.overlap)}.")
    if said.misfire not in list(Misfire):
        raise InvalidDefinition("misfire", f"misfire must be one of {', '.join(Misfire)}, not {shown(said.misfire)}.")
    if said.schedule is not None:
        return
    for name, standard in _IF_NOTHING_IS_SAID.items():
        if getattr(said, name) != standard:
            raise InvalidDefinition(name, f"{name} needs a schedule; a job without one runs only when asked.")


def _check_retry(retry: RetryPolicy) -> None:
    for name in ("max_attempts", "initial_seconds", "cap_seconds"):
        if type(getattr(retry, name)) is not int:
            raise InvalidDefinition(
                f"retry.{name}", f"retry.{name} must be a whole number, not {shown(getattr(retry, name))}."
            )
    if type(retry.jitter) not in (int, float):
        raise InvalidDefinition("retry.jitter", f"jitter must be a number from 0 to 1, not {shown(retry.jitter)}.")
    if retry.backoff not in list(Backoff):
        raise InvalidDefinition(
            "retry.backoff", f"backoff must be one of {', '.join(Backoff)}, not {shown(retry.backoff)}."
        )
    _check_range("retry.max_attempts", retry.max_attempts, 1, MOST_ATTEMPTS)
    _check_range("retry.initial_seconds", retry.initial_seconds, 0, MOST_SECONDS)
    _check_range("retry.cap_seconds", retry.cap_seconds, 0, MOST_SECONDS)
    _check_range("retry.jitter", retry.jitter, 0, 1)
    for name in ("retry_on", "give_up_on"):
        if not isinstance(getattr(retry, name), list | tuple):
            raise InvalidDefinition(f"retry.{name}", f"{name} must be a list, not {shown(getattr(retry, name))}.")
        for error in getattr(retry, name):
            if not isinstance(error, str) or not _ERROR_NAME.fullmatch(error):
                raise InvalidDefinition(
                    f"retry.{name}", f"{name} must name error classes, such as 'ValueError', not {shown(error)}."
                )


def _check_labels(said: Specification) -> None:
    if len(said.owner) > 200 or not said.owner.isprintable():
        raise InvalidDefinition("owner", "The owner must be up to 200 printable characters.")
    if len(said.tags) > MOST_TAGS:
        raise InvalidDefinition("tags", f"A job may have {MOST_TAGS} tags, not {len(said.tags)}.")
    for tag in said.tags:
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            raise InvalidDefinition(
                "tags",
                f"The tag {shown(tag)} must be 1 to 50 letters, digits and . _ : @ / -, a letter or digit first.",
            )


def check_moment(name: str, moment: datetime | None, *, now: datetime) -> None:
    """A moment that must still come."""
    if moment is None:
        return
    if not isinstance(moment, datetime):
        raise InvalidDefinition(name, f"{name} must be a datetime with a time zone, not {shown(moment)}.")
    if moment.tzinfo is None:
        raise InvalidDefinition(name, f"{name} {moment.isoformat()} has no time zone; add one, such as +00:00.")
    if moment <= now:
        raise InvalidDefinition(name, f"{name} {moment.isoformat()} is past; choose a moment that is still to come.")
