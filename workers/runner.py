"""Running one delivery: claim → call → outcome → finish.

A pipeline of small steps over one claim. Invariant: a message is dropped only on a definite "not yours" from the
database; when the database cannot be asked, the step is tried again in place and then the message goes back.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # the stubs do not know it
from celery.exceptions import Reject, Retry, SoftTimeLimitExceeded, TaskPredicate
from django.conf import settings
from django.db import connection

from executions import events, lifecycle
from executions.clock import Clock
from executions.messages import Delivery
from executions.outcomes import Claim, Finish, Held, Wish
from executions.retry import kinds_of
from executions.states import Outcome, State
from executions.storable import in_a_line, storable_error, storable_result
from workers import context, lost_answers, orders, stopping
from workers.context import Context
from workers.orders import Why
from workers.patience import LONG_SECONDS, SHORT_SECONDS, reaching_database
from workers.stopping import Call, Cancelled

_clock = Clock()
_AROUND_THE_HANDLER = (__file__, str(stopping.__file__), str(Path(__file__).with_name("task.py")))


@dataclass(frozen=True)
class Ended:
    """What became of a delivery. Without a finish it was not run: its attempt was taken, over, or held back."""

    finish: Finish | None = None
    result: Any = None  # as it is stored
    error: BaseException | None = None


def run(delivery: Delivery, *, worker: str, call: Callable[[], Any], limit_seconds: float | None = None) -> Ended:
    """Run the task's own code under the delivery's claim, and record how it ended."""
    with events.about(**_names(delivery), request=delivery.request_id):
        claim = _claim(delivery, worker)
        if claim is None:
            return Ended()
        with orders.holding(delivery.execution_id, delivery.attempt):
            return _run_claimed(claim, delivery, call, limit_seconds)


def _run_claimed(claim: Claim, delivery: Delivery, call: Callable[[], Any], limit_seconds: float | None) -> Ended:
    running = stopping.begin(str(delivery.execution_id), delivery.attempt, limit_seconds=limit_seconds)
    here = Context(
        delivery.execution_id,
        delivery.job_key,
        delivery.fire_time,
        delivery.attempt,
        request_id=delivery.request_id,
        claim=claim,
        call=running,
    )
    try:
        with context.entered(here):
            result = stopping.call_step(running, call)
    except Cancelled as error:
        return _stopped(here, delivery, error, running)
    except TaskPredicate as error:
        return _said_in_celerys_words(here, delivery, error)
    except Exception as error:
        return _failed(here, delivery, error, wish=here.wish)
    except SystemExit as error:
        if terminate_handler_fired():
            raise  # this process is told to end; who sees it end records the loss
        return _failed(here, delivery, error)
    if here.wish is not None:  # `self.retry(throw=False)`
        return _failed(here, delivery, Retry("the handler asked for another attempt"), wish=here.wish)
    if here.awaited_until is not None:
        return _awaited(here.claimed(), delivery, here.awaited_until)
    return _succeeded(here.claimed(), delivery, result)


def _claim(delivery: Delivery, worker: str) -> Claim | None:
    began = time.monotonic()
    claim = lost_answers.claimed(delivery, worker, SHORT_SECONDS)
    if isinstance(claim, Claim) and time.monotonic() - began > lifecycle.PROMPT.total_seconds():
        _give_a_sign_of_life(claim)
    if claim is None:
        _drop(delivery)
    elif isinstance(claim, Held):
        # The row waits in the database or was skipped; this message has done its part.
        events.emit("held back", **_names(delivery), state=claim.state, reason=claim.reason)
        return None
    return claim


def _give_a_sign_of_life(claim: Claim) -> None:
    """It had to wait for somebody's lock, and bears the moment before that: it must not be taken for silent."""
    held = [(claim.execution_id, claim.attempt)]
    reaching_database(lambda: lifecycle.heartbeat(held, worker=claim.worker, now=_clock.now()), SHORT_SECONDS)


def postpone(delivery: Delivery, reason: str, *, until: datetime) -> None:
    """Before it is claimed: the same attempt comes again at a later moment, and says why."""
    pair = delivery.execution_id, delivery.attempt
    is_ours = reaching_database(
        lambda: lifecycle.postpone(*pair, reason=reason, until=until, now=_clock.now()), SHORT_SECONDS
    )
    if is_ours:
        events.emit("held back", **_names(delivery), state=State.SCHEDULED, reason=reason)
    else:
        _drop(delivery)


