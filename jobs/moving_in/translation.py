"""A task of another beat as a job of ours: what it becomes, what differs, or why it cannot be. Pure: no Django.

Owns the meaning of each column. Invariants: what is not noted means the same here, fire by fire; what cannot be said is
never guessed at; the same task gives the same body at any time, so that nothing changes by being moved in again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs import dst
from jobs.moving_in import celery_cron, clock_changes
from jobs.moving_in.sources import Clocked, Crontab, Interval, NoSchedule, Source, Task
from jobs.recurrence import Every
from jobs.refusals import InvalidSchedule, shown

MOST_PRIORITY = 9
_CLEANUP = "celery.backend_cleanup"
_SECOND, _MINUTE, _HOUR, _DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
_UNITS = {_MINUTE: "minutes", _HOUR: "hours", _DAY: "days"}
_SOME_MIDNIGHT = datetime(2020, 1, 1)  # noqa: DTZ001 - of whichever zone
# django-celery-beat writes down when a task ran only every few minutes: what looks late by less may have run.
_WRITTEN_DOWN_WITHIN = timedelta(minutes=10)
_SHOWN = 3


@dataclass(frozen=True)
class Note:
    """Something that is otherwise here. `about` is for programs."""

    about: str
    says: str
    remedy: str = ""


# The notes after which fires may come at other times than there.
ABOUT_FIRES = frozenset({"clock-change", "start", "overdue", "rounding"})


@dataclass(frozen=True)
class Moved:
    name: str
    body: Mapping[str, Any]
    is_enabled: bool
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """There is nothing to move: it would not fire there either."""

    name: str
    why: str


@dataclass(frozen=True)
class CannotMove:
    name: str
    why: str
    remedy: str = ""


@dataclass(frozen=True)
class Wishes:
    """What is said of all jobs at once."""

    owner: str = ""
    lives_elsewhere: bool = False
    attempts: int | None = None
    timezone: str = ""  # in place of each crontab's own


class _Cannot(Exception):
    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy


def translated(task: Task, *, key: str, source: Source, wishes: Wishes, now: datetime) -> Moved | LeftOut | CannotMove:
    if over := _why_over(task, now):
        return LeftOut(task.name, over)
    made = _Made(task, source, wishes, now)
    try:
        body = made.body(key)
    except _Cannot as refused:
        return CannotMove(task.name, refused.why, refused.remedy)
    except InvalidSchedule as refused:
        return CannotMove(task.name, str(refused), "Change it there, or make the job by hand.")
    return Moved(task.name, body, task.is_enabled, tuple(made.notes))


def _why_over(task: Task, now: datetime) -> str:
    if task.task == _CLEANUP:
        return "celery beat adds this task by itself, and goes on doing so where a result backend needs it"
    if task.expires is not None and task.expires <= now:
        return f"it expired at {_said(task.expires)}"
    if task.is_one_off and task.total_run_count > 0:
        return "it was to run once, and did"
    if isinstance(task.pattern, Clocked) and task.pattern.at <= now and (not task.is_enabled or task.last_run_at):
        return f"its one moment was {_said(task.pattern.at)}, and it is switched off since"
    return ""


@dataclass
class _Made:
    """One job in the making."""

    task: Task
    source: Source
    wishes: Wishes
    now: datetime
    notes: list[Note] = field(default_factory=list)

    def body(self, key: str) -> dict[str, Any]:
        task, wishes = self.task, self.wishes
        elsewhere = {"lives_elsewhere": True} if wishes.lives_elsewhere else {}
        tag = self.source.tag if task.is_enabled else self.source.tag_if_disabled
        body: dict[str, Any] = {
            "key": key,
            "target": {"task": task.task, **elsewhere},
            "args": self._payload("args", task.args or "[]", list),
            "kwargs": self._payload("kwargs", task.kwargs or "{}", dict),
            "schedule": self._schedule(),
            **({"queue": task.queue} if task.queue else {}),
            **self._priority(),
            **({"owner": wishes.owner} if wishes.owner else {}),
            **({"retry": {"max_attempts": wishes.attempts}} if wishes.attempts else {}),
            "tags": [tag],
        }
        self._note_what_is_not_kept()
        return body

    # ── What it runs ─────────────────────────────────────────────────────────────────────────────────────────────

    def _payload(self, name: str, text: str, kind: type) -> Any:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, kind):
            said = "a list" if kind is list else "an object"
            raise _Cannot(f"Its {name} are not {said} in JSON: {shown(text)}.", "Correct them there.")
        return value

    def _priority(self) -> dict[str, int]:
        given = self.task.priority
        if given is None:
            return {}
        if given < 0:
            raise _Cannot(f"Its priority is {given}, and here 0 is the lowest.", "Correct it there.")
        if given > MOST_PRIORITY:
            self._note("priority", f"Its priority is {given}, and {MOST_PRIORITY} is the highest here; it gets that.")
        return {"priority": min(given, MOST_PRIORITY)}

    def _note(self, about: str, says: str, remedy: str = "") -> None:
        self.notes.append(Note(about, says, remedy))

    def _note_what_is_not_kept(self) -> None:
        task = self.task
        if task.exchange or task.routing_key:
            self._note(
                "routing",
                f"It is sent to the exchange {shown(task.exchange)} with the routing key {shown(task.routing_key)} "
                f"there; here it goes to the queue {task.queue or 'default'!r}.",
                "Give the job the queue whose workers have its task.",
            )
        if task.headers.strip() not in ("", "{}", "null"):
            self._note("headers", "Its message headers are not kept: a job has none.", "Pass what is needed in kwargs.")
        if task.expire_seconds is not None:
            self._note_expiry(f"for more than {task.expire_seconds:g} s")
        elif task.expires is not None:
            self._note_expiry(f"beyond {_said(task.expires)}")
        if task.other_options:
            names = ", ".join(sorted(task.other_options))
            self._note("options", f"These of its options are not kept: {names}.")
        if task.description.strip():
            self._note("description", "Its description is not kept: a job has none.", "Owner and tags are labels.")

    def _note_expiry(self, how_long: str) -> None:
        self._note(
            "expiry",
            f"There a message that waits {how_long} is dropped; here it runs, late.",
            "Let the task look at its fire time.",
        )

    # ── When it runs ─────────────────────────────────────────────────────────────────────────────────────────────

    def _schedule(self) -> dict[str, Any]:
        match self.task.pattern:
            case Crontab() as crontab:
                said = self._cron(crontab)
            case Interval() as interval:
                said = self._every(interval)
            case Clocked(at):
                said = self._once(at)
            case NoSchedule(why, remedy):
                raise _Cannot(why, remedy)
        said |= self._bounds()
        if self.task.is_one_off and not isinstance(self.task.pattern, Clocked):
            said["max_fires"] = 1
            if not self.task.is_enabled:
                self._note("one-off", "It was to run once and is switched off: it may have run already.")
        if self.task.starting_deadline_seconds is not None:
            said["misfire"] = {"policy": "skip", "grace": self.task.starting_deadline_seconds}
        return said

    def _bounds(self) -> dict[str, Any]:
        bounds = {}
        if self.task.start_time is not None:
            bounds["start"] = _in_json(self.task.start_time)
        if self.task.expires is not None:
            # There it no longer fires at that very moment; here an end is the last moment.
            bounds["end"] = _in_json(_whole_second_up(self.task.expires) - _SECOND)
        return bounds

    def _cron(self, crontab: Crontab) -> dict[str, Any]:
        zone = self.wishes.timezone or crontab.timezone
        written = celery_cron.expressions(crontab)
        nights = [clock_changes.differing(expression, zone, now=self.now) for expression in written]
        chosen = min(range(len(written)), key=lambda place: len(nights[place]))  # the first of equals
        self._note_clock_changes(zone, nights[chosen])
        self._note_start_of_cron()
        self._note_overdue(clock_changes.next_there(written[chosen], zone, self._last_run() or self.now))
        return {"cron": written[chosen], "timezone": zone}

    def _note_clock_changes(self, zone: str, nights: list[clock_changes.Differing]) -> None:
        if not nights:
            return
        first = nights[0]
        parts = [
            f"only {where} at {_listed(moments)}"
            for where, moments in (("here", first.only_here), ("there", first.only_there))
            if moments
        ]
        further = ", and at the next change otherwise" if len(nights) > 1 else ""
        self._note(
            "clock-change",
            f"When clocks change in {zone}, on {first.change.instant:%Y-%m-%d}, it fires "
            f"{' and '.join(parts)}{further}.",
            "An hour that no change touches, or UTC, avoids it.",
        )

    def _note_start_of_cron(self) -> None:
        start = self.task.start_time
        if start is not None and (start > self.now or self.task.last_run_at is None):
            self._note(
                "start",
                "There a crontab also fires within minutes after its start_time; here the start is only a bound.",
                "Run the job once by hand if it should.",
            )

    def _every(self, interval: Interval) -> dict[str, Any]:
        seconds, rest = divmod(interval.microseconds, 1_000_000)
        if seconds < 1 or rest:
            raise _Cannot(
                f"Its interval is {interval.microseconds / 1_000_000:g} s, and here it is a whole number of seconds, "
                "1 or more.",
                "Change it there, or let one run do the work of several.",
            )
        every = timedelta(seconds=seconds)
        anchor = self._anchor(every) if self.source.is_live else self._rounded_anchor(interval, every)
        if anchor is None:
            return {"every": seconds}
        Every(seconds, anchor)  # refuses what cannot be
        return {"every": seconds, "anchor": _in_json(anchor)}

    def _anchor(self, every: timedelta) -> datetime | None:
        """So that the rhythm goes on: the run from which the next one is counted there."""
        last, start = self._last_run(), self.task.start_time
        if start is not None and (self.task.last_run_at is None or self.task.last_run_at + every <= start):
            self._note_overdue(start)
            return start.replace(microsecond=0)
        if last is None:
            return None
        self._note_overdue(last + every)
        return last.replace(microsecond=0)

    def _rounded_anchor(self, interval: Interval, every: timedelta) -> datetime | None:
        """`relative=True` lets it run at whole minutes, hours or days of its zone."""
        if not interval.is_rounded or every < _MINUTE:
            return None
        zone = dst.zone_named(self.wishes.timezone or interval.timezone)
        unit = next(each for each in (_DAY, _HOUR, _MINUTE) if every >= each)
        has_changes = dst.next_change(zone, self.now, until=self.now + timedelta(days=366)) is not None
        if every != unit or (unit == _DAY and has_changes):
            self._note(
                "rounding",
                f"relative=True lets it run at whole {_UNITS[unit]} of {zone.key}, counted from when beat starts; here "
                f"it keeps its distance, counted from a midnight there.",
                "A crontab says at which times it runs.",
            )
        return _SOME_MIDNIGHT.replace(tzinfo=zone).astimezone(UTC)

    def _once(self, at: datetime) -> dict[str, Any]:
        if at <= self.now:
            raise _Cannot(
                f"Its one moment, {_said(at)}, is past, and it has not run.",
                "Let the old beat run it, or run its task by hand.",
            )
        return {"once": {"at": _in_json(at)}}

    def _last_run(self) -> datetime | None:
        return self.task.last_run_at or self.task.changed_at

    def _note_overdue(self, due_at: datetime | None) -> None:
        """What is late runs at once when a beat starts there. Here nothing of before it was made runs."""
        start = self.task.start_time
        if due_at is not None and start is not None:
            due_at = max(due_at, start)
        if due_at is None or not self.task.is_enabled or not self.source.is_live:
            return
        if due_at + _WRITTEN_DOWN_WITHIN < self.now:
            self._note(
                "overdue",
                f"It is late since {_said(due_at)}: a beat that starts there runs it at once, and here it waits for "
                "its next time.",
                "Let the old beat run it first, or run the job once by hand.",
            )


def _whole_second_up(moment: datetime) -> datetime:
    whole = moment.replace(microsecond=0)
    return whole if whole == moment else whole + _SECOND


def _listed(moments: tuple[datetime, ...]) -> str:
    shown_ones = [f"{moment.astimezone(UTC):%H:%M}" for moment in moments[:_SHOWN]]
    more = f" and {len(moments) - _SHOWN} more times" if len(moments) > _SHOWN else ""
    return f"{', '.join(shown_ones)} UTC{more}"


def _in_json(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _said(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
