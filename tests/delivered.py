"""A message as it reaches the parent of a worker, and what became of it."""

from typing import Any

from billiard.einfo import ExceptionInfo
from celery import current_app
from kombu.message import Message

from executions.messages import of_execution
from executions.models import Execution
from tests.making import outgoing
from workers.request import TrackedRequest
from workers.tasks import echo


class Delivered:
    """A request, and what became of its message."""

    def __init__(self, execution: Execution, *, task: Any = echo, **headers: Any) -> None:
        message = of_execution(*outgoing(execution))
        self.acked: list[str] = []
        self.request = TrackedRequest(
            Message(
                body=message.body,
                headers={**message.headers, **headers},
                properties=message.properties,
                content_type="application/json",
                content_encoding="utf-8",
                delivery_info={},
            ),
            app=current_app,
            task=task,
            hostname="here",
            on_ack=lambda *_: self.acked.append("acked"),
            on_reject=lambda _log, _errors, requeue: self.acked.append("requeued" if requeue else "rejected"),
        )

    def dies(self, error: BaseException) -> None:
        try:
            raise error
        except type(error):
            self.request.on_failure(ExceptionInfo())
