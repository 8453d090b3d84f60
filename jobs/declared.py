"""Schedules declared beside their tasks in code.

    @scheduled("*/5 * * * *", queue="mail")
    @shared_task
    def poll_mailbox(): …

Owns what is declared. Invariants: declaring reads no database and never fails, so that a mistake in one declaration
stops neither worker nor web process; `./onbeat jobs sync` and `./onbeat doctor` name it. It makes no difference whether
the decorator stands above or below that of the task.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from celery import current_app

from executions.clock import database_now
from jobs import targets
from jobs.models import Job, Kind
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidDefinition, Refused, shown
from jobs.upserts import Said

MANAGER = "code"
T = TypeVar("T")
When = str | timedelta | int | Cron | Every | Once | Within | None


@dataclass(frozen=True)
class Declared:
    """One use of the decorator."""

    when: When
    timezone: str
    key: str
    fields: Mapping[str, Any]
    where: str  # the module it stands in


_declared: list[tuple[Declared, Any]] = []  # with what it stands beside: a task, or the function of one


def scheduled(when: When = None, *, timezone: str = "UTC", key: str = "", **fields: Any) -> Callable[[T], T]:
    """Declare a job that runs this task. `fields` are those of `definitions.create`.

    When: a cron expression, a number of seconds or a timedelta for an interval, or a Cron, Every, Once or Within;
    without it the job runs only when asked. The key is the name of the task, unless another is given.
    """

    def declare(target: T) -> T:
        where = getattr(target, "__module__", "")
        _declared.append((Declared(when, timezone, key, fields, where), target))
        return target

    return declare


def all_said(*, now: datetime | None = None) -> list[Said]:
    """What all declarations of the installed apps say. An interval goes on from where its job stands."""
    now = now or database_now()
    found = list(_named())
    anchors = _anchors([_key(each, task) for each, task in found])
    said, wrong = [], []
    for each, task in found:
        try:
            said.append(_said(each, task, anchors, now=now))
        except Refused as refused:
            wrong.append(f"{_place(each, task)}: {refused}")
    if wrong:
        raise InvalidDefinition("schedule", "\n".join(wrong))
    return said


def mistakes(now: datetime) -> list[tuple[str, str]]:
    """Declarations that cannot be: where, and why. Reads no database."""
    found = []
    for each, task in _named():
        try:
            _recurrence(each, now)
        except Refused as refused:
            found.append((_place(each, task), str(refused)))
    return found


def _named() -> Iterable[tuple[Declared, str]]:
    """Each declaration with the name of its task, in the order of their keys."""
    known = targets.known_tasks()  # loads the tasks of all apps, and with them the declarations
    by_function = {_function(current_app.tasks[name]): name for name in known}
    pairs = []
    for each, target in _declared:
        name = getattr(target, "name", None) or by_function.get(_function(target), "")
        pairs.append((each, str(name)))
    return sorted(pairs, key=lambda pair: _key(*pair))


def _function(target: Any) -> Any:
    run = getattr(target, "_orig_run", None) or getattr(target, "run", target)  # Celery wraps what it retries by itself
    return getattr(run, "__func__", run)


def _place(each: Declared, task: str) -> str:
    return f"{_key(each, task) or '@scheduled'} in {each.where}"


def _key(each: Declared, task: str) -> str:
    return each.key or task


def _anchors(keys: Sequence[str]) -> dict[str, datetime]:
    stored = Job.objects.open().filter(key__in=keys, schedule__kind=Kind.EVERY)
    return {key: anchor for key, anchor in stored.values_list("key", "schedule__anchor_at") if anchor is not None}


def _said(each: Declared, task: str, anchors: Mapping[str, datetime], *, now: datetime) -> Said:
    if not task:
        raise InvalidDefinition("task", "What @scheduled stands beside is no Celery task; add @shared_task.")
    key = _key(each, task)
    schedule = _recurrence(each, anchors.get(key, now.replace(microsecond=0)))
    fields = dict(each.fields) if schedule is None else {**each.fields, "schedule": schedule}
    return Said(key, task, fields)


def _recurrence(each: Declared, anchor: datetime) -> Cron | Every | Once | Within | None:
    match each.when:
        case str():
            return Cron(each.when, each.timezone)
        case bool():
            pass
        case int():
            return Every(each.when, anchor)
        case timedelta():
            if each.when % timedelta(seconds=1):
                raise InvalidDefinition("every", f"An interval must be whole seconds, not {each.when}.")
            return Every(int(each.when.total_seconds()), anchor)
        case None | Cron() | Every() | Once() | Within():
            return each.when
    raise InvalidDefinition(
        "schedule", f"@scheduled takes a cron expression, seconds, a timedelta or a Cron(…), not {shown(each.when)}."
    )
