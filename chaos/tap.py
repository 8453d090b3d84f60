"""A copy of each message that is published, and when it arrived: what the broker knows, apart from what rows say.

A queue of the harness's own beside the platform's. It is durable and holds what was confirmed, as theirs do; no fault
purges it.

Faults cut the connection of the tap as well, and then a message comes again whose acknowledgement was lost. Invariant:
no message is counted twice. Two of the same attempt are the same to the byte: where one that comes again may be either,
it is taken for the one that was counted.
"""

import contextlib
import socket
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

import amqp
import kombu
from kombu.exceptions import OperationalError as BrokerError

from chaos.world import PREFIX, QUEUES

_NAME = f"{PREFIX}copies"
_ERRORS = (OSError, amqp.AMQPError, BrokerError)
_Name = tuple[str, int]  # (execution, attempt)
# After so long a broker that is killed has an acknowledgement on its disk. A message that the platform believes lost is
# published again later than that.
_UNSURE_SECONDS = 3.0


class Tap:
    def __init__(self, broker_url: str) -> None:
        self._url = broker_url
        self.copies: Counter[_Name] = Counter()
        self.arrived_at: dict[_Name, float] = {}  # the first of them
        self.error = ""  # why not all of them were read
        self._acknowledged: deque[tuple[float, _Name]] = deque()  # over this connection, the last few seconds
        self._doubted: Counter[_Name] = Counter()  # counted, and perhaps their acknowledgement was lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tap", daemon=True)

    def open(self) -> None:
        """Before the platform starts: no message is missed."""
        with kombu.Connection(self._url) as connection:
            channel: Any = connection.channel()
            channel.exchange_declare(f"{PREFIX}work", "direct", durable=True, auto_delete=False)
            channel.queue_declare(_NAME, durable=True, auto_delete=False)
            for queue in QUEUES:
                channel.queue_bind(_NAME, f"{PREFIX}work", routing_key=queue)
        self._thread.start()

    def close(self) -> None:
        """After all that is there was read."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with contextlib.suppress(*_ERRORS):
                    self._listen()
                self._doubt_the_last()
                self._stop.wait(0.2)
            self._read_the_rest()
        except Exception:  # it must not look as if fewer had been published
            self.error = traceback.format_exc()

    def _listen(self) -> None:
        with kombu.Connection(self._url, connect_timeout=3, heartbeat=10) as connection:
            channel: Any = connection.channel()
            channel.basic_qos(0, 200, False)
            channel.basic_consume(_NAME, callback=lambda message: self._note(channel, message))
            while not self._stop.is_set():
                with contextlib.suppress(socket.timeout):
                    connection.drain_events(timeout=0.5)
                connection.heartbeat_check()

    def _read_the_rest(self) -> None:
        with kombu.Connection(self._url, connect_timeout=5) as connection:
            channel: Any = connection.channel()
            while (message := channel.basic_get(_NAME)) is not None:
                self._note(channel, message)

    def _note(self, channel: Any, message: Any) -> None:
        headers = message.headers
        name = str(headers["onbeat_execution"]), int(headers["onbeat_attempt"])
        if message.delivery_info["redelivered"] and self._doubted[name]:
            self._doubted[name] -= 1
        else:
            self.copies[name] += 1
            self.arrived_at.setdefault(name, time.time())
        now = time.monotonic()
        self._acknowledged.append((now, name))
        while self._acknowledged[0][0] < now - _UNSURE_SECONDS:
            self._acknowledged.popleft()
        channel.basic_ack(message.delivery_tag)

    def _doubt_the_last(self) -> None:
        """The connection is gone. Whether the broker has heard of the last acknowledgements, nobody knows."""
        self._doubted.update(name for _, name in self._acknowledged)
        self._acknowledged.clear()


def percentiles(values: Iterable[float], *, at: Iterable[float] = (50, 90, 99, 100)) -> dict[str, float]:
    """Of the values in order, the one below which so many of a hundred lie; 100 is the largest."""
    ordered = sorted(values)
    if not ordered:
        return {}
    return {f"p{share:g}": round(ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))], 3) for share in at}
