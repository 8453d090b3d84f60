"""Run a job because somebody asked: now, at a moment, after a delay, one or ten thousand at a time.

Owns asked-for runs. A run is an execution with its own payload; a delayed one is a row that waits, so millions of
reminders need no job each. Invariants: all runs of one call are stored or none; a run key belongs to at most one run of
the job that is not over, and asking again with it gives that run back instead of a second one.

Apps may call these within `transaction.atomic()`: a run commits with the app's own data or not at all. `now` is for
tests; left out, it is the database's time.
"""

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from django.conf import settings
from django.db import transaction

from executions import at_once, events, lifecycle, run_keys
from executions.clock import database_now
from executions.identity import new_execution_ids
from executions.models import MAX_PRIORITY
from executions.new_runs import NewRun
from executions.outcomes import Cancelled
from executions.replay import replay as replays_of
from executions.states import Trigger
from jobs import payloads
from jobs.finding import find
from jobs.models import OPEN_STATES, Job
from jobs.refusals import InvalidRun, JobIsOver, check_text, shown

S = TypeVar("S")
T = TypeVar("T")

MOST_AT_ONCE = 10_000
_KEY_CHARACTERS = 200
# Clocks differ a little: a moment that has just passed is meant as now.
_JUST_PASSED = timedelta(minutes=1)


@dataclass(frozen=True)
class Wanted:
    """One run that somebody asks for. What is left out is as the job says; a payload given replaces the job's."""

    run_at: datetime | None = None
    delay: timedelta | None = None
    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    run_key: str = ""
    priority: int | None = None


@dataclass(frozen=True)
class Asked:
    """The run, and whether it is new: a run key that is in use gives back the run that has it."""

    execution_id: uuid.UUID
    is_new: bool


class ByKey(StrEnum):
    """What became of a run that was named by its key."""

    DONE = "done"
    ASKED_TO_STOP = "asked to stop"  # it runs, and the request is on its row
    TOO_LATE = "too late"  # it is about to run, or runs
    UNKNOWN = "unknown"  # no run of this key is open


def run(job: Job | str, *, now: datetime | None = None, **wanted: Any) -> Asked:
    """Ask for one run, with the fields of Wanted. A beat publishes it when it is due."""
    known = [field.name for field in fields(Wanted)]
    for name in wanted:
        if name not in known:
            raise InvalidRun(name, f"A run has no field {shown(name)}; there are {', '.join(known)}.")
    return run_many(job, [Wanted(**wanted)], now=now)[0]


def run_many(job: Job | str, wanted: Iterable[Wanted], *, now: datetime | None = None) -> list[Asked]:
    """Ask for many runs of one job, in a constant number of statements; the answers come in the same order."""
    return _ask(job, list(wanted), head_start=timedelta(0), now=now)


def run_at_once(job: Job | str, wanted: Iterable[Wanted], *, now: datetime | None = None) -> list[Asked]:
    """The same for surfaces that people wait at: those that are due now are published by this very process.

    Many are left to the beats.
    """
    wanted = list(wanted)
    immediate = [each.run_at is None and each.delay is None for each in wanted]
    is_here = sum(immediate) <= at_once.MOST_AT_ONCE
    asked = _ask(job, wanted, head_start=at_once.HEAD_START if is_here else timedelta(0), now=now)
    if is_here:
        pairs = zip(asked, immediate, strict=True)
        at_once.publish_after_commit([each.execution_id for each, is_due in pairs if is_due and each.is_new])
    return asked


