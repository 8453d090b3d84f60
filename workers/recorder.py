"""What a worker's parent has to write that cannot wait for a child and must not hold up Celery's loop.

A thread of the parent with a database connection of its own. It writes how attempts ended whose child is gone, and
cancels what was revoked. Invariant: each is written, however long the database is away; fenced, so that whoever was
first wins; and the message of a dead attempt is let go only afterwards.
"""

import queue
import threading
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from celery.exceptions import TimeLimitExceeded, WorkerLostError
from celery.worker import state
from django.db import connection, transaction

from executions import database_line, events, lifecycle
from executions.clock import Clock
from executions.messages import Delivery
from executions.outcomes import Claim, Finish
from executions.retry import kinds_of
from executions.states import Outcome
from executions.storable import in_a_line
from workers import forks
from workers.patience import AWAY

if TYPE_CHECKING:
    from workers.request import TrackedRequest

REVOKED = "revoked through Celery"
# A child that was killed for its hard time limit may live on for about a second.
_OUTLIVES = timedelta(seconds=2)
_TRY_AGAIN_AFTER_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class Death:
    """An attempt whose process ended before it could say how it went."""

    request: "TrackedRequest"
    delivery: Delivery
    worker: str
    outcome: Outcome
    error: str


@dataclass(frozen=True, eq=False)
class Revoke:
    ids: tuple[uuid.UUID, ...]


_waiting: queue.SimpleQueue[Death | Revoke | None] = queue.SimpleQueue()


def put(thing: Death | Revoke) -> None:
    _waiting.put(thing)


class Recorder:
    def __init__(self) -> None:
        self._clock = Clock()
        self._thread = threading.Thread(target=self._run, name="onbeat-recorder", daemon=True)
        self._is_leaving = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what is there, unless the database is away: then the broker and the rescue will see to it."""
        self._is_leaving.set()
        _waiting.put(None)
        self._thread.join(timeout=5)

    @database_line.hurried()
    def _run(self) -> None:
        while (thing := _waiting.get()) is not None:
            self._write(thing)
        connection.close()

    def _write(self, thing: Death | Revoke) -> None:
        """Until it is written, or cannot be for another reason than that the database is away."""
        is_away = False
        while True:
            try:
                with forks.database_work():
                    _write(thing, self._clock)
                return
            except AWAY as error:
                connection.close()
                if not is_away:
                    events.warn("the database is away: the end of an attempt is written later", error=in_a_line(error))
                is_away = True
                if self._is_leaving.wait(_TRY_AGAIN_AFTER_SECONDS):
                    return
            except Exception as error:
                # Without this thread no death would be recorded any more, so go on. The row is rescued by a beat.
                events.warn("the end of an attempt could not be written", error=in_a_line(error))
                connection.close()
                if isinstance(thing, Death):
                    thing.request.release()
                return


def _write(thing: Death | Revoke, clock: Clock) -> None:
    if isinstance(thing, Death):
        record(thing, clock)
    else:
        cancel(thing, clock)


def record(death: Death, clock: Clock) -> Finish | None:
    """How the attempt ended. None: it was over, or held back, or another child of this worker holds it."""
    finish = None if _is_held_by_another(death.request) else _end(death, clock)
    if finish is not None:
        events.warn(
            "an attempt ended by force",
            job=death.delivery.job_key,
            execution=death.delivery.execution_id,
            attempt=death.delivery.attempt,
            outcome=death.outcome,
            then=finish,
        )
    _tell_celery(death, finish)
    death.request.release()
    return finish


def _tell_celery(death: Death, finish: Finish | None) -> None:
    """For whoever waits for the result, if it is kept."""
    request = death.request
    if request.ignore_result:
        return
    if finish is Finish.DEAD:
        request.task.backend.mark_as_failure(request.id, _error_of(death), store_result=True)
    elif finish is Finish.CANCELLED:
        request.task.backend.mark_as_revoked(request.id, "cancelled", store_result=True)


def _end(death: Death, clock: Clock) -> Finish | None:
    execution_id, attempt, now = death.delivery.execution_id, death.delivery.attempt, clock.now()
    with transaction.atomic():
        # A child that died before it claimed has used up its attempt as well: else a crash loop would have no end.
        claim = lifecycle.claim_of(execution_id, attempt, worker=death.worker) or lifecycle.claim(
            execution_id, attempt, worker=death.worker, now=now
        )
        if not isinstance(claim, Claim):
            return None
        if death.outcome is Outcome.TIMED_OUT:
            kinds = kinds_of(_error_of(death))
            return lifecycle.fail(
                claim, error=death.error, kinds=kinds, outcome=death.outcome, now=now, no_sooner_than=_OUTLIVES
            )
        return lifecycle.lose(claim, error=death.error, outcome=death.outcome, now=now)


def _error_of(death: Death) -> Exception:
    return (TimeLimitExceeded if death.outcome is Outcome.TIMED_OUT else WorkerLostError)(death.error)


def _is_held_by_another(request: Any) -> bool:
    """A message may come twice, and both copies to one worker."""
    return any(
        other is not request and getattr(other, "delivery", None) == request.delivery
        for other in list(state.active_requests)
    )


def cancel(revoke: Revoke, clock: Clock) -> None:
    cancelled = lifecycle.cancel(revoke.ids, reason=REVOKED, now=clock.now())
    for execution_id in (*cancelled.before_run, *cancelled.asked_to_stop):
        events.emit("cancelled by a revoke", execution=execution_id)
