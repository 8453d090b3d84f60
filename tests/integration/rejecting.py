"""Messages that no worker takes, on the tier's real broker: published as they are, and rejected as a worker would."""

from collections.abc import Iterable
from typing import Any

from executions import messages, queues
from executions.models import DeadMessage, Execution
from tests.integration.conftest import Queues
from tests.making import outgoing
from tests.waiting import wait_until

PLAIN = {"content_type": "application/json", "content_encoding": "utf-8"}


class Rejecting:
    def __init__(self, broker: Queues) -> None:
        self._broker = broker
        queues.dead_letter_queue().bind(broker.channel).declare()
        queues.work_queue("default").bind(broker.channel).declare()

    def publish(
        self, body: bytes, *, headers: dict[Any, Any] | None = None, queue: str = "default", **properties: Any
    ) -> None:
        """Without anything that Kombu or Celery would add."""
        channel = self._broker.channel
        known = {name: properties.pop(name, None) for name in ("priority", "content_type", "content_encoding")}
        message = channel.prepare_message(body, headers=headers, properties=properties, **known)
        channel.basic_publish(message, exchange="", routing_key=queues.work_queue(queue).name)

    def publish_task(self, task: str = "their.task", **headers: Any) -> None:
        """A plain message of Celery."""
        self.publish(b"[[], {}, {}]", headers={"task": task, "id": "7", **headers}, correlation_id="7", **PLAIN)

    def publish_execution(self, execution: Execution, *, queue: str = "default", **headers: Any) -> None:
        message = messages.of_execution(*outgoing(execution))
        self.publish(message.body, headers={**message.headers, **headers}, queue=queue, **message.properties)

    def reject(self, *, queue: str = "default") -> None:
        """All that is in the queue."""
        channel = self._broker.channel
        before = self.count()
        taken = list(iter(lambda: channel.basic_get(queues.work_queue(queue).name), None))
        for message in taken:
            channel.basic_reject(message.delivery_tag, requeue=False)
        self.wait_for(before + len(taken))

    def count(self) -> int:
        """How many wait in the dead-letter queue."""
        name = queues.dead_letter_queue().name
        count: int = self._broker.channel.queue_declare(name, passive=True).message_count
        return count

    def wait_for(self, count: int) -> None:
        wait_until(lambda: self.count() == count, what=f"the dead-letter queue has {count} messages")

    def work(self) -> list[Any]:
        """The messages of the work queue, taken from it."""
        channel, name = self._broker.channel, queues.work_queue("default").name
        taken = list(iter(lambda: channel.basic_get(name), None))
        for message in taken:
            channel.basic_ack(message.delivery_tag)
        return taken

    def declare(self, queue: str, arguments: dict[str, Any]) -> None:
        """A queue of the broker with arguments of an operator's choice."""
        usual = queues.work_queue(queue)
        given = {**(usual.queue_arguments or {}), **arguments}
        self._broker.channel.queue_declare(usual.name, durable=True, auto_delete=False, arguments=given)


def headers_of(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = message.headers
    return found


def ids(rows: Iterable[Execution]) -> list[Any]:
    return [row.pk for row in rows]


def now_of(execution: Execution) -> tuple[str, int]:
    execution.refresh_from_db()
    return execution.state, execution.attempt


def the_message() -> DeadMessage:
    return DeadMessage.objects.get()
