"""The task class that tracks executions.

Celery glue only: a message with our headers goes through the runner, and what came of it is said in Celery's words; any
other message behaves as plain Celery.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from billiard.einfo import ExceptionInfo
from celery import Task, signals, states
from celery.contrib.django.task import DjangoTask
from celery.exceptions import Ignore, MaxRetriesExceededError, Reject, Retry

from executions.messages import Delivery, Malformed, delivery
from executions.outcomes import Finish, Wish
from jobs import payloads
from jobs.refusals import InvalidRun
from workers import connections, context, runner, stopping
from workers.context import Context
from workers.patience import Unreachable
from workers.runner import Ended


class Stopped(Ignore):
    """The execution was cancelled while it ran; the message has done its part."""


class Tracking:
    """What every task of the app has, whatever base it brings, so that any `@shared_task` can be a job's target."""

    Request = "workers.request:TrackedRequest"
    request: Any
    run: Callable[..., Any]
    max_retries: int | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        request = self.request
        if request.called_directly or getattr(request, "is_entered", False):
            # A plain function call, perhaps by the very task that runs: no message stands behind it.
            return super().__call__(*args, **kwargs)  # type: ignore[misc]  # the task that this is mixed with has it
        request.is_entered = True  # a mark of ours on Celery's object
        if request.is_eager:  # the process and its database connection are the caller's
            return self._run_message(request, *args, **kwargs)
        stopping.listen()
        connections.begin_task()
        try:
            return self._run_message(request, *args, **kwargs)
        finally:
            connections.end_task()

    def _run_message(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            ours = delivery(request.headers or {})
        except Malformed as error:
            raise Reject(error, requeue=False) from error
        # `run`, not `super().__call__`: that would push an empty request over the one the task reads.
        own = super().__call__ if _brings_its_own_call(type(self)) else self.run  # type: ignore[misc]
        if ours is None:
            return _run_plain(request, lambda: own(*args, **kwargs))
        limit = _soft_limit(self, request)
        try:
            with self.admission(ours) as not_now:
                if not_now is not None:
                    runner.postpone(ours, not_now.reason, until=not_now.until)
                    raise Ignore("held back")
                ended = runner.run(
                    ours, worker=request.hostname or "", call=lambda: own(*args, **kwargs), limit_seconds=limit
                )
        except Unreachable as error:
            raise Reject(error, requeue=True) from error
        return _in_celerys_words(self, ended)

    def admission(self, _delivery: Delivery) -> AbstractContextManager[Any]:
        """Around claim and call: what a task needs besides a worker. Who enters gets why not now, or None."""
        return nullcontext()

    def retry(  # the arguments are Celery's
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        exc: Exception | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Any:
        """As Celery's; but for an execution the next attempt waits in the database, and nothing is sent.

        How often is the job's policy. A smaller `max_retries`, given here or in the decorator, counts as well.
        """
        here = context.current()
        if not here or self.request.called_directly or self.request.id != here.idempotency_key:
            return super().retry(  # type: ignore[misc]
                args, kwargs, exc, throw, eta, countdown, max_retries, **options
            )
        if max_retries is None and self.max_retries != Task.max_retries:  # said in the task's decorator
            max_retries = self.max_retries
        if max_retries is not None and here.attempt > max_retries:
            here.wish = Wish(gives_up=True)
            raise exc or MaxRetriesExceededError(f"attempt {here.attempt} was the last that max_retries allows")
        if args is not None or kwargs is not None:
            payloads.check(args or (), kwargs or {}, InvalidRun)
        here.wish = Wish(retry_in=_delay(eta, countdown), args=args, kwargs=kwargs)
        when: Any = eta or countdown
        wanted = Retry("the handler asked for another attempt", exc=exc, when=when)
        if throw:
            raise wanted from exc
        return wanted


class TrackedTask(Tracking, DjangoTask[..., Any]):
    """The app's own task class."""

    abstract = True


def tracked(task: Any) -> Any:
    """The same task; one that brings its own base gets our part in front of it."""
    if not isinstance(task, Tracking):
        own = type(task)
        task.__class__ = type(own.__name__, (Tracking, own), {"__module__": own.__module__, "__doc__": own.__doc__})
    return task


def _brings_its_own_call(cls: type) -> bool:
    after = cls.__mro__[cls.__mro__.index(Tracking) + 1 :]
    return any("__call__" in base.__dict__ for base in after[: after.index(Task)])


def _run_plain(request: Any, call: Callable[[], Any]) -> Any:
    """A plain Celery call has an empty context, and soft time limits that hit nobody else."""
    with context.entered(Context()):
        return stopping.call_step(stopping.begin(str(request.id), 0, limit_seconds=None), call)


def _soft_limit(task: Any, request: Any) -> float | None:
    """Where the pool watches no time limits, we do."""
    _, soft = request.timelimit or (None, None)
    limit: float | None = soft or task.soft_time_limit
    return limit


def _delay(eta: datetime | None, countdown: float | None) -> timedelta | None:
    if eta is not None:
        aware = eta if eta.tzinfo else eta.replace(tzinfo=UTC)
        return max(timedelta(0), aware - datetime.now(UTC))  # by the clock that the handler named it by
    return None if countdown is None else timedelta(seconds=countdown)


def _in_celerys_words(task: Any, ended: Ended) -> Any:
    error: Any = ended.error
    match ended.finish:
        case Finish.SUCCEEDED:
            return ended.result
        case Finish.RETRY:
            raise Retry("the next attempt waits in the database", exc=error) from error
        case Finish.DEAD:
            _tell_of_failure(task, error)
            raise Reject(error, requeue=False) from error
        case Finish.CANCELLED:
            if not task.request.ignore_result:
                task.backend.mark_as_revoked(task.request.id, "cancelled", request=task.request, store_result=True)
            raise Stopped("cancelled")
        case _:
            raise Ignore("its attempt is taken, over or held back")


def _tell_of_failure(task: Any, error: Any) -> None:
    """What Celery does for a task that failed, and does not do for a message that is rejected."""
    request, about = task.request, ExceptionInfo((type(error), error, error.__traceback__))
    task.backend.mark_as_failure(
        request.id, error, about.traceback, request=request, store_result=not request.ignore_result
    )
    task.on_failure(error, request.id, request.args, request.kwargs, about)
    signals.task_failure.send(
        sender=task,
        task_id=request.id,
        exception=error,
        args=request.args,
        kwargs=request.kwargs,
        traceback=error.__traceback__,
        einfo=about,
    )
    task.after_return(states.FAILURE, error, request.id, request.args, request.kwargs, about)
