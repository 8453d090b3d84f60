"""The exchange and queues on the broker.

Owns their names and arguments. Everything carries our prefix, so that a project's other Celery traffic is untouched.
Invariant: beats and workers declare a queue with the same arguments, whoever comes first.
"""

from django.conf import settings
from kombu import Exchange, Queue

from executions.models import MAX_PRIORITY

# No job may use this queue: it is where the broker puts what no worker could take.
DEAD_LETTERS = "dead-letters"


def prefix() -> str:
    value: str = settings.ONBEAT_EXECUTIONS_PREFIX
    return value


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
            "x-max-priority": MAX_PRIORITY,
            "x-dead-letter-exchange": dead_letter_exchange().name,
            "x-dead-letter-routing-key": DEAD_LETTERS,
        },
    )


def dead_letter_queue() -> Queue:
    return Queue(f"{prefix()}{DEAD_LETTERS}", exchange=dead_letter_exchange(), routing_key=DEAD_LETTERS, durable=True)


def job_queue_name(broker_queue: str) -> str | None:
    """The jobs' name of one of our queues, None for somebody else's."""
    name = broker_queue.removeprefix(prefix())
    return name if name != broker_queue and name else None