def _ask(job: Job | str, wanted: list[Wanted], *, head_start: timedelta, now: datetime | None) -> list[Asked]:
    """Runs that are wanted now come a head start later, so that no beat takes them before."""
    if len(wanted) > MOST_AT_ONCE:
        raise InvalidRun("runs", f"One call takes up to {MOST_AT_ONCE} runs, not {len(wanted)}; send them in parts.")
    now = now or database_now()
    given = _each(wanted, lambda each: _checked(each, now=now))
    job = find(job)
    if job.state not in OPEN_STATES:
        raise JobIsOver("job", job.key, f"{job.state} and runs no more")
    like = job.new_execution(now, trigger=Trigger.MANUAL, now=now)
    like.request_id = events.request_id()
    as_job_says = _AsJobSays.read(job)
    ids = new_execution_ids([each.moment for each in given])
    rows = _each(zip(ids, given, strict=True), lambda pair: _row(*pair, as_job_says, head_start=head_start))
    with transaction.atomic():
        first_of_key: dict[str, NewRun] = {}
        for row in rows:
            if row.run_key:
                first_of_key.setdefault(row.run_key, row)
        holders = run_keys.take(job.pk, first_of_key) if first_of_key else {}
        answers = [Asked(holder := holders.get(row.run_key, row.id), is_new=holder == row.id) for row in rows]
        lifecycle.plan_runs([row for row, answer in zip(rows, answers, strict=True) if answer.is_new], like=like)
    return answers


def move(
    job: Job | str,
    run_key: str,
    *,
    run_at: datetime | None = None,
    delay: timedelta | None = None,
    now: datetime | None = None,
) -> ByKey:
    """Let a delayed run come at another time."""
    if run_at is None and delay is None:
        raise InvalidRun("run_at", "Say when the run is to come: run_at or delay.")
    check_text(InvalidRun, run_key=run_key)
    job, now = find(job), now or database_now()
    moment = _moment(run_at, delay, now=now)
    with transaction.atomic():
        execution_id = run_keys.holder(job.pk, run_key)
        if execution_id is None:
            return ByKey.UNKNOWN
        if not lifecycle.move(execution_id, to=moment, now=now):
            return ByKey.TOO_LATE
        run_keys.look_later(job.pk, run_key, at=moment)
    return ByKey.DONE


def cancel(job: Job | str, run_key: str, *, reason: str = "cancelled", now: datetime | None = None) -> ByKey:
    """Cancel a run by its key. One that runs already is asked to stop."""
    check_text(InvalidRun, run_key=run_key, reason=reason)
    job, now = find(job), now or database_now()
    with transaction.atomic():
        execution_id = run_keys.holder(job.pk, run_key)
        if execution_id is None:
            return ByKey.UNKNOWN
        cancelled = lifecycle.cancel([execution_id], reason=reason, now=now)
    if cancelled.before_run:
        return ByKey.DONE
    return ByKey.ASKED_TO_STOP if cancelled.asked_to_stop else ByKey.UNKNOWN  # it ended at this very moment


def cancel_executions(
    ids: Collection[uuid.UUID], *, reason: str = "cancelled", now: datetime | None = None
) -> Cancelled:
    """Cancel executions by their ids. What runs already is asked to stop; what is over is left alone."""
    check_text(InvalidRun, reason=reason)
    return lifecycle.cancel(ids, reason=reason, now=now or database_now())


def retry_now(ids: Collection[uuid.UUID], *, now: datetime | None = None) -> int:
    """Let retries that wait for their time come now. How many there were; everything else is left alone."""
    return lifecycle.hurry(ids, now=now or database_now())


def replay(
    ids: Collection[uuid.UUID],
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    note: str = "replayed",
    now: datetime | None = None,
) -> list[uuid.UUID]:
    """Run again what is over, as new executions, with the same payload or another. Dead letters count as handled."""
    check_text(InvalidRun, note=note)
    payloads.check(() if args is None else args, {} if kwargs is None else kwargs, InvalidRun)
    replays = replays_of(ids, args=args, kwargs=kwargs, note=note, now=now or database_now())
    return [execution.pk for execution in replays]


def _each(given: Iterable[S], make: Callable[[S], T]) -> list[T]:
    """Make something of each; a refusal says which one it is about."""
    made: list[T] = []
    try:
        for each in given:
            made.append(make(each))
    except InvalidRun as refused:
        refused.place = len(made)
        raise
    return made


class _Checked(NamedTuple):
    """A run that can be: when it is wanted, and the payload that was given, as its JSON."""

    wanted: Wanted
    moment: datetime
    args: str | None
    kwargs: str | None


