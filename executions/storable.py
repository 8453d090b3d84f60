"""What can be kept on a row: results, errors and payloads as every database and message takes them.

Invariant: whatever a handler returns or raises can be stored, so a strange value never turns a success into a loss.
"""

import json
import re
import traceback
from collections.abc import Collection, Iterable, Iterator
from typing import Any

ERROR_CHARACTERS = 20_000
_LINE_CHARACTERS = 300
_DEEPEST = 100
# The escape of a NUL, which PostgreSQL's JSON does not take; after an odd backslash it is only text that looks so.
_NUL_ESCAPE = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


def storable_result(value: object, *, limit_bytes: int) -> Any:
    """The value as JSON that every database takes, or a note on what was too large or not JSON."""
    try:
        encoded = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError):
        return {"not_json": _described(value)}
    encoded = _NUL_ESCAPE.sub(rb"\1\\u2400", encoded)
    if len(encoded) > limit_bytes:
        return {
            "too_large": f"{len(encoded)} bytes, the limit is {limit_bytes}",
            "start": encoded[:200].decode("utf-8", "ignore"),
        }
    if is_too_deep(value):
        return {"too_deep": f"nested more than {_DEEPEST} levels"}
    return json.loads(encoded)


def holds_nul(encoded: bytes) -> bool:
    """Whether JSON text holds the escape of a NUL."""
    return _NUL_ESCAPE.search(encoded) is not None


def is_too_deep(value: object) -> bool:
    """Whether a value that JSON can say is nested deeper than every later reader of it can bear."""
    return sum(1 for _ in levels(value)) > _DEEPEST


def levels(value: object) -> Iterator[list[object]]:
    """A value that JSON can say, level by level: itself, what it holds, what that holds …, a little past too deep."""
    level = [value]
    for _ in range(_DEEPEST + 1):
        yield level
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _described(value: object) -> str:
    try:
        return storable_text(repr(value), 1000)
    except Exception:
        # A repr is the handler's own code or hits a limit of Python's: the kind of the value has to do.
        return f"a value of type {type(value).__name__}"


class PlainError(Exception):
    """An error whose text says all that there is to say: it is kept without a traceback."""


def storable_error(error: BaseException, *, without: Collection[str] = ()) -> str:
    """The traceback, its end kept when it is too long: that is where the message stands.

    Without the files named: those around the handler tell nothing about the error in it.
    """
    if isinstance(error, PlainError):
        return storable_text(f"{type(error).__name__}: {error}", ERROR_CHARACTERS)
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list([frame for frame in told.stack if frame.filename not in without])
    text = "".join(told.format()).strip()
    return storable_text(text[-ERROR_CHARACTERS:], ERROR_CHARACTERS)


def in_a_line(error: BaseException) -> str:
    """The error's kind and message, for a log line; safe also when the error cannot say itself.

    Without the details that PostgreSQL adds: they hold the values of the row.
    """
    said = "".join(traceback.format_exception_only(error)).partition("\nDETAIL:")[0]
    return storable_text(" ".join(said.split()), 500)


def stored_in_a_line(error: str) -> str:
    """The same of an error as it was stored: of a traceback its end; of a plain text its beginning."""
    lines = [line for line in error.splitlines() if line.strip()]
    if not lines:
        return ""
    is_traceback = lines[0].startswith("Traceback ")
    said = next((line for line in reversed(lines) if not line.startswith(" ")), lines[-1]) if is_traceback else lines[0]
    return storable_text(" ".join(said.split()), _LINE_CHARACTERS)


def storable_text(text: str, limit: int) -> str:
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "␀")[:limit]
