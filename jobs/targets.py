"""What a job may run: a task, or a request to a URL.

Owns the question whether a task's name means something and a URL may be called. A name that no installed app registers
is refused, since its executions would wait for a worker that never comes; a caller who knows that the task lives in
another codebase says so.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from threading import Lock
from typing import Any

from celery import current_app
from django.conf import settings

from jobs import kept_secrets, payloads
from jobs.addresses import network
from jobs.http_target import HTTP_TASK, HttpTarget
from jobs.refusals import InvalidDefinition
from jobs.web_address import Rules, parsed, port_range

_CELERYS_OWN = "celery."


def check_form(task: str, http: HttpTarget | None, args: Sequence[Any], *, keep_result: bool) -> None:
    """What can be told of a target by itself."""
    if http is None:
        if task == HTTP_TASK:
            raise InvalidDefinition("task", f"The task {task!r} calls a URL: give the job an http target instead.")
        return
    if task != HTTP_TASK:
        raise InvalidDefinition("task", "A job runs a task or calls a URL, not both; leave one of them out.")
    if args:
        raise InvalidDefinition("args", "What is sent to a URL is one object: put it into kwargs.")
    http.check(rules())
    if http.is_asynchronous and keep_result:
        raise InvalidDefinition(
            "keep_result", "No worker is there to keep a result that is told later; read it from the execution."
        )
    if http.is_asynchronous and not settings.ONBEAT_CALLBACKS_URL:
        raise InvalidDefinition(
            "http.is_asynchronous",
            "A receiver could not tell the end: set ONBEAT_CALLBACKS_URL to where it reaches this installation.",
        )
    payloads.check((), {"body": http.body}, InvalidDefinition)


def rules() -> Rules:
    """Where requests may go."""
    return _rules(tuple(settings.ONBEAT_CALLBACKS_NETWORKS), tuple(settings.ONBEAT_CALLBACKS_PORTS))


@cache
def _rules(networks: tuple[str, ...], ports: tuple[str, ...]) -> Rules:
    return Rules(tuple(map(network, networks)), tuple(map(port_range, ports)))


def check(task: str, http: HttpTarget | None = None, *, lives_elsewhere: bool) -> None:
    if http is not None:
        kept_secrets.check_kept(http, parsed(http.url, rules()).host)
        return
    if task.startswith(_CELERYS_OWN):
        raise InvalidDefinition("task", f"The task {task!r} is one of Celery's own; choose a task of an application.")
    allowed = settings.ONBEAT_JOBS_ALLOWED_TASKS
    if not any(fnmatchcase(task, pattern) for pattern in allowed):
        raise InvalidDefinition(
            "task",
            f"The task {task!r} may not be a job's target here: ONBEAT_JOBS_ALLOWED_TASKS allows {', '.join(allowed)}.",
        )
    if not lives_elsewhere and task not in known_tasks():
        raise InvalidDefinition("task", f"There is no task {task!r} in the installed apps; {_remedy(task)}.")


def known_tasks() -> frozenset[str]:
    """The names of all tasks of the installed apps."""
    _load_tasks()
    return frozenset(name for name in current_app.tasks if not name.startswith(_CELERYS_OWN))


_loading = Lock()


def _load_tasks() -> None:
    """Celery imports the apps' tasks modules only when a worker asks for them. Who comes meanwhile waits for all."""
    with _loading:
        _load_tasks_once()


@cache
def _load_tasks_once() -> None:
    current_app.loader.import_default_modules()


def _remedy(task: str) -> str:
    near = get_close_matches(task, known_tasks(), n=3, cutoff=0.6)
    elsewhere = "if it lives in another codebase, say so with task_lives_elsewhere=True"
    return f"did you mean {' or '.join(map(repr, near))}? Else, {elsewhere}" if near else elsewhere
