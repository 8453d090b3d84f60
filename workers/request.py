"""A delivery as the worker's parent sees it: its time limits, its end by force, and when its message is done with.

Celery glue only. Invariant: the message of an attempt that did not end by itself stays unacknowledged until its end is
in the database; then nobody can claim the attempt a second time, and nothing is lost if the parent dies as well.
"""

import os
import signal
import time
from contextlib import suppress
from typing import Any

from billiard.einfo import ExceptionWithTraceback  # type: ignore[attr-defined]  # the stubs do not know it
from celery.exceptions import InvalidTaskError, Reject, Terminated, TimeLimitExceeded, WorkerLostError
from celery.utils.log import get_logger
from celery.worker import state
from celery.worker.request import Request
from django.conf import settings

from executions import events
from executions.messages import Delivery, Malformed, delivery
from executions.states import Outcome
from jobs.models import DEFAULT_STOP_GRACE_SECONDS
from workers import forks, orders, recorder
from workers.orders import Why
from workers.patience import LONG_SECONDS
from workers.recorder import Death
from workers.task import Stopped

logger = get_logger(__name__)

_UNTIL_WRITTEN_SECONDS = sum(LONG_SECONDS) + 60  # so long the end of an attempt may take to get into the database

# What may hold secrets, and is shown by every tool that listens or asks: the pages of an execution have it, by role.
_PAYLOAD = ("args", "kwargs", "result")
_UNTOLD = "…"

# The child did not live to say how it went. (With SystemExit it went by itself.)
_DEATHS = (WorkerLostError, Terminated, TimeLimitExceeded, SystemExit, KeyboardInterrupt)


