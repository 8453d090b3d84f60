"""The embedded set-up's broker: a kombu transport whose broker is a folder on this machine.

The URL names the root, `folder:///var/lib/onbeat/broker`. Below it:

    queues/<queue>/ready/<name>          waiting; sorted names are the order of delivery
    unacked/<consumer>/<queue>/<name>    delivered and not acked yet
    unacked/<consumer>.lock              locked for as long as the consumer's process lives
    bindings/<exchange>/<queue> <key>    what any process has bound
    tmp/                                 messages being written; nobody reads here
    undecodable/                         files that were no messages, for a person to look at

Invariant: a message is one file, and each step of its life is one rename or one unlink; so it is always in exactly one
place, and of many processes that want it one wins. When a publish returns, the message is on the disk; it leaves the
disk on ack. What a dead process held goes back to its old place in the queue, marked as redelivered.

Order: names begin with the priority (9 first), then the time of publishing. A consumer works from a sorted listing, and
lists anew when that is used up or ten times as old as it took to make: a short queue for almost every message, one of
50,000 every half second or so. That age is the longest that a new message of higher priority is overlooked.
Not supported: fanout (so Celery's remote control, events, gossip and mingle are off), consuming without acks, unbinding
(delete the queue). An exchange not declared in this process is taken to be direct. Any thread may ack.
"""

import fcntl
import logging
import os
import shutil
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from queue import Empty
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.utils.json import dumps, loads

logger = logging.getLogger(__name__)

RESTORE_INTERVAL_SECONDS = 2.0
FIRST, AGAIN = ".first.json", ".again.json"  # end a name, behind all that is sorted by: is it a redelivery?

_serial = count()
# The consumers of this process. Their lock files must never be opened again: POSIX drops a process's lock on a file
# as soon as the process closes any descriptor of it. Forked children do not inherit the locks.
_own_consumers: set[str] = set()
os.register_at_fork(after_in_child=_own_consumers.clear)


def register() -> None:
    """Make `folder://` known to kombu, and so to Celery. Harmless to repeat."""
    TRANSPORT_ALIASES["folder"] = "executions.folder_broker:Transport"