class _AsJobSays(NamedTuple):
    """What a run leaves to its job."""

    is_http: bool
    args: str
    kwargs: str
    priority: int

    @classmethod
    def read(cls, job: Job) -> "_AsJobSays":
        args, kwargs = (json.dumps(value, ensure_ascii=False) for value in (job.args, job.kwargs))
        return cls(bool(job.http), args, kwargs, job.priority)


def _checked(wanted: Wanted, *, now: datetime) -> _Checked:
    if not isinstance(wanted, Wanted):
        raise InvalidRun("runs", f"Each run must be a Wanted(…), not {shown(wanted)}.")
    _check_key(wanted.run_key)
    priority = wanted.priority
    if priority is not None and (type(priority) is not int or not 0 <= priority <= MAX_PRIORITY):
        raise InvalidRun(
            "priority", f"The priority must be 0 (low) to {MAX_PRIORITY} (critical), not {shown(priority)}."
        )
    args = None if wanted.args is None else payloads.args_as_json(wanted.args, InvalidRun)
    kwargs = None if wanted.kwargs is None else payloads.kwargs_as_json(wanted.kwargs, InvalidRun)
    if args or kwargs:
        payloads.check_size(args or "[]", kwargs or "{}", InvalidRun)
    return _Checked(wanted, _moment(wanted.run_at, wanted.delay, now=now), args, kwargs)


def _row(execution_id: uuid.UUID, checked: _Checked, job: _AsJobSays, *, head_start: timedelta) -> NewRun:
    wanted = checked.wanted
    args, kwargs = checked.args or job.args, checked.kwargs or job.kwargs
    if job.is_http and args != "[]":
        raise InvalidRun("args", "What is sent to a URL is one object: put it into kwargs.")
    if (checked.args is None) != (checked.kwargs is None):
        payloads.check_size(args, kwargs, InvalidRun)  # with what it leaves as the job says
    is_delayed = wanted.run_at is not None or wanted.delay is not None
    return NewRun(
        id=execution_id,
        fire_time=checked.moment,
        available_at=checked.moment if is_delayed else checked.moment + head_start,
        trigger=Trigger.DELAYED if is_delayed else Trigger.MANUAL,
        run_key=wanted.run_key,
        priority=job.priority if wanted.priority is None else wanted.priority,
        args=args,
        kwargs=kwargs,
    )


def _check_key(key: str) -> None:
    if not isinstance(key, str) or len(key) > _KEY_CHARACTERS or not key.isprintable():
        raise InvalidRun(
            "run_key", f"A run key must be up to {_KEY_CHARACTERS} printable characters, not {shown(key)}."
        )


def _moment(run_at: datetime | None, delay: timedelta | None, *, now: datetime) -> datetime:
    """When the run is wanted."""
    if run_at is not None and delay is not None:
        raise InvalidRun("delay", "Give run_at or delay, not both.")
    if delay is not None:
        if not isinstance(delay, timedelta):
            raise InvalidRun("delay", f"The delay {shown(delay)} must be a timedelta; leave it out to run now.")
        if delay < timedelta(0):
            raise InvalidRun(
                "delay",
                f"The delay of {delay.total_seconds():g} seconds must be 0 or more; leave it out to run now.",
            )
        return _within_horizon("delay", now, delay)
    if run_at is None:
        return now
    if not isinstance(run_at, datetime) or run_at.tzinfo is None:
        raise InvalidRun("run_at", f"run_at {shown(run_at)} must be a datetime with a time zone, such as +00:00.")
    if run_at < now - _JUST_PASSED:
        raise InvalidRun("run_at", f"run_at {run_at.isoformat()} is past; leave it out to run now.")
    return max(now, _within_horizon("run_at", now, run_at - now))


def _within_horizon(field: str, now: datetime, wait: timedelta) -> datetime:
    horizon = timedelta(days=settings.ONBEAT_JOBS_HORIZON_DAYS)
    if wait > horizon:
        raise InvalidRun(
            field,
            f"The run would come in {wait.days} days; {horizon.days} are the limit (ONBEAT_JOBS_HORIZON_DAYS).",
        )
    return now + wait