def _drop(delivery: Delivery) -> None:
    """Taken by another worker, cancelled, or over: an ordinary end for a message that came twice."""
    events.emit("message dropped, its attempt is taken or over", **_names(delivery))


def _said_in_celerys_words(here: Context, delivery: Delivery, said: Any) -> Ended:
    if isinstance(said, Retry):
        cause = said.exc if isinstance(said.exc, BaseException) else said
        return _failed(here, delivery, cause, wish=here.wish or Wish())
    if isinstance(said, Reject):
        is_wanted_again: bool = said.requeue  # type: ignore[attr-defined]  # the stubs do not know it
        return _failed(here, delivery, said, wish=Wish(gives_up=not is_wanted_again))
    return _succeeded(here.claimed(), delivery, None)  # Ignore: whatever came of it, it is over


def _succeeded(claim: Claim, delivery: Delivery, result: object) -> Ended:
    kept = storable_result(result, limit_bytes=settings.ONBEAT_EXECUTIONS_RESULT_BYTES)
    finish = lost_answers.finished(claim, lambda now: lifecycle.succeed(claim, result=kept, now=now), LONG_SECONDS)
    _say(finish, claim, delivery, Outcome.SUCCEEDED)
    return Ended(finish, result=kept)


def _awaited(claim: Claim, delivery: Delivery, until: datetime) -> Ended:
    finish = reaching_database(lambda: lifecycle.await_end(claim, until=until, now=_clock.now()), LONG_SECONDS)
    if finish is Finish.REFUSED:
        events.emit("its end was told already, or it was taken for lost", **_names(delivery))
    else:
        events.emit("its end is told later" if finish is Finish.AWAITED else finish.value, **_names(delivery))
    return Ended(finish)


def _failed(here: Context, delivery: Delivery, error: BaseException, *, wish: Wish | None = None) -> Ended:
    claim, soonest = here.claimed(), here.no_sooner_than
    outcome = Outcome.TIMED_OUT if isinstance(error, SoftTimeLimitExceeded) else Outcome.FAILED
    if outcome is Outcome.TIMED_OUT:
        _forget_connection()
    text, kinds = storable_error(error, without=_AROUND_THE_HANDLER), kinds_of(error)
    finish = lost_answers.finished(
        claim,
        lambda now: lifecycle.fail(
            claim, error=text, kinds=kinds, outcome=outcome, wish=wish, no_sooner_than=soonest, now=now
        ),
        LONG_SECONDS,
    )
    _say(finish, claim, delivery, outcome, error=in_a_line(error))
    return Ended(finish, error=error)


def _stopped(here: Context, delivery: Delivery, error: BaseException, running: Call) -> Ended:
    _forget_connection()
    claim = here.claimed()
    finish = lost_answers.finished(claim, lambda now: lifecycle.stop(claim, now=now), LONG_SECONDS)
    if finish is Finish.REFUSED and Why.CANCELLED not in running.reasons:
        return _failed(here, delivery, error)  # the handler raised it by itself
    _say(finish, claim, delivery, Outcome.CANCELLED)
    return Ended(finish, error=error)


def _forget_connection() -> None:
    """The handler may have been interrupted in the middle of a question to the database."""
    if not connection.in_atomic_block:
        connection.close()


def _say(finish: Finish, claim: Claim, delivery: Delivery, outcome: Outcome, **details: object) -> None:
    if finish is Finish.REFUSED:
        events.warn("finish refused: another attempt holds this execution", **_names(delivery), outcome=outcome)
        reaching_database(lambda: lifecycle.record_refused(claim, outcome, now=_clock.now()), SHORT_SECONDS)
    elif finish in (Finish.SUCCEEDED, Finish.CANCELLED):
        events.emit(finish.value, **_names(delivery))
    else:
        what = "failed, a retry is scheduled" if finish is Finish.RETRY else "failed for good"
        events.warn(what, **_names(delivery), **details)


def _names(delivery: Delivery) -> dict[str, object]:
    return {"job": delivery.job_key, "execution": delivery.execution_id, "attempt": delivery.attempt}
