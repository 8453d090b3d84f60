"""An execution as a Celery message.

Owns the headers by which a worker knows an execution of ours. Invariant: the message holds only what a claim needs and
the task's own arguments; a message without our headers is plain Celery and none of our business. Names and meanings
stay readable for one release.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from celery import current_app

from executions.outgoing import Outgoing

EXECUTION_HEADER = "onbeat_execution"
ATTEMPT_HEADER = "onbeat_attempt"
FIRE_TIME_HEADER = "onbeat_fire_time"
JOB_KEY_HEADER = "onbeat_job"
REQUEST_HEADER = "onbeat_request"  # only where a request asked for it
_OWN = {"id", "root_id", "retries", "timelimit"}  # of what Celery writes, these differ from message to message
_UNREAD = {"lang", "replaced_task_nesting"}  # these no worker reads, or takes for the same when they are missing
CONTENT_TYPE, CONTENT_ENCODING = "application/json", "utf-8"
DELIVERY_MODE = 2  # kept over a restart of the broker


class Malformed(ValueError):
    """The headers name an execution and cannot be read."""


@dataclass(frozen=True, eq=False)
class Frame:
    """What is the same in all messages of one task. There is one for each task, or two: results are kept or not."""

    headers: dict[str, Any]
    embed: str  # the third part of the body, as JSON


class Message(NamedTuple):
    """As Celery's protocol 2 has it. `task_id` is also its correlation and message id."""

    task_id: str
    priority: int
    body: bytes
    frame: Frame
    own_headers: dict[str, Any]

    @property
    def headers(self) -> dict[str, Any]:
        return {**self.frame.headers, **self.own_headers}

    @property
    def properties(self) -> dict[str, Any]:
        return {
            "content_type": CONTENT_TYPE,
            "content_encoding": CONTENT_ENCODING,
            "delivery_mode": DELIVERY_MODE,
            "priority": self.priority,
            "correlation_id": self.task_id,
            "message_id": self.task_id,
        }


@dataclass(frozen=True)
class Delivery:
    """What a worker reads from our headers."""

    execution_id: uuid.UUID
    attempt: int
    fire_time: datetime
    job_key: str
    request_id: str = ""


def of_execution(execution: Outgoing) -> Message:
    task_id = str(execution.pk)
    frame = _frame(execution.task, execution.keep_result)
    return Message(
        task_id=task_id,
        priority=execution.priority,
        body=f"[{execution.args}, {execution.kwargs}, {frame.embed}]".encode(),
        frame=frame,
        own_headers={
            "id": task_id,
            "root_id": task_id,
            EXECUTION_HEADER: task_id,
            ATTEMPT_HEADER: execution.attempt,
            FIRE_TIME_HEADER: execution.fire_time.isoformat(),
            JOB_KEY_HEADER: execution.job_key,
            **_if_said(execution),
        },
    )


def _if_said(execution: Outgoing) -> dict[str, Any]:
    """What a worker reads, where it is not as usual: few messages have it, and each header costs time."""
    headers: dict[str, Any] = {}
    if execution.request_id:
        headers[REQUEST_HEADER] = execution.request_id
    if execution.attempt > 1:
        headers["retries"] = execution.attempt - 1
    if execution.timeout_seconds is not None:
        soft = execution.timeout_seconds
        headers["timelimit"] = [soft + execution.stop_grace_seconds, soft]  # hard, soft
    return headers


@lru_cache(maxsize=1000)
def _frame(task: str, keep_result: bool) -> Frame:
    """As Celery makes it. What it leaves empty, or nobody reads, is left out: a broker looks at each header."""
    message = current_app.amqp.as_task_v2(
        "",
        task,
        ignore_result=not keep_result,
        argsrepr="…",  # arguments may hold secrets, and these are shown by every tool that listens
        kwargsrepr="…",
    )
    headers = {name: value for name, value in message.headers.items() if value not in (None, {}, [None, None])}
    shared = {name: value for name, value in headers.items() if name not in _OWN | _UNREAD}
    return Frame(shared, json.dumps(message.body[2]))


def delivery(headers: Mapping[str, Any]) -> Delivery | None:
    """Ours, or None for a plain Celery message. Raises Malformed if it only pretends to be ours."""
    execution_id = headers.get(EXECUTION_HEADER)
    if execution_id is None:
        return None
    try:
        return Delivery(
            execution_id=uuid.UUID(execution_id),
            attempt=int(headers[ATTEMPT_HEADER]),
            fire_time=datetime.fromisoformat(headers[FIRE_TIME_HEADER]),
            job_key=str(headers[JOB_KEY_HEADER]),
            request_id=str(headers.get(REQUEST_HEADER) or ""),
        )
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
        raise Malformed("the message bears our name, but not what we write") from None
