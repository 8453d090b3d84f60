"""A job as people write it in JSON, and what that says to the domain.

Owns the body of a definition in both directions: `said` reads it, `written` says it. Invariant: what is written can be
read again and means the same job.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from rest_framework.utils.encoders import JSONEncoder

from api.jobs.targets import TargetBody, target_said, target_written
from api.problems import refuse
from api.shapes import Body, Flag, ListOf, Moment, Named, Number, OneOf, Text, Values, Whole
from executions.retry import Backoff, RetryPolicy
from executions.states import Overlap
from jobs.misfires import Misfire
from jobs.models import Job, Kind, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from jobs.specification import Specification
from jobs.upserts import Said

_KINDS = ("cron", "every", "once")
_ONLY_OF = {"timezone": "cron", "anchor": "every"}


def _optional(help_text: str, **options: Any) -> dict[str, Any]:
    return {"required": False, "help_text": help_text, **options}


def _words(names: Any) -> list[str]:
    return [str(name).lower() for name in names]


class OnceBody(Body):
    at = Moment(**_optional("The moment, with an offset."))
    delay = Whole(**_optional("In so many seconds from now.", min_value=1))


class MisfireBody(Body):
    policy = OneOf(choices=_words(Misfire), **_optional("Which fires older than the grace still run."))
    grace = Whole(**_optional("Fires that are at most so many seconds late all run.", min_value=0))
    limit = Whole(**_optional("With fire_all: how many of them.", min_value=1))


class ScheduleBody(Body):
    """One of cron, every and once; the rest is optional."""

    cron = Text(**_optional("Five fields, or six with the seconds first, or an alias such as @hourly."))
    timezone = Text(**_optional("Of a cron; UTC if it is left out."))
    every = Whole(**_optional("An interval in seconds.", min_value=1))
    anchor = Moment(**_optional("An interval keeps phase with this moment; when it was first stored, if left out."))
    once = OnceBody(required=False)
    start = Moment(**_optional("No fire before this.", allow_null=True))
    end = Moment(**_optional("No fire after this.", allow_null=True))
    max_fires = Whole(
        **_optional("How often it fires; counted anew when the schedule changes.", min_value=1, allow_null=True)
    )
    jitter = Whole(**_optional("A fire comes up to so many seconds later.", min_value=0))
    misfire = MisfireBody(required=False)


class RetryBody(Body):
    max_attempts = Whole(**_optional("How often it is tried in all.", min_value=1))
    backoff = OneOf(choices=_words(Backoff), **_optional("How the delay grows from one failure to the next."))
    initial_delay = Whole(**_optional("Seconds before the second attempt.", min_value=0))
    max_delay = Whole(**_optional("No delay is longer than so many seconds.", min_value=0))
    jitter = Number(**_optional("The share of a delay that may fall away.", min_value=0, max_value=1))
    retry_on = ListOf(child=Text(), **_optional("Only these errors are tried again, by class name."))
    give_up_on = ListOf(child=Text(), **_optional("Never these."))


class DefinitionBody(Body):
    """What a job is, without its key."""

    ignored = frozenset(
        {"id", "state", "version", "schedule_in_words", "next_fire_at", "pause", "last_execution", "warnings"}
        | {"created_at", "changed_at", "managed_by"}
    )

    target = TargetBody()
    args = Values(**_optional("Positional arguments of the task."))
    kwargs = Named(**_optional("Named arguments of the task, or what is sent to the url."))
    schedule = ScheduleBody(
        **_optional("When it fires by itself; without one it runs only when asked.", allow_null=True)
    )
    queue = Text(**_optional("The queue whose workers run it."))
    priority = Whole(**_optional("0 (low) to 9 (critical).", min_value=0, max_value=9))
    retry = RetryBody(required=False)
    max_lost = Whole(**_optional("Given up at so many lost workers.", min_value=1))
    timeout = Whole(**_optional("How many seconds an attempt may take.", min_value=1, allow_null=True))
    stop_grace = Whole(**_optional("How many seconds after being asked to stop it is killed.", min_value=0))
    keep_result = Flag(**_optional("Keep the result for Celery's AsyncResult, too."))
    overlap = OneOf(choices=_words(Overlap), **_optional("What happens while the previous one still runs."))
    max_concurrency = Whole(**_optional("How many may run at once.", min_value=1, allow_null=True))
    owner = Text(**_optional("Whose job it is: a label, and a filter."))
    tags = ListOf(child=Text(), **_optional("Labels, and a filter."))


class JobBody(DefinitionBody):
    key = Text(help_text="Names the job; unique among jobs that are not over.")


# ── Read ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def said(body: Mapping[str, Any], *, now: datetime, anchor: datetime | None = None) -> Said:
    """What a body that was read by its shape says. An interval without an anchor gets this one, or begins now."""
    target = body["target"]
    task, http = target_said(target)
    fields: dict[str, Any] = {name: body[name] for name in _SAME if name in body}
    for name, called in _OTHERWISE.items():
        if called in body:
            fields[name] = body[called]
    if "overlap" in body:
        fields["overlap"] = Overlap(body["overlap"].upper())
    if "retry" in body:
        fields["retry"] = _retry(body["retry"])
    if body.get("schedule") is not None:
        fields |= _schedule(body["schedule"], now=now, anchor=anchor)
    if http is not None:
        fields["http"] = http
    return Said(body["key"], task, fields, target.get("lives_elsewhere", False))


_SAME = ("args", "kwargs", "queue", "priority", "max_lost", "keep_result", "max_concurrency", "owner", "tags")
_OTHERWISE = {"timeout_seconds": "timeout", "stop_grace_seconds": "stop_grace"}
_RETRY = {
    "max_attempts": "max_attempts",
    "initial_seconds": "initial_delay",
    "cap_seconds": "max_delay",
    "jitter": "jitter",
}


def _retry(body: Mapping[str, Any]) -> RetryPolicy:
    values = {name: body[called] for name, called in _RETRY.items() if called in body}
    values |= {name: tuple(body[name]) for name in ("retry_on", "give_up_on") if name in body}
    if "backoff" in body:
        values["backoff"] = Backoff(body["backoff"].upper())
    return RetryPolicy(**values)


def _schedule(body: Mapping[str, Any], *, now: datetime, anchor: datetime | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"schedule": recurrence(body, now=now, anchor=anchor)}
    if "max_fires" in body:
        fields["max_fires"] = body["max_fires"]
    if "jitter" in body:
        fields["jitter_seconds"] = body["jitter"]
    misfire = body.get("misfire", {})
    if "policy" in misfire:
        fields["misfire"] = Misfire(misfire["policy"].upper())
    if "grace" in misfire:
        fields["misfire_grace_seconds"] = misfire["grace"]
    if "limit" in misfire:
        fields["misfire_limit"] = misfire["limit"]
    return fields


def recurrence(
    body: Mapping[str, Any], *, now: datetime, anchor: datetime | None = None
) -> Cron | Every | Once | Within:
    """When a schedule fires, with its bounds."""
    kinds = [kind for kind in _KINDS if kind in body]
    if len(kinds) != 1:
        named = f"not {' and '.join(kinds)}" if kinds else "and this names none"
        refuse("schedule", f"A schedule is one of {', '.join(_KINDS)}, {named}.")
    for name, kind in _ONLY_OF.items():
        if name in body and kinds != [kind]:
            refuse(f"schedule/{name}", f"{name} belongs to {kind}; leave it out of {kinds[0]}.")
    pattern = _pattern(kinds[0], body, now=now, anchor=anchor)
    start, end = body.get("start"), body.get("end")
    return pattern if start is None and end is None else Within(pattern, start, end)


def _pattern(kind: str, body: Mapping[str, Any], *, now: datetime, anchor: datetime | None) -> Cron | Every | Once:
    if kind == "cron":
        return Cron(body["cron"], body.get("timezone", "UTC"))
    if kind == "every":
        return Every(body["every"], body.get("anchor") or anchor or now.replace(microsecond=0))
    once = body["once"]
    if ("at" in once) == ("delay" in once):
        refuse("schedule/once", "Say when: at or delay, one of them.")
    if "at" in once:
        return Once(once["at"])
    try:
        return Once(now + timedelta(seconds=once["delay"]))
    except OverflowError:
        refuse("schedule/once/delay", "The delay is longer than any calendar; choose a shorter one.")


# ── Written ──────────────────────────────────────────────────────────────────────────────────────────────────────


def written(job: Job, schedule: Schedule | None) -> dict[str, Any]:
    """A stored job as a body."""
    policy = RetryPolicy.stored(job.retry)
    return {
        "key": job.key,
        "target": target_written(job),
        "args": job.args,
        "kwargs": job.kwargs,
        "schedule": None if schedule is None else schedule_written(schedule),
        "queue": job.queue,
        "priority": job.priority,
        "retry": {
            "max_attempts": job.max_attempts,
            "backoff": policy.backoff.lower(),
            "initial_delay": policy.initial_seconds,
            "max_delay": policy.cap_seconds,
            "jitter": policy.jitter,
            "retry_on": list(policy.retry_on),
            "give_up_on": list(policy.give_up_on),
        },
        "max_lost": job.max_lost,
        "timeout": job.timeout_seconds,
        "stop_grace": job.stop_grace_seconds,
        "keep_result": job.keep_result,
        "overlap": job.overlap.lower(),
        "max_concurrency": job.max_concurrency,
        "owner": job.owner,
        "tags": job.tags,
    }


def of_specification(said: Specification) -> dict[str, Any]:
    """What a job shall be, as a body."""
    job = Job(key=said.key, **said.job_columns())
    return written(job, None if said.schedule is None else Schedule(job=job, **said.schedule_columns()))


def of_version(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A version, which the history keeps as it was stored, as a body. What it does not name is as by default."""
    job = Job(**{name: value for name, value in definition.items() if name != "schedule" and name in _OF_JOB})
    kept = definition.get("schedule")
    if kept is None:
        return written(job, None)
    columns = {name: value for name, value in kept.items() if name in _OF_SCHEDULE}
    moments = {
        name: datetime.fromisoformat(columns[name])
        for name in ("anchor_at", "start_at", "end_at")
        if columns.get(name) is not None
    }
    return written(job, Schedule(**{**columns, **moments}))


