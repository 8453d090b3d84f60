"""An execution as the outbox hands it out, in two steps. Pure: no Django.

Moments are read from the text that the database writes: to let its driver make them costs more than all the rest.
"""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple


class Due(NamedTuple):
    """One that is due, with what names its lease; read by `outbox.most_urgent`."""

    pk: uuid.UUID
    attempt: int
    job_id: int
    trigger: str
    fire_time: datetime

    @classmethod
    def read(cls, row: Sequence[Any]) -> "Due":
        pk, attempt, job_id, trigger, fire_time = row
        return cls(_id(pk), attempt, job_id, trigger, moment_of(fire_time))


class Outgoing(NamedTuple):
    """One with what its message needs; read by `outbox.outgoing`.

    Arguments are the JSON text that is stored: nobody here looks into it.
    """

    pk: uuid.UUID
    attempt: int
    job_key: str
    trigger: str
    request_id: str  # of the request that asked for it, if one did
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

    @classmethod
    def read(cls, row: Sequence[Any]) -> "Outgoing":
        pk, attempt, job_key, trigger, request_id, fire_time, available_at, is_waiting, *others, keep_result = row
        named = _id(pk), attempt, job_key, trigger, request_id
        moments = moment_of(fire_time), moment_of(available_at)
        return cls._make((*named, *moments, bool(is_waiting), *others, bool(keep_result)))


def _id(stored: uuid.UUID | str) -> uuid.UUID:
    """SQLite has its digits."""
    return stored if isinstance(stored, uuid.UUID) else uuid.UUID(stored)


def moment_of(text: str) -> datetime:
    """PostgreSQL names the offset; SQLite has UTC, and does not say so."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
