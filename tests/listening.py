"""What goes through RabbitMQ, heard by a queue of one's own beside the others."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kombu
from django.conf import settings


@contextmanager
def listening(*places: tuple[str, str, str], note: Callable[[str, Any], None]) -> Iterator[None]:
    """Every message of these exchanges, each with its kind and a routing key, while this lasts: its body and itself."""
    is_over = threading.Event()

    def take(message: Any) -> None:
        body = message.body
        note(body if isinstance(body, str) else bytes(body).decode("utf-8", "replace"), message)

    def listen(connection: kombu.Connection) -> None:
        while not is_over.is_set():
            try:
                connection.drain_events(timeout=0.2)
            except TimeoutError:
                continue

    with kombu.Connection(settings.CELERY_BROKER_URL) as connection:
        queues = [
            # With a name each: kombu keeps those of a consumer by their names.
            kombu.Queue(f"heard.{uuid.uuid4().hex}", kombu.Exchange(exchange, kind), routing_key, exclusive=True)
            for exchange, kind, routing_key in places
        ]
        with kombu.Consumer(connection.channel(), queues, on_message=take, no_ack=True):
            listener = threading.Thread(target=listen, args=(connection,))
            listener.start()
            try:
                yield
            finally:
                is_over.set()
                listener.join()
