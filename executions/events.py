"""Domain events, said in one place.

Owns how an event becomes a line of the log, and a warning a count. Nobody else formats log text, and payloads, results
and secrets are no fields of an event; should one come along all the same, `executions/log_redaction.py` takes it out.

What is said within `about(…)` carries those names as well, also by others: a handler's own logger, Django, Celery.
"""

import logging
import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog
from structlog.contextvars import bound_contextvars, get_contextvars

from executions import log_redaction, metrics

FIELDS = "onbeat_fields"  # of a record: the event's, for whoever writes the line in another form
EVENT = "onbeat_event"
_FIRST = "job", "execution", "attempt", "request"
REQUEST_ID_CHARACTERS = 64
_PLAIN = re.compile(rf"[A-Za-z0-9._:-]{{1,{REQUEST_ID_CHARACTERS}}}")


def emit(event: str, **fields: object) -> None:
    """Something happened as it should."""
    _logger.info(event, **fields)


def warn(event: str, **fields: object) -> None:
    """Something happened that a person may want to look at."""
    metrics.WARNINGS.add(1, event)
    _logger.warning(event, **fields)


@contextmanager
def about(**names: object) -> Iterator[None]:
    """What all lines are about that this thread writes meanwhile. What is empty is left out."""
    said = {name: value for name, value in names.items() if value not in (None, "")}
    with bound_contextvars(**{name: value if isinstance(value, int) else str(value) for name, value in said.items()}):
        yield


def names() -> dict[str, object]:
    """What this thread's lines are about, in the same order in every process. Others may have bound something too."""
    found = get_contextvars()
    if not found:
        return {}
    found = dict(log_redaction.redact(None, "", found))
    return {name: found[name] for name in sorted(found, key=_place)}


def _place(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST)), name


def request_id() -> str:
    """Of the request that is served by this thread, or that asked for what it runs; empty if none did.

    A handler or an app may have another idea of what a request is: such a name is in its lines, and no id.
    """
    found = str(get_contextvars().get("request", ""))
    return found if is_request_id(found) else ""


def is_request_id(text: str) -> bool:
    """Short and plain, since it is stored, sent and written to logs."""
    return _PLAIN.fullmatch(text) is not None


def shown(fields: Mapping[str, object]) -> str:
    """As name=value, in the order given. One event is one line, whatever a value holds."""
    return " ".join(f"{name}={_in_line(value)}" for name, value in fields.items())


def _in_line(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and " " not in text else repr(text)


def _and_around(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What the event brings, in the order given, and after that what it is about; nothing that is empty."""
    said = {name: value for name, value in fields.items() if value is not None and value != ""}
    return {**said, **{name: value for name, value in names().items() if name not in said}}


def _as_record(
    _logger: Any, _method: str, fields: MutableMapping[str, Any]
) -> tuple[tuple[str], dict[str, dict[str, Any]]]:
    event = fields.pop("event")
    details = shown(fields)
    return (f"{event}{f'  {details}' if details else ''}",), {"extra": {EVENT: event, FIELDS: dict(fields)}}


# Of our own, and not by `structlog.configure`: an app that has us installed may have its own.
_logger: Any = structlog.wrap_logger(
    logging.getLogger("onbeat"),
    processors=[_and_around, log_redaction.redact, _as_record],
    wrapper_class=structlog.stdlib.BoundLogger,
)