class Channel(virtual.Channel):
    do_restore = False  # kombu would publish unacked messages anew; `close` moves them back

    def __init__(self, connection: "Transport", **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self.root, self._acked = connection.root, connection.acked
        self._dead_letter_routes = connection.dead_letter_routes
        self._listings: dict[str, tuple[list[str], float]] = {}  # names, the next one last; fresh until
        self._consumer, self._consumer_pid, self._restore_at = "", 0, 0.0
        for folder in ("queues", "unacked", "bindings", "tmp", "undecodable"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        super().close()
        if self._consumer_pid == os.getpid():
            self._put_back_all(self._consumer)
            self._lock.close()
            _own_consumers.discard(self._consumer)
            self._consumer_pid = 0

    def _ready(self, queue: str) -> Path:
        return self.root / "queues" / _quoted(queue) / "ready"

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:  # noqa: ARG002 (here and below: kombu's signatures)
        return self._ready(queue).is_dir()

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        arguments = kwargs.get("arguments") or {}
        if (exchange := arguments.get("x-dead-letter-exchange")) is not None:
            self._dead_letter_routes[queue] = exchange, arguments.get("x-dead-letter-routing-key")
        ready = self._ready(queue)
        if not ready.is_dir():
            ready.mkdir(parents=True, exist_ok=True)
            _flush_folder(ready.parent)
            _flush_folder(ready.parent.parent)

    def _size(self, queue: str) -> int:
        return len(_names_in(self._ready(queue)))

    def _purge(self, queue: str) -> int:
        names = _names_in(self._ready(queue))
        for name in names:
            (self._ready(queue) / name).unlink(missing_ok=True)
        return len(names)

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any) -> None:  # noqa: ARG002
        if not (if_empty and self._size(queue)):
            for binding in (self.root / "bindings").glob(f"*/{_quoted(queue)} *"):
                binding.unlink(missing_ok=True)
            self.state.queue_bindings_delete(queue)
            shutil.rmtree(self._ready(queue).parent, ignore_errors=True)

    def queue_bind(self, queue: str, exchange: str | None = None, routing_key: str = "", *args: Any, **kw: Any) -> None:
        super().queue_bind(queue, exchange, routing_key, *args, **kw)
        bindings = self.root / "bindings" / _quoted(exchange or "amq.direct")
        bindings.mkdir(exist_ok=True)
        (bindings / f"{_quoted(queue)} {_quoted(routing_key)}").touch()

    def get_table(self, exchange: str) -> list[Any]:
        """Read from the folder, so that what one process has bound holds for all, as with any broker."""
        bound = [name.split(" ", 1) for name in _names_in(self.root / "bindings" / _quoted(exchange))]
        kind = self.typeof(exchange)
        return [kind.prepare_bind(unquote(queue), exchange, unquote(key), None) for queue, key in bound]

    def basic_publish(self, message: Any, exchange: str, routing_key: str, **kwargs: Any) -> Any:
        """With `mandatory`, a message that no queue takes is an error: somebody deleted the folder."""
        if kwargs.pop("mandatory", False) and exchange and not self._lookup(exchange, routing_key):
            raise FileNotFoundError(f"no queue is bound to {exchange!r} for {routing_key!r}")
        return super().basic_publish(message, exchange, routing_key, **kwargs)

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:  # noqa: ARG002
        rank = self._get_message_priority(message, reverse=True)
        name = f"{rank}-{time.time_ns():020d}-{next(_serial):010d}-{uuid4().hex}{FIRST}"
        draft = self.root / "tmp" / name
        self._new_queue(queue)
        try:
            with draft.open("wb") as file:
                file.write(dumps(message).encode())
                file.flush()
                os.fsync(file.fileno())
            draft.rename(self._ready(queue) / name)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _flush_folder(self._ready(queue))

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:  # noqa: ARG002
        if self._consumer_pid != os.getpid():
            self._enlist()
        if time.monotonic() >= self._restore_at:
            self._restore_from_the_dead()
        unacked = self.root / "unacked" / self._consumer / _quoted(queue)
        unacked.mkdir(parents=True, exist_ok=True)
        names = self._names_in_order(queue)
        while names:
            name = names.pop()
            with suppress(FileNotFoundError):  # another consumer was first: go on to the next
                (self._ready(queue) / name).rename(unacked / name)
                if message := self._read(unacked / name):
                    return message
        raise Empty

    def _names_in_order(self, queue: str) -> list[str]:
        names, fresh_until = self._listings.get(queue, ([], 0.0))
        started = time.monotonic()
        if not names or started >= fresh_until:
            names = sorted(_names_in(self._ready(queue)), reverse=True)
            ended = time.monotonic()
            self._listings[queue] = names, ended + 10 * (ended - started)
        return names

    def _read(self, path: Path) -> dict[str, Any] | None:
        """Return the message; if the file is none, set it aside and return None."""
        try:
            message: dict[str, Any] = loads(path.read_bytes())
            message["properties"]["delivery_tag"] = str(path.relative_to(self.root))
            message["properties"]["delivery_info"]["redelivered"] = path.name.endswith(AGAIN)
            self.Message(message, channel=self)  # decodes the body, as the delivery will
        except Exception as error:  # junk can fail in any way; the file is kept, outside the queue
            if isinstance(error, OSError) and not isinstance(error, IsADirectoryError | PermissionError):
                raise  # the machine is in trouble (disk, descriptors), not the message
            aside = self.root / "undecodable" / f"{uuid4().hex[:8]}-{path.name[-50:]}"
            path.rename(aside)
            logger.warning("Not a message, so set aside as %s: %r", aside, error)
            return None
        return message

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:  # noqa: ARG002
        (self.root / delivery_tag).unlink(missing_ok=True)
        self.qos.ack(delivery_tag)
        self._acked.set()

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self.qos.ack(delivery_tag)  # first: a file put back may be delivered here again under the same tag
        (self._put_back if requeue else self._dead_letter)(delivery_tag)
        self._acked.set()

    def _restore(self, message: Any) -> None:
        self._put_back(message.delivery_tag)

    def _put_back(self, delivery_tag: str) -> None:
        _, _, queue, name = delivery_tag.split("/")
        ready = self._ready(unquote(queue))
        ready.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another process was first, or it has just been acked
            (self.root / delivery_tag).rename(ready / name.replace(FIRST, AGAIN))
        self._listings.pop(unquote(queue), None)  # its place may be before those listed

    def _dead_letter(self, delivery_tag: str) -> None:
        """Publish to the dead-letter exchange that the queue was declared with, if any; then delete."""
        queue = unquote(delivery_tag.split("/")[2])
        if queue in self._dead_letter_routes:
            exchange, new_key = self._dead_letter_routes[queue]
            message = loads((self.root / delivery_tag).read_bytes())
            info, headers = message["properties"]["delivery_info"], message["headers"]
            death = {"queue": queue, "reason": "rejected", "count": 1, "exchange": info["exchange"]}
            death["time"] = datetime.now(UTC)
            headers["x-death"] = [{**death, "routing-keys": [info["routing_key"]]}, *headers.get("x-death", [])]
            info.update(exchange=exchange, routing_key=new_key or info["routing_key"])
            # If nothing is bound, RabbitMQ would drop it; here it is kept, in a queue of the exchange's name.
            for dead_letter_queue in self._lookup(exchange, info["routing_key"]) or [exchange]:
                self._put(dead_letter_queue, message)
        (self.root / delivery_tag).unlink(missing_ok=True)

    def _enlist(self) -> None:
        """Become a consumer of this process; also after a fork, as the parent's folder is not the child's to touch."""
        self._consumer, self._consumer_pid = f"{os.getpid()}-{uuid4().hex}", os.getpid()
        _own_consumers.add(self._consumer)
        # Locked before the folder exists, so that nobody takes the folder for a dead consumer's.
        self._lock = (self.root / "unacked" / f"{self._consumer}.lock").open("wb")
        fcntl.lockf(self._lock, fcntl.LOCK_EX)

    def _restore_from_the_dead(self) -> None:
        for consumer in set(_names_in(self.root / "unacked")) - _own_consumers:
            if not (consumer.endswith(".lock") or _is_locked(self.root / "unacked" / f"{consumer}.lock")):
                self._put_back_all(consumer)
        self._restore_at = time.monotonic() + RESTORE_INTERVAL_SECONDS

    def _put_back_all(self, consumer: str) -> None:
        folder = self.root / "unacked" / consumer
        for queue in _names_in(folder):
            for name in _names_in(folder / queue):
                self._put_back(f"unacked/{consumer}/{queue}/{name}")
            with suppress(OSError):  # several may do this at once; the last one removes the folder
                (folder / queue).rmdir()
        with suppress(OSError):
            folder.rmdir()
        folder.with_name(f"{consumer}.lock").unlink(missing_ok=True)


class Transport(virtual.Transport):
    Channel = Channel
    driver_type = driver_name = "folder"
    polling_interval = 0.1  # seconds
    # A full disk is to kombu and Celery what an unreachable broker is: retry, then OperationalError.
    connection_errors = (*virtual.Transport.connection_errors, OSError)
    default_connection_params: dict[str, Any] = {}  # kombu's would warn that no host is named
    cycle: Any  # kombu's stubs call it possibly None

    def __init__(self, client: Connection, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.root = _root_folder(client)
        self.acked = threading.Event()
        self.dead_letter_routes: dict[str, tuple[str, str | None]] = {}

    def drain_events(self, connection: Any, timeout: float | None = None, **kwargs: Any) -> Any:  # noqa: ARG002
        """As kombu's, but an ack ends the pause: else a full consumer takes one prefetch per polling interval."""
        deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
        while True:
            self.acked.clear()
            with suppress(Empty):
                return self.cycle.get(self._deliver, timeout=timeout)
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            self.acked.wait(min(left, self.polling_interval))


def _root_folder(client: Connection) -> Path:
    # kombu takes the path's first slash off, gives "/" where there is no path, and shows URLs with "localhost".
    if client.hostname not in (None, "localhost") or client.virtual_host == "/":
        raise ValueError("The folder broker's URL has to be folder:///absolute/path.")
    return Path("/" + client.virtual_host)


def _quoted(name: str) -> str:
    quoted = quote(name, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted  # "." and ".." would be other folders


def _names_in(folder: Path) -> list[str]:
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.listdir(folder)
    return []


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_locked(path: Path) -> bool:
    with suppress(FileNotFoundError), path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
