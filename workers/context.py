"""What a handler may know of the execution that it works for.

    from workers import context

    run = context.current()
    run.execution_id    the same from attempt to attempt: the idempotency key
    run.checkpoint({"page": 7})

In a plain Celery call there is no execution: everything is empty then, and nothing is an error.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db import Error, connection

from executions import database_line, events, lifecycle
from executions.models import Execution
from executions.outcomes import Claim, Wish
from executions.storable import in_a_line, storable_result, storable_text
from workers.orders import Why
from workers.patience import LONG_SECONDS, reaching_database
from workers.stopping import Call, Cancelled

__all__ = ["Cancelled", "Context", "current"]

NOTE_CHARACTERS = 200
PROGRESS_EVERY_SECONDS = 1.0


@dataclass(eq=False)
class Context:
    """One attempt, as its handler sees it. False where there is none."""

    execution_id: uuid.UUID | None = None
    job_key: str = ""
    fire_time: datetime | None = None
    attempt: int = 0
    request_id: str = ""  # of the request that asked for it
    claim: Claim | None = field(default=None, repr=False)
    call: Call | None = field(default=None, repr=False)
    wish: Wish | None = field(default=None, repr=False)  # what the handler said about its next attempt
    no_sooner_than: timedelta = field(default=timedelta(0), repr=False)  # until a retry, whatever the policy says
    response: Any = field(default=None, repr=False)  # what was answered to it, kept with the attempt
    awaited_until: datetime | None = field(default=None, repr=False)  # its end is told from elsewhere, by this moment
    _is_stale: bool = field(default=False, repr=False)
    _said_at: float = field(default=float("-inf"), repr=False)

    def __bool__(self) -> bool:
        return self.claim is not None

    def claimed(self) -> Claim:
        """Its claim, with what was answered to it."""
        assert self.claim is not None
        return replace(self.claim, response=self.response)

    @property
    def idempotency_key(self) -> str:
        return "" if self.execution_id is None else str(self.execution_id)

    @property
    def previous_error(self) -> str:
        """How the attempt before this one failed; empty for the first."""
        return str(self._stored["error"])

    @property
    def last_checkpoint(self) -> Any:
        """What was noted last, by this attempt or one before it; None if nothing was."""
        return self._stored["checkpoint"]

    @property
    def cancelled(self) -> bool:
        """Whether this attempt is no longer wanted: somebody asked to stop it, or it was given to another worker."""
        return self._is_stale or (self.call is not None and Why.CANCELLED in self.call.reasons)

    @cached_property
    def _stored(self) -> dict[str, Any]:
        nothing: dict[str, Any] = {"error": "", "checkpoint": None}
        if self.execution_id is None:
            return nothing
        rows: Any = Execution.objects.with_id(self.execution_id).values("error", "checkpoint")
        found: dict[str, Any] | None = reaching_database(rows.first, () if connection.in_atomic_block else LONG_SECONDS)
        return found or nothing

    def checkpoint(self, data: Any) -> bool:
        """Keep what the next attempt shall know. False: this attempt was given to another worker; stop.

        Within a transaction of the handler it is kept with that transaction, or not at all.
        """
        if self.claim is None:
            return True
        kept = storable_result(data, limit_bytes=settings.ONBEAT_EXECUTIONS_RESULT_BYTES)
        if kept != data:
            raise ValueError(
                f"A checkpoint must be plain JSON of up to {settings.ONBEAT_EXECUTIONS_RESULT_BYTES} bytes "
                "(ONBEAT_EXECUTIONS_RESULT_BYTES); keep large data elsewhere and note where it is."
            )
        claim, pauses = self.claim, () if connection.in_atomic_block else LONG_SECONDS
        self._is_stale |= not reaching_database(lambda: lifecycle.checkpoint(claim, data=kept), pauses)
        self._stored["checkpoint"] = kept
        return not self._is_stale

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the work is. Written at most once a second, and never a reason for the work to fail."""
        is_last = total is not None and done >= total
        if self.claim is None or (not is_last and time.monotonic() < self._said_at + PROGRESS_EVERY_SECONDS):
            return
        if connection.in_atomic_block:
            return  # nobody would see it before the transaction ends, and it would lock the row until then
        self._said_at = time.monotonic()
        said = {"done": done, "total": total, "note": storable_text(str(note), NOTE_CHARACTERS)}
        said = storable_result(said, limit_bytes=settings.ONBEAT_EXECUTIONS_RESULT_BYTES)
        try:
            with database_line.hurried():
                self._is_stale |= not lifecycle.progress(self.claim, said=said)
        except Error as error:
            events.warn("progress could not be written", execution=self.execution_id, error=in_a_line(error))


_current: ContextVar[Context | None] = ContextVar("onbeat_context", default=None)


def current() -> Context:
    return _current.get() or Context()


@contextmanager
def entered(context: Context) -> Iterator[None]:
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)
