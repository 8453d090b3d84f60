"""Domain events, said in one place.

Owns how an event becomes a log line. Nobody else formats log text, and payloads, results and secrets are no fields of
an event.
"""

import logging

_logger = logging.getLogger("onbeat")


def emit(event: str, **fields: object) -> None:
    """Something happened as it should."""
    _write(logging.INFO, event, fields)


def warn(event: str, **fields: object) -> None:
    """Something happened that a person may want to look at."""
    _write(logging.WARNING, event, fields)


def _write(level: int, event: str, fields: dict[str, object]) -> None:
    """One line: the event in words, then its fields as name=value, in the order given."""
    details = " ".join(f"{name}={_shown(value)}" for name, value in fields.items() if value not in (None, ""))
    _logger.log(level, "%s%s", event, f"  {details}" if details else "")


def _shown(value: object) -> str:
    text = str(value)
    # One event is one line, whatever a value holds.
    return text if text.isprintable() and " " not in text else repr(text)
