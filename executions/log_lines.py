"""How a record becomes a line: for people at a terminal, as JSON for machines.

Invariants: one record is one line, but for tracebacks on a terminal; every line that is written while an execution runs
or a request is served carries its names, whoever wrote it; nothing that looks like a secret is shown.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import structlog

from executions import events, log_redaction


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
            record.message = log_redaction.without_secrets(record.message)
            if names := events.around():
                record.message = f"{record.message}  {events.shown(names)}"
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return log_redaction.without_secrets(super().formatException(ei))


class JsonLines(logging.Formatter):
    """One object in each line: when, how bad, what, who said it, and the names and fields that belong to it."""

    def format(self, record: logging.LogRecord) -> str:
        own: dict[str, Any] | None = getattr(record, events.FIELDS, None)
        said: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, events.EVENT, None) or log_redaction.without_secrets(record.getMessage()),
            "logger": record.name,
            **(events.around() if own is None else own),
        }
        if record.exc_info:
            said["exception"] = log_redaction.without_secrets(self.formatException(record.exc_info))
        return str(_render(None, "", said))


_render = structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
