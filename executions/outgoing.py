"""An execution as the outbox hands it out, in two steps. Pure: no Django."""

import uuid
from datetime import datetime
from typing import NamedTuple


class Due(NamedTuple):
    """One that is due, with what names its lease; read by `ExecutionQuerySet.to_lease`."""

    pk: uuid.UUID
    attempt: int
    job_id: int
    trigger: str
    fire_time: datetime


class Outgoing(NamedTuple):
    """One with what its message needs; read by `ExecutionQuerySet.to_publish`.

    Arguments are the JSON text that is stored: nobody here looks into it.
    """

    pk: uuid.UUID
    attempt: int
    job_key: str
    fire_time: datetime
    available_at: datetime
    is_waiting: bool
    task: str
    args: str
    kwargs: str
    queue: str
    priority: int
    timeout_seconds: int | None
    stop_grace_seconds: int
    keep_result: bool
