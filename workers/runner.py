"""Running one delivery: claim → call → finish.

A pipeline of small steps over one claim. Invariant: a message is dropped only on a definite "not yours" from the
database; when the database cannot be asked, the step is tried again in place and then the message goes back.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from celery.exceptions import Reject
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from executions import events, lifecycle
from executions.clock import Clock
from executions.messages import Delivery
from executions.outcomes import Claim, Finish, Held
from executions.retry import kinds_of
from executions.storable import in_a_line, storable_error, storable_result

T = TypeVar("T")

_DATABASE_RETRIES_SECONDS = (0.2, 0.5, 1, 2, 5, 10)

_clock = Clock()


def run(delivery: Delivery, *, worker: str, call: Callable[[], Any]) -> Any:
    """Run the task's own code under the delivery's claim, and record how it ended."""
    claim = _reaching_database(
        lambda: lifecycle.claim(delivery.execution_id, delivery.attempt, worker=worker, now=_clock.now())
    )
    if claim is None:
        # Taken by another worker, cancelled, or over: an ordinary end for a message that came twice.
        events.emit("message dropped, its attempt is taken or over", **_names(delivery))
        return None
    if isinstance(claim, Held):
        # The row waits in the database or was skipped; this message has done its part.
        events.emit("held back", **_names(delivery), state=claim.state, reason=claim.reason)
        return None
    try:
        result = call()
    except Exception as error:
        _fail(claim, delivery, error)
        raise
    _succeed(claim, delivery, result)
    return result


def _succeed(claim: Claim, delivery: Delivery, result: object) -> None:
    kept = storable_result(result, limit_bytes=settings.ONBEAT_EXECUTIONS_RESULT_BYTES)
    finish = _reaching_database(lambda: lifecycle.succeed(claim, result=kept, now=_clock.now()))
    _say(finish, delivery)


def _fail(claim: Claim, delivery: Delivery, error: Exception) -> None:
    text = storable_error(error)
    finish = _reaching_database(lambda: lifecycle.fail(claim, error=text, kinds=kinds_of(error), now=_clock.now()))
    _say(finish, delivery, error=in_a_line(error))
    if finish is Finish.DEAD:
        raise Reject(error, requeue=False) from error


def _reaching_database(step: Callable[[], T]) -> T:
    """Do a step that needs the database, waiting for it if it is away; then the message goes back to its queue."""
    for pause in _DATABASE_RETRIES_SECONDS:
        try:
            return step()
        except (OperationalError, InterfaceError) as error:
            events.warn("the database is away: the worker waits", seconds=pause, error=type(error).__name__)
            connection.close()
            time.sleep(pause)
    try:
        return step()
    except (OperationalError, InterfaceError) as error:
        raise Reject(error, requeue=True) from error


def _say(finish: Finish, delivery: Delivery, **details: object) -> None:
    if finish is Finish.REFUSED:
        events.warn("finish refused: another attempt holds this execution", **_names(delivery))
    elif finish in (Finish.SUCCEEDED, Finish.CANCELLED):
        events.emit(finish.value, **_names(delivery))
    else:
        events.warn(
            "failed, a retry is scheduled" if finish is Finish.RETRY else "failed for good",
            **_names(delivery),
            **details,
        )


def _names(delivery: Delivery) -> dict[str, object]:
    return {"job": delivery.job_key, "execution": delivery.execution_id, "attempt": delivery.attempt}
