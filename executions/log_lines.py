"""How a record becomes a line: for people at a terminal, as JSON for machines.

Invariants: one record is one line, but for tracebacks on a terminal; every line that is written while an execution runs
or a request is served carries its names, whoever wrote it; nothing that looks like a secret is shown.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any

import structlog

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


class JsonLines(logging.Formatter):
    """One object in each line: when, how bad, what, who said it, and the names and fields that belong to it."""

    def format(self, record: logging.LogRecord) -> str:
        own = getattr(record, events.FIELDS, None)
        said: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, events.EVENT, ""),
            "logger": record.name,
            **(_of_others(record) if own is None else own),
        }
        if record.exc_info:
            said["exception"] = log_redaction.without_secrets(self.formatException(record.exc_info))
        return str(_render(None, "", said))


# Plain ASCII: half a character cannot be written, and some readers end a line at others.
_render = structlog.processors.JSONRenderer(default=str)


def _of_others(record: logging.LogRecord) -> dict[str, Any]:
    """What somebody says who is not of ours, perhaps in fields: a handler may use structlog itself."""
    said: Any = record.msg if isinstance(record.msg, dict) and "event" in record.msg else {"event": record.getMessage()}
    fields = {str(name): value for name, value in said.items() if not str(name).startswith("_")}
    if hasattr(record, "status_code"):
        fields["status_code"] = record.status_code
    return {
        **events.names(),
        **log_redaction.redact(None, "", fields),
        "event": log_redaction.without_secrets(str(fields.get("event", ""))),
    }


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
