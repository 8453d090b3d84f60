"""The task class that tracks executions.

Celery glue only: a message with our headers goes through the runner, any other behaves as plain Celery.
"""

from typing import Any

from celery.contrib.django.task import DjangoTask

from executions.messages import delivery
from workers import runner


class TrackedTask(DjangoTask[..., Any]):
    """Every task of the app, so that any `@shared_task` can be a job's target unmodified."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ours = delivery(self.request.headers or {})
        if ours is None:
            return super().__call__(*args, **kwargs)
        # `run`, not `super().__call__`: that would push an empty request over the one the task reads.
        return runner.run(ours, worker=self.request.hostname or "", call=lambda: self.run(*args, **kwargs))
