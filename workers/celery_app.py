"""What a Celery app needs in order to run executions: one call in the project's `celery.py`."""

from typing import Any

from celery import Celery
from celery.app.amqp import Queues
from celery.app.registry import TaskRegistry
from kombu import Queue

from executions import folder_broker


class _OurQueues(Queues):
    """Celery makes up queues that `-Q` names; ours are made with the arguments that the beat declares them with."""

    def new_missing(self, name: str) -> Queue:
        from executions import queues  # needs the models, which are not loaded yet when the app is made

        job_queue = queues.job_queue_name(name)
        return super().new_missing(name) if job_queue is None else queues.work_queue(job_queue)

    def _add(self, queue: Queue) -> Queue:
        """Also the app's default queue, to which a plain `.delay()` goes, if it has the name of one of ours."""
        from executions import queues

        job_queue = queues.job_queue_name(queue.name)
        added: Queue = super()._add(queue if job_queue is None else queues.work_queue(job_queue))  # type: ignore[misc]
        return added


class _Tracked(TaskRegistry):
    """A task that brings its own `base=` would escape the app's task class."""

    def __setitem__(self, name: str, task: Any) -> None:
        from workers.task import tracked  # needs the models as well

        super().__setitem__(name, tracked(task))


_DEFAULTS = {
    "worker_consumer": "workers.consumer:Consumer",
    # How long Celery waits for the word of a child that died. Its word is in the database, if it had one.
    "worker_lost_wait": 1.0,
    # A task that takes longer than RabbitMQ waits for its acknowledgement (30 min) costs the channel. Without this it
    # costs the worker; with it the task goes on, and its message comes again and is dropped.
    "broker_channel_error_retry": True,
    # It is the row that says who runs what: a lost line to the broker is no reason to end a task.
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    # Else Celery closes the whole pool of database connections before and after each task, and a task waits for a new
    # one. The task class gives its connection back to the pool instead.
    "CELERY_DB_REUSE_MAX": 2**31,
}


def install(app: Celery) -> None:
    """Track executions in every task of the app, and let its workers give signs of life."""
    folder_broker.register()
    app.task_cls = "workers.task:TrackedTask"
    app.amqp.queues_cls = _OurQueues
    app.add_defaults(lambda: _DEFAULTS)
    app.steps["worker"].add("workers.heartbeat:Heartbeat")
    app.steps["consumer"].add("workers.consumer:DeadLetterQueue")
    _track_all(app)


def _track_all(app: Any) -> None:
    tasks = _Tracked()
    for name, task in app._tasks.items():
        tasks[name] = task
    app._tasks = tasks
