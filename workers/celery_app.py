"""What a Celery app needs in order to run executions: one call in the project's `celery.py`."""

from celery import Celery
from celery.app.amqp import Queues
from kombu import Queue

from executions import folder_broker


class _OurQueues(Queues):
    """Celery makes up queues that `-Q` names; ours are made with the arguments that the beat declares them with."""

    def new_missing(self, name: str) -> Queue:
        from executions import queues  # needs the models, which are not loaded yet when the app is made

        job_queue = queues.job_queue_name(name)
        return super().new_missing(name) if job_queue is None else queues.work_queue(job_queue)


def install(app: Celery) -> None:
    """Track executions in every task of the app, and let its workers give signs of life."""
    folder_broker.register()
    app.task_cls = "workers.task:TrackedTask"
    app.amqp.queues_cls = _OurQueues
    app.steps["worker"].add("workers.heartbeat:Heartbeat")
