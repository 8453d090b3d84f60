"""How many messages wait in the queues of the broker."""

from collections.abc import Iterable
from typing import Any

import amqp
from celery import current_app
from kombu import Connection

from executions import queues
from executions.broker_line import BROKER_ERRORS, CONNECT_SECONDS

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
        if connection.transport.driver_type == "amqp":
            # One that falls silent in the middle of the question would be waited for without end.
            limits = {"read_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS}
            connection.transport_options = {**(connection.transport_options or {}), **limits}
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=CONNECT_SECONDS)
        counts = {name: _ready(connection, name) for name in names}
        connection.release()
    except BROKER_ERRORS:
        connection.collect(socket_timeout=0.1)  # without a word: a polite goodbye can block as well
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
