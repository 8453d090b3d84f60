"""The peers' queue, of the same kind as ours: durable, with priorities, and with a place for what is rejected."""

from kombu import Exchange, Queue

WORK, DEAD_LETTERS = "default", "dead-letters"
EXCHANGES = ("work", DEAD_LETTERS)


def work_queue(prefix: str) -> Queue:
    return Queue(
        prefix + WORK,
        Exchange(f"{prefix}work", type="direct", durable=True),
        routing_key=WORK,
        durable=True,
        queue_arguments={
            "x-max-priority": 9,
            "x-dead-letter-exchange": prefix + DEAD_LETTERS,
            "x-dead-letter-routing-key": DEAD_LETTERS,
        },
    )


def dead_letter_queue(prefix: str) -> Queue:
    exchange = Exchange(prefix + DEAD_LETTERS, type="direct", durable=True)
    return Queue(prefix + DEAD_LETTERS, exchange, routing_key=DEAD_LETTERS, durable=True)
