"""How many messages wait in the queues of the broker."""

from collections.abc import Iterable
from typing import Any

import amqp
from celery import current_app
from kombu import Connection

from executions import queues
from executions.broker_line import BROKER_ERRORS, CONNECT_SECONDS, short_connection

ANSWER_SECONDS = 3.0


def ready(names: Iterable[str]) -> dict[str, int]:
    """The messages of each queue that no worker holds yet; 0 for a queue that does not exist.

    A queue that may not be looked at is left out. A broker that does not answer tells nothing, of no queue.
    """
    names = list(names)
    if not names:
        return {}
    connection = current_app.connection_for_read(connect_timeout=CONNECT_SECONDS)
    try:
        with short_connection(connection, answer_seconds=ANSWER_SECONDS):
            counts = {name: _ready(connection, name) for name in names}
    except BROKER_ERRORS:
        return {}
    return {name: count for name, count in counts.items() if count is not None}


def _ready(connection: Connection, name: str) -> int | None:
    channel: Any = connection.channel()
    try:
        count: int = channel.queue_declare(queues.work_queue(name).name, passive=True).message_count
    except amqp.ChannelError as error:
        # The broker has closed the channel for it.
        return 0 if str(error.reply_code) == "404" else None
    channel.close()
    return count
