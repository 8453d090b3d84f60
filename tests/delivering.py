"""What a worker does with the message of an execution, in this process."""

from typing import Any

from celery import current_app

from executions.messages import of_execution
from executions.models import Execution
from jobs.targets import known_tasks
from tests.making import outgoing


def deliver(execution: Execution) -> Any:
    """Run its message; the row is read again, and what Celery was told is the answer."""
    known_tasks()  # loads them
    execution.refresh_from_db()
    message = of_execution(*outgoing(execution))
    answer = current_app.tasks[execution.task].apply(
        args=execution.args,
        kwargs=execution.kwargs,
        task_id=str(execution.pk),
        headers=message.headers,
        retries=message.headers.get("retries", 0),  # a worker reads this one from the headers itself
        throw=False,
    )
    execution.refresh_from_db()
    return answer
