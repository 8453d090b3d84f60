"""One message of the dead-letter queue, as it was found.

Owns what can be told from it: how it got there, what it was meant for, and why nobody took it. Invariant: nothing in it
is trusted. Whatever it holds can be looked at and stored; nothing of it is run, unpickled or decompressed.
"""

import base64
import hashlib
import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from celery import current_app
from kombu.serialization import prepare_accept_content
from kombu.utils import json as kombu_json

from executions.messages import EXECUTION_HEADER, Delivery, Malformed, delivery
from executions.storable import storable_text

NAME_CHARACTERS = 255
# In the place of properties that the AMQP library cannot read: their bytes.
UNREADABLE_HEADER = "onbeat_unreadable"
# On a message that was published again: the digest of the one that it repeats.
REPLAY_HEADER = "onbeat_replay_of"
_DEATH_HEADER = "x-death"
_ADDED_BY_THE_BROKER = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count")
_COUNTS_DELIVERIES = ("x-delivery-count", "x-acquired-count")
_LONGEST_LOOK = 1024 * 1024  # bytes of a body that are parsed to tell what is wrong with it
_DEEPEST = 50
_JSON = "application/json"


@dataclass(frozen=True)
class Death:
    """What the broker noted when it moved the message. Empty texts if it noted nothing that can be read."""

    reason: str = ""  # rejected, expired, maxlen, delivery_limit
    queue: str = ""  # where it was
    exchange: str = ""  # where it was published to
    routing_key: str = ""


@dataclass(frozen=True, eq=False)
class Undelivered:
    tag: Any  # by which the broker lets it go
    body: bytes
    headers: Mapping[Any, Any]
    properties: Mapping[str, Any]

    @cached_property
    def death(self) -> Death:
        deaths = self.headers.get(_DEATH_HEADER)
        last = deaths[0] if isinstance(deaths, list) and deaths else None
        if not isinstance(last, Mapping):
            return Death()
        keys = last.get("routing-keys")
        first_key = keys[0] if isinstance(keys, list) and keys else ""
        return Death(_name(last.get("reason")), _name(last.get("queue")), _name(last.get("exchange")), _name(first_key))

    @cached_property
    def delivery(self) -> Delivery | None:
        """The attempt that it was to start; None if it names none that can be read."""
        try:
            return delivery(self.headers)
        except Malformed:
            return None

    @cached_property
    def task(self) -> str:
        """By the header of Celery's protocol 2, or in the body as protocol 1 has it. Empty if it names none."""
        if task := _name(self.headers.get("task")):
            return task
        return _name(self._said.get("task")) if isinstance(self._said, dict) else ""

    @cached_property
    def stored_headers(self) -> Any:
        return storable(dict(self.headers))

    @cached_property
    def stored_properties(self) -> Any:
        return storable(dict(self.properties))

    @cached_property
    def is_stored_as_it_was(self) -> bool:
        """Whether what is stored of headers and properties says all that they said."""
        try:
            found = [dict(self.headers), dict(self.properties)]
            return [restored(self.stored_headers), restored(self.stored_properties)] == found
        except Exception:  # what is strange enough to fail here was not kept as it was
            return False

    @cached_property
    def digest(self) -> str:
        """The same each time the same message is delivered; another when it was published or rejected again."""
        headers = {name: value for name, value in self.stored_headers.items() if name not in _COUNTS_DELIVERIES}
        names = [self.stored_properties.get(name) for name in ("message_id", "correlation_id")]
        told = json.dumps([names, headers], sort_keys=True).encode()
        return hashlib.sha256(hashlib.sha256(told).digest() + self.body).hexdigest()

    @cached_property
    def why_not_taken(self) -> str:
        """In a sentence, as precisely as can be told."""
        reason, queue = self.death.reason, self.death.queue
        if reason == "expired":
            return f"Its message waited longer in the queue '{queue}' than the broker allows."
        if reason == "maxlen":
            return f"Its message did not fit into the queue '{queue}' any more: it was full."
        if reason == "delivery_limit":
            return f"Its message was delivered more often than the queue '{queue}' allows: each time its worker died."
        if unreadable := self._why_unreadable():
            return f"No worker could take its message: {unreadable}."
        return (
            f"No worker could take its message: the task '{self.task}' is not registered there, "
            "or the message cannot be read."
        )

    @property
    def _is_malformed(self) -> bool:
        return EXECUTION_HEADER in self.headers and self.delivery is None

    def _why_unreadable(self) -> str:
        content_type = _name(self.properties.get("content_type"))
        if UNREADABLE_HEADER in self.headers:
            return "its properties cannot be read"
        if content_type not in (prepare_accept_content(current_app.conf.accept_content) or ()):
            return f"workers do not read the content type '{content_type}'"
        if content_type == _JSON and self._said is _BROKEN:
            return "its body is not the JSON that it says it is"
        if not self.task:
            return "it names no task, so it is no message of Celery"
        return "its headers bear our name, but not what we write" if self._is_malformed else ""

    @cached_property
    def _said(self) -> Any:
        """The body, if it is plain JSON of a size that one can look at."""
        if len(self.body) > _LONGEST_LOOK or self.headers.get("compression"):
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return _BROKEN


_BROKEN = object()


def published_anew(headers: Mapping[str, Any], *, digest: str) -> dict[str, Any]:
    """The headers of a message that is published again: without the broker's notes, and with whom it repeats."""
    own = {name: value for name, value in headers.items() if not name.startswith(_ADDED_BY_THE_BROKER)}
    return {**own, REPLAY_HEADER: digest}


def storable(value: object, depth: int = 0) -> Any:
    """As JSON that every database takes. What JSON cannot say is marked as Kombu marks it, or only described."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, str):
        return storable_text(value, len(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return _marked("base64", base64.b64encode(bytes(value)).decode())
    if isinstance(value, datetime):
        return _marked("datetime", value.isoformat())
    if isinstance(value, Decimal):
        return _marked("decimal", str(value))
    if isinstance(value, uuid.UUID):
        return _marked("uuid", {"hex": value.hex})
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {_key(key): storable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item, depth + 1) for item in value]
    return f"a value of type {type(value).__name__}"


def restored(stored: object) -> Any:
    """What was stored, as it is published."""
    return kombu_json.loads(json.dumps(stored))


def _marked(kind: str, value: object) -> dict[str, object]:
    return {"__type__": kind, "__value__": value}


def _key(key: object) -> str:
    text = bytes(key).decode("utf-8", "replace") if isinstance(key, bytes | bytearray | memoryview) else str(key)
    return storable_text(text, len(text))


def _name(value: object) -> str:
    return storable_text(value, NAME_CHARACTERS) if isinstance(value, str) else ""