class TrackedRequest(Request):
    worker_pid: Any  # of the child that works on it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._check_shape()
        self.death: Death | None = None
        self.was_killed = False
        self.was_overdue = False
        self.accepted_at: float | None = None  # by the monotonic clock
        self.delivery = _delivery(self.request_dict)
        if self.delivery is not None and not any((*self.time_limits, self.task.time_limit, self.task.soft_time_limit)):
            soft = settings.ONBEAT_WORKERS_TIMEOUT_SECONDS
            self.time_limits = self.request_dict["timelimit"] = (soft + DEFAULT_STOP_GRACE_SECONDS, soft)
        self.soft_seconds = self.time_limits[1] or self.task.soft_time_limit
        self.hard_seconds = self._take_over_hard_limit()

    def _take_over_hard_limit(self) -> float | None:
        """Celery's pool would kill a child also when the work is done, while it waits for a database that is away.

        So the heartbeat kills who is overdue in its call (`kill_overdue`), and the pool only who then does not end.
        """
        hard, soft = self.time_limits
        hard = hard or self.task.time_limit
        if self.delivery is None or not hard:
            return None
        self.time_limits = (hard + _UNTIL_WRITTEN_SECONDS, soft)
        return float(hard)

    def _check_shape(self) -> None:
        """What Celery would stumble over when the message has a place in the pool already, and would never free it."""
        if not isinstance(self.id, str):
            raise InvalidTaskError("the id of a task must be text")
        if not isinstance(self.time_limits, list | tuple) or len(self.time_limits) != 2:
            raise InvalidTaskError("time limits must be two: hard and soft")
        if not all(limit is None or isinstance(limit, int | float) for limit in self.time_limits):
            raise InvalidTaskError("time limits must be numbers")

    @property
    def name_of_call(self) -> bytes:
        return orders.name_of(self.id, self.delivery.attempt if self.delivery else 0)

    # ── What is told of it ───────────────────────────────────────────────────────────────────────────────────────

    argsrepr = kwargsrepr = _UNTOLD  # Celery's own words on its arrival

    def send_event(self, type: str, **fields: Any) -> None:
        super().send_event(type, **_without_payload(fields))

    def info(self, safe: bool = False) -> Any:
        return _without_payload(dict(super().info(safe=safe)))

    # ── Its end ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        with forks.database_work():  # a result may be written
            return self._on_failure(exc_info, send_failed_event, return_ok)

    def _on_failure(self, exc_info: Any, send_failed_event: bool, return_ok: bool) -> Any:
        if self.delivery is None:
            return super().on_failure(exc_info, send_failed_event, return_ok)
        error = exc_info.exception
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        if isinstance(error, _DEATHS):
            self._has_died(error)
            self.send_event("task-failed", exception=repr(error), traceback="")
            return_ok = True  # our own line tells of it
        elif isinstance(error, Stopped):
            self.send_event("task-revoked", terminated=True, signum=None, expired=False)
        elif isinstance(error, Reject):
            return self._on_reject_of_ours(error)
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        if soft:
            # Celery sends the signal next; the child looks whether it is meant.
            orders.give(self.worker_pid, self.name_of_call, Why.TIMED_OUT)
        elif self.delivery is not None:
            self._has_died(TimeLimitExceeded(timeout))
        with forks.database_work():
            super().on_timeout(soft, timeout)

    def _announce_revoked(self, *args: Any, **kwargs: Any) -> None:
        with forks.database_work():
            super()._announce_revoked(*args, **kwargs)  # type: ignore[misc]  # the stubs do not know it

    def _has_died(self, error: BaseException) -> None:
        """Comes twice on a hard time limit; the first word counts."""
        if self.death is not None:
            return
        assert self.delivery is not None
        if isinstance(error, TimeLimitExceeded):
            outcome, said = Outcome.WORKER_LOST, "Its end could not be written for so long that its process was killed."
        elif self.was_overdue:
            outcome, said = Outcome.TIMED_OUT, f"It took longer than its hard time limit of {self.hard_seconds:g} s."
        elif self.was_killed:
            outcome, said = Outcome.CANCELLED, "It was asked to stop, did not, and was killed."
        else:
            why = str(error).partition(" Job:")[0] or type(error).__name__
            outcome, said = Outcome.WORKER_LOST, f"The process that ran this attempt ended: {why}"
        self.death = Death(self, self.delivery, self.hostname, outcome, said)
        recorder.put(self.death)

    def _on_reject_of_ours(self, error: Any) -> None:
        """Without Celery's record of a failure: the child has told of it, with the error itself."""
        state.task_ready(self)
        self.reject(requeue=error.requeue)
        if not error.requeue:
            self.send_event("task-failed", exception=repr(error.reason), traceback="")

    # ── Its message ──────────────────────────────────────────────────────────────────────────────────────────────

    def acknowledge(self) -> None:
        if self.death is None:
            super().acknowledge()

    def reject(self, requeue: bool = False) -> None:
        if self.death is None:
            super().reject(requeue=requeue)

    def release(self) -> None:
        """Its end by force is in the database: the message may go."""
        super().acknowledge()

    # ── Stopping it ──────────────────────────────────────────────────────────────────────────────────────────────

    def is_running(self) -> bool:
        return self in state.active_requests and self.worker_pid not in (None, os.getpid())

    def ask_to_stop(self) -> None:
        """In Celery's own loop: there no child is given another task before the end of the last one was seen."""
        if self.is_running():
            self._say(Why.CANCELLED)

    def _say(self, why: Why) -> None:
        """Perhaps again: a call hears each reason once."""
        orders.give(self.worker_pid, self.name_of_call, why)
        self._signal(signal.SIGUSR1)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it is gone, and Celery has not noticed yet: that may take it seconds
            os.kill(self.worker_pid, number)

    def on_accepted(self, pid: Any, time_accepted: float) -> None:
        self.accepted_at = time_accepted
        super().on_accepted(pid, time_accepted)

    def is_late(self) -> bool:
        """Whether it is still in its call after its soft time limit."""
        return self._is_in_its_call_after(self.soft_seconds)

    def is_overdue(self) -> bool:
        """Whether it is still in its call after its hard time limit."""
        return self._is_in_its_call_after(self.hard_seconds)

    def _is_in_its_call_after(self, seconds: float | None) -> bool:
        if not seconds or self.accepted_at is None or not self.is_running():
            return False
        is_past = time.monotonic() > self.accepted_at + seconds
        return is_past and orders.is_inside(self.worker_pid, self.name_of_call)

    def say_late(self) -> None:
        """Celery says it once, and nobody hears it who waits for the database just then, before the call."""
        if self.is_late():
            self._say(Why.TIMED_OUT)

    def kill_overdue(self) -> None:
        """In Celery's own loop, like a word to stop. Once: its number may soon be somebody else's."""
        if self.is_overdue() and not self.was_overdue:
            self.was_overdue = True
            events.warn("it takes longer than it may: it is killed", execution=self.id, process=self.worker_pid)
            self._signal(signal.SIGKILL)

    def kill(self) -> None:
        if self.is_running() and not self.was_killed:
            self.was_killed = True
            events.warn("asked to stop, it did not: it is killed", execution=self.id, process=self.worker_pid)
            self._signal(signal.SIGKILL)

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """A revoke: for an execution that is a cancel, asked for in the database."""
        if self.delivery is None:
            super().terminate(pool, signal)
        else:
            recorder.put(recorder.Revoke((self.delivery.execution_id,)))

    def revoked(self) -> bool:
        """Whether an execution is wanted is known in the database alone."""
        return False if self.delivery is not None else bool(super().revoked())


def _without_payload(told: dict[str, Any]) -> dict[str, Any]:
    return {name: _UNTOLD if name in _PAYLOAD else value for name, value in told.items()}


def _delivery(headers: dict[str, Any]) -> Delivery | None:
    try:
        return delivery(headers)
    except Malformed:
        return None  # the child rejects it
