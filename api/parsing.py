"""Read a body: JSON within limits.

Owns what counts as a readable body. Invariant: whatever arrives becomes plain values that every database and message
takes, or a 400 with a sentence; text holds no NUL and no half of a surrogate pair, and no number is infinite.
"""

import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import IO, Any, NoReturn

from rest_framework.negotiation import BaseContentNegotiation, DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from api.problems import Problem

DEEPEST = 120  # levels; a payload has a limit of its own below this


class StrictJson(BaseParser):
    media_type = "application/json"

    def parse(
        self, _stream: IO[Any], _media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        assert parser_context is not None
        # The body itself and not the stream: its size is limited, and others want to look at it too.
        return parsed(parser_context["request"]._request.body)


def parsed(raw: bytes) -> Any:
    try:
        value = json.loads(
            raw.decode("utf-8-sig"), parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_each_name_once
        )
    except UnicodeDecodeError:
        _refuse("The body is not UTF-8.")
    except RecursionError:
        _refuse("The body is nested too deep; keep it flatter.")
    except json.JSONDecodeError as error:
        _refuse(f"The body is not JSON: {error}.")
    except ValueError as error:
        # Ours below; else a whole number with so many digits that Python does not read it.
        why = error if isinstance(error, _Unclear) else "a whole number has too many digits"
        _refuse(f"The body is not JSON that can be read: {why}.")
    _check_depth(raw, value)
    if b"\\u" in raw:
        _check_texts(value)
    return value


def _refuse(detail: str) -> NoReturn:
    raise Problem(HTTPStatus.BAD_REQUEST, detail)


class _Unclear(ValueError):
    """Python reads it, and others do not, or otherwise."""


def _no_number(name: str) -> NoReturn:
    raise _Unclear(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _Unclear(f"the number {text[:40]} is too large")
    return number


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _Unclear(f"the name {name[:40]!r} stands twice in one object")
    return read


def _check_depth(raw: bytes, value: Any) -> None:
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            _refuse("The body is nested too deep; keep it flatter.")
        level = [child for part in level for child in _children(part) if isinstance(child, dict | list)]


def _check_texts(value: Any) -> None:
    """Only escapes can bring these in; a body without any is not looked through."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if "\x00" in part:
                _refuse("The body holds a NUL character (\\u0000); leave it out.")
            try:
                part.encode()
            except UnicodeEncodeError:
                _refuse("The body holds half of a surrogate pair (such as \\ud800), which is no text.")
        elif isinstance(part, dict):
            waiting += part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _children(part: Any) -> Any:
    return part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()


class AlwaysJson(BaseContentNegotiation):
    """Whatever a client says it accepts: a problem in JSON is of more use to it than an empty 406."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return DefaultContentNegotiation().select_parser(request, parsers)

    def select_renderer(
        self, _request: Request, renderers: Any, _format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type