_OF_JOB = {field.name for field in Job._meta.concrete_fields}
_OF_SCHEDULE = {field.name for field in Schedule._meta.concrete_fields}


def schedule_written(schedule: Schedule) -> dict[str, Any]:
    """From its columns, so that it can be said also when somebody broke the row behind our back."""
    return {
        **_pattern_written(schedule),
        "start": schedule.start_at,
        "end": schedule.end_at,
        "max_fires": schedule.max_fires,
        "jitter": schedule.jitter_seconds,
        "misfire": {
            "policy": schedule.misfire.lower(),
            "grace": schedule.misfire_grace_seconds,
            "limit": schedule.misfire_limit,
        },
    }


def _pattern_written(schedule: Schedule) -> dict[str, Any]:
    match schedule.kind:
        case Kind.EVERY:
            seconds = int(schedule.expression) if schedule.expression.isdecimal() else 0
            return {"every": seconds, "anchor": schedule.anchor_at}
        case Kind.ONCE:
            return {"once": {"at": _in_utc(schedule.expression)}}
    return {"cron": schedule.expression, "timezone": schedule.timezone}


def _in_utc(text: str) -> Any:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return text


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A body with some of it changed. Of schedule and retry what is named is changed, and naming another kind of
    schedule replaces the kind; everything else that is named is replaced whole."""
    after = {**before, **patch}
    for name in ("schedule", "retry"):
        old, new = before.get(name), patch.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            after[name] = _merged_fields(old, new)
    return after


def patched(job: Job, schedule: Schedule | None, patch: Any) -> dict[str, Any]:
    """The body of a stored job with some of it changed, read by its shape."""
    PatchBody().run_validation(patch)  # its own shape first: a wrong patch is told as it was sent
    before = json.loads(json.dumps(written(job, schedule), cls=JSONEncoder))
    after: dict[str, Any] = JobBody().run_validation(merged(before, patch))
    return after


def _merged_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in _KINDS if kind in new]
    gone = {*_KINDS, *(name for name, kind in _ONLY_OF.items() if kind not in kinds)} if kinds else set()
    after = {name: value for name, value in old.items() if name not in gone} | dict(new)
    if "misfire" in old and "misfire" in new:
        after["misfire"] = {**old["misfire"], **new["misfire"]}
    return after


class PatchBody(DefinitionBody):
    """Some of a definition; what is left out stays."""

    key = Text(required=False, help_text="May be named, and cannot be changed.")
    target = TargetBody(required=False)
