"""How a record becomes a line: for people at a terminal, as JSON for machines.

Invariants: one record is one line, but for tracebacks on a terminal; every line that is written while an execution runs
or a request is served carries its names, whoever wrote it; nothing that looks like a secret is shown.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.contextvars import merge_contextvars

from executions import events, log_redaction

_UNSEEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def formatter(kind: str = "auto") -> logging.Formatter:
    """`text`, `json`, or `auto`: text on a terminal, else JSON."""
    if kind == "auto":
        kind = "text" if sys.stderr.isatty() else "json"
    return TextLines() if kind == "text" else JsonLines()


class TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - so it is called
        if not hasattr(record, events.FIELDS):
            record.message = _UNSEEN.sub(_escaped, log_redaction.without_secrets(record.message))
            if names := events.names():
                record.message = f"{record.message}  {events.shown(names)}"
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return log_redaction.without_secrets(super().formatException(ei))


class JsonLines(structlog.stdlib.ProcessorFormatter):
    def __init__(self) -> None:
        super().__init__(
            # Not as a chain before these: a handler that uses structlog itself has its records pass by it.
            processors=[
                merge_contextvars,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(allow=["status_code"]),
                _own_fields,
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                log_redaction.redact,
                _redact_event,
                # Plain ASCII: half a character cannot be written, and some readers end a line at others.
                structlog.processors.JSONRenderer(default=str),
            ],
        )


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _own_fields(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Of an event of ours: its text alone, and its fields as they are."""
    record = fields["_record"]
    own = getattr(record, events.FIELDS, None)
    first: dict[str, Any] = {"at": fields.pop("at"), "level": fields.pop("level"), "event": fields.pop("event", "")}
    if own is None:
        return first | dict(fields)
    return {**first, "event": getattr(record, events.EVENT), **fields, **own}


def _redact_event(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    fields["event"] = log_redaction.without_secrets(str(fields["event"]))
    return fields
