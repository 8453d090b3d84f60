"""The task class that tracks executions.

Celery glue only: a message with our headers goes through the runner, any other behaves as plain Celery.
"""

from typing import Any

from celery.contrib.django.task import DjangoTask
from celery.exceptions import Reject

from executions.messages import Malformed, delivery
from workers import runner


class TrackedTask(DjangoTask[..., Any]):
    """Every task of the app, so that any `@shared_task` can be a job's target unmodified."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        request = self.request
        if request.called_directly or getattr(request, "is_entered", False):
            # A plain function call, perhaps by the very task that runs: no message stands behind it.
            return super().__call__(*args, **kwargs)
        request.is_entered = True  # type: ignore[attr-defined]  # a mark of ours on Celery's object
        try:
            ours = delivery(request.headers or {})
        except Malformed as error:
            raise Reject(error, requeue=False) from error
        # `run`, not `super().__call__`: that would push an empty request over the one the task reads.
        if ours is None:
            return self.run(*args, **kwargs)
        return runner.run(ours, worker=request.hostname or "", call=lambda: self.run(*args, **kwargs))
