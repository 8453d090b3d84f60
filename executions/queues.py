"""The exchange and queues on the broker.

Owns their names and arguments. Everything carries our prefix, so that a project's other Celery traffic is untouched.
Invariant: beats and workers declare a queue with the same arguments, whoever comes first.
"""

from typing import Any

from django.conf import settings
from kombu import Exchange, Queue

from executions.models import MAX_PRIORITY

# No job may use this queue: it is where the broker puts what no worker could take.
DEAD_LETTERS = "dead-letters"
# A quorum queue refuses to be told of priorities: from RabbitMQ 4.0 on it has some of its own, before it has none.
_HELD_BY_MANY: dict[str, Any] = {"x-queue-type": "quorum"}
# Without these a dead letter is lost if the node dies that moves it. The second is what the first asks for.
_GIVEN_UP_SURELY: dict[str, Any] = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


def prefix() -> str:
    value: str = settings.ONBEAT_EXECUTIONS_PREFIX
    return value


def are_quorum() -> bool:
    """Whether the broker holds each queue on several of its nodes. The folder broker has no such queues."""
    return bool(settings.ONBEAT_EXECUTIONS_QUEUE_TYPE == "quorum" and not settings.IS_FOLDER_BROKER)


def exchange_name() -> str:
    return f"{prefix()}work"


def exchange() -> Exchange:
    return Exchange(exchange_name(), type="direct", durable=True)


def dead_letter_exchange() -> Exchange:
    return Exchange(f"{prefix()}{DEAD_LETTERS}", type="direct", durable=True)


def work_queue(name: str) -> Queue:
    """The broker's queue for the jobs' queue of that name ("default", "batch-etl")."""
    return Queue(
        f"{prefix()}{name}",
        exchange=exchange(),
        routing_key=name,
        durable=True,
        queue_arguments={
            **(_HELD_BY_MANY | _GIVEN_UP_SURELY if are_quorum() else {"x-max-priority": MAX_PRIORITY}),
            "x-dead-letter-exchange": dead_letter_exchange().name,
            "x-dead-letter-routing-key": DEAD_LETTERS,
        },
    )


def dead_letter_queue() -> Queue:
    return Queue(
        f"{prefix()}{DEAD_LETTERS}",
        exchange=dead_letter_exchange(),
        routing_key=DEAD_LETTERS,
        durable=True,
        queue_arguments=dict(_HELD_BY_MANY) if are_quorum() else None,
    )


def job_queue_name(broker_queue: str) -> str | None:
    """The jobs' name of one of our queues, None for somebody else's."""
    name = broker_queue.removeprefix(prefix())
    return name if name != broker_queue and name else None
