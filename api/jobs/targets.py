"""What a job runs, as people write it in JSON: a task, or an HTTP request."""

from collections.abc import Mapping
from typing import Any

from api.problems import refuse
from api.shapes import Body, Flag, ListOf, Named, OneOf, Plain, Text, Whole
from jobs.http_target import DEFAULT_TIMEOUT_SECONDS, HTTP_TASK, METHODS, MOST_TIMEOUT_SECONDS, HttpTarget
from jobs.models import Job
from jobs.targets import known_tasks


def _optional(help_text: str, **options: Any) -> dict[str, Any]:
    return {"required": False, "help_text": help_text, **options}


class HttpBody(Body):
    """A request; its body is the job's kwargs as JSON, unless it has one of its own."""

    url = Text(help_text="Where it goes: https://… or http://….")
    method = OneOf(choices=METHODS, **_optional("POST if left out."))
    headers = Named(
        **_optional('By name; a value is text, or {"secret": "name"} for one that is kept under that name.')
    )
    body = Plain(**_optional("In place of the payload: text is sent as it is, anything else as JSON.", allow_null=True))
    timeout = Whole(
        **_optional(
            f"The whole answer must be there within so many seconds; {DEFAULT_TIMEOUT_SECONDS} if left out.",
            min_value=1,
            max_value=MOST_TIMEOUT_SECONDS,
        )
    )
    expected = ListOf(child=Whole(), **_optional("The statuses that mean success; any 2xx if none is named."))
    secret = Text(**_optional("Sign it with the keys that are kept under this name.", allow_null=True))
    asynchronous = Flag(
        **_optional("A 202 means that the receiver tells the end later, through Onbeat-Completion-Url.")
    )


class TargetBody(Body):
    """One of task and http."""

    task = Text(**_optional("The Celery task to run, by its registered name."))
    lives_elsewhere = Flag(**_optional("The task is in another codebase: do not look for it in the installed apps."))
    http = HttpBody(required=False)


_OTHERWISE = {"timeout_seconds": "timeout", "is_asynchronous": "asynchronous"}
_SAME = ("url", "method", "headers", "body", "expected")


def target_said(target: Mapping[str, Any]) -> tuple[str, HttpTarget | None]:
    """The task, and the request if it is one."""
    if ("task" in target) == ("http" in target):
        refuse("target", "A target is one of task and http.")
    if "task" in target:
        return target["task"], None
    http = target["http"]
    fields = {name: http[name] for name in _SAME if name in http}
    fields |= {name: http[called] for name, called in _OTHERWISE.items() if called in http}
    return HTTP_TASK, HttpTarget(**fields, secret=http.get("secret") or "")


def target_written(job: Job) -> dict[str, Any]:
    if not job.http:
        return {"task": job.task, **({} if job.task in known_tasks() else {"lives_elsewhere": True})}
    http = HttpTarget.stored(job.http)
    return {
        "http": {
            "url": http.url,
            "method": http.method,
            "headers": dict(http.headers),
            "body": http.body,
            "timeout": http.timeout_seconds,
            "expected": list(http.expected),
            "secret": http.secret or None,
            "asynchronous": http.is_asynchronous,
        }
    }
