"""An execution as the outbox hands it out: what a message needs, and no more. Pure: no Django."""

import uuid
from datetime import datetime
from typing import NamedTuple


class Outgoing(NamedTuple):
    """Read by `ExecutionQuerySet.to_publish`. Arguments are the JSON text that is stored: nobody here looks into it."""

    pk: uuid.UUID
    attempt: int
    job_id: int
    job_key: str
    trigger: str
    fire_time: datetime
    available_at: datetime
    is_waiting: bool
    task: str
    args: str
    kwargs: str
    queue: str
    priority: int
