"""What the verbs of the lifecycle answer. Pure: no Django.

An expected race is an answer, not an exception: somebody else was first, there was no room, it was too late.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from executions.states import State


@dataclass(frozen=True)
class Claim:
    """The right to run one attempt: (execution_id, attempt) is the fence."""

    execution_id: uuid.UUID
    attempt: int
    worker: str
    started_at: datetime
    limited_job: int | None = None  # the job whose lock its end must hold
    response: Any = field(default=None, compare=False, repr=False)  # what was answered to it, for its record


@dataclass(frozen=True)
class Wish:
    """What a handler itself says about its next attempt; the number of attempts stays the policy's."""

    retry_in: timedelta | None = None  # as the policy says, if it does not say when
    gives_up: bool = False
    args: Sequence[Any] | None = None  # with another payload
    kwargs: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ToStop:
    """An attempt that runs and that somebody asked to stop."""

    execution_id: uuid.UUID
    attempt: int
    grace: timedelta  # from the word to the kill


@dataclass(frozen=True)
class Held:
    """No claim: the job has as many running as it may. The execution waits (SCHEDULED) or is SKIPPED."""

    state: State
    reason: str


class Finish(StrEnum):
    """What became of the execution when its claim's holder came to finish."""

    SUCCEEDED = "succeeded"
    RETRY = "retry"
    DEAD = "dead"
    CANCELLED = "cancelled"
    AWAITED = "awaited"
    REFUSED = "refused"


@dataclass(frozen=True)
class Rescued:
    execution_id: uuid.UUID
    attempt: int
    worker: str
    state: State


@dataclass(frozen=True)
class Cancelled:
    """Which executions will not run, and which run and were asked to stop."""

    before_run: list[uuid.UUID]
    asked_to_stop: list[uuid.UUID]


@dataclass(frozen=True)
class Unplanned:
    removed: list[datetime]  # the fire times whose rows are gone
    skipped: int
