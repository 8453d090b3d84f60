"""What an answer means, and what of it is kept. Pure: no Django."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from callbacks.redaction import REDACTED, Redactor
from callbacks.sending import Answer
from executions.storable import storable_text
from jobs.http_target import HttpTarget, tells_of_a_secret

BODY_CHARACTERS = 4096
HEADERS_KEPT = 50
HEADER_NAME_CHARACTERS = 100
HEADER_CHARACTERS = 500
_TRY_AGAIN = {408, 425, 429}


class Verdict(Enum):
    SUCCEEDED = auto()
    ACCEPTED = auto()  # its end will be told
    TRY_AGAIN = auto()
    GIVE_UP = auto()
    GONE = auto()  # the receiver wants no more of these


def verdict(status: int, target: HttpTarget) -> Verdict:
    if status == HTTPStatus.ACCEPTED and target.is_asynchronous:
        return Verdict.ACCEPTED
    if status in target.expected or (not target.expected and 200 <= status < 300):
        return Verdict.SUCCEEDED
    if status == HTTPStatus.GONE:
        return Verdict.GONE
    return Verdict.TRY_AGAIN if status in _TRY_AGAIN or status >= 500 else Verdict.GIVE_UP


def in_words(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def retry_after(headers: Iterable[tuple[str, str]], *, now: datetime, most: timedelta) -> timedelta:
    """How long the receiver asks to be left alone, up to a limit; what cannot be read asks for nothing."""
    value = next((value.strip() for name, value in headers if name == "retry-after"), "")
    if re.fullmatch(r"[0-9]{1,9}", value):
        return min(timedelta(seconds=int(value)), most)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return timedelta(0)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(timedelta(0), min(moment - now, most))


def kept_headers(headers: Iterable[tuple[str, str]], redactor: Redactor) -> dict[str, str]:
    """Of a header that stands there several times, all values; of one whose name tells of a secret, none."""
    kept: dict[str, str] = {}
    for full_name, value in headers:
        name = redactor.text(full_name, most=HEADER_NAME_CHARACTERS)
        if len(kept) == HEADERS_KEPT and name not in kept:
            break
        said = REDACTED if tells_of_a_secret(name) else redactor.text(value, most=HEADER_CHARACTERS)
        kept[name] = f"{kept[name]}, {said}"[:HEADER_CHARACTERS] if name in kept else said
    return kept


def kept(answer: Answer, *, asked: str, redactor: Redactor) -> dict[str, Any]:
    """What the attempt keeps of an answer."""
    body = answer.body.decode("utf-8", "replace")
    return {
        "request": asked,
        "status": answer.status,
        "seconds": round(answer.seconds, 3),
        "headers": kept_headers(answer.headers, redactor),
        "body": storable_text(redactor.text(body, most=BODY_CHARACTERS), BODY_CHARACTERS),
        "is_cut": answer.is_cut or len(body) > BODY_CHARACTERS,
    }
