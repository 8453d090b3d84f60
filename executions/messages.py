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
from typing import Any

from celery import current_app

from executions.models import Execution

EXECUTION_HEADER = "onbeat_execution"
ATTEMPT_HEADER = "onbeat_attempt"
FIRE_TIME_HEADER = "onbeat_fire_time"
JOB_KEY_HEADER = "onbeat_job"


class Malformed(ValueError):
    """The headers name an execution and cannot be read."""


@dataclass(frozen=True)
class Message:
    execution: Execution
    body: bytes
    headers: dict[str, Any]
    properties: dict[str, Any]


@dataclass(frozen=True)
class Delivery:
    """What a worker reads from our headers."""

    execution_id: uuid.UUID
    attempt: int
    fire_time: datetime
    job_key: str


def of_execution(execution: Execution) -> Message:
    task_id = str(execution.pk)
    frame = _frame(execution.task)
    return Message(
        execution=execution,
        body=json.dumps([execution.args, execution.kwargs, frame.embed]).encode(),
        headers={
            **frame.headers,
            "id": task_id,
            "root_id": task_id,
            EXECUTION_HEADER: task_id,
            ATTEMPT_HEADER: execution.attempt,
            FIRE_TIME_HEADER: execution.fire_time.isoformat(),
            JOB_KEY_HEADER: execution.job.key,
        },
        properties={
            **frame.properties,
            "correlation_id": task_id,
            "message_id": task_id,
            "priority": execution.priority,
        },
    )


@dataclass(frozen=True)
class _Frame:
    """What is the same in all messages of one task."""

    headers: dict[str, Any]
    properties: dict[str, Any]
    embed: dict[str, Any]


@lru_cache(maxsize=1000)
def _frame(task: str) -> _Frame:
    """As Celery makes it. What it leaves empty is left out: a worker takes both for the same, and each costs time."""
    message = current_app.amqp.as_task_v2(
        "",
        task,
        ignore_result=True,
        argsrepr="…",  # arguments may hold secrets, and these are shown by every tool that listens
        kwargsrepr="…",
    )
    return _Frame(
        headers={name: value for name, value in message.headers.items() if value not in (None, {}, [None, None])},
        properties={
            **message.properties,
            "delivery_mode": 2,
            "content_type": "application/json",
            "content_encoding": "utf-8",
        },
        embed=message.body[2],
    )


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
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        raise Malformed("the message bears our name, but not what we write") from None
