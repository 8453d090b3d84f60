"""What no line of a log shows: payloads, and what looks like a secret.

Owns the names and patterns. It is the second line of defence: the first is not to say it. Pure: no Django.
"""

import re
from collections.abc import MutableMapping
from functools import lru_cache
from math import isfinite
from typing import Any
from uuid import UUID

HIDDEN = "[redacted]"
_NAMES = re.compile(
    r"(?i)^(args|kwargs|payload|body|checkpoint|result|cookies?|headers|environ(ment)?|.*(password|passwd|secret|token"
    r"|api_?key|authorization|credential|private_?key|dsn).*)$"
)
# Without any of these nothing of what follows matches: nearly all lines are done with here.
_SUSPICIOUS = re.compile(r"(?i)://|bearer|basic|whsec_|onbeat_|passw|secret|token|api.?key|authorization")
_PATTERNS = (
    # The login in an address. A password may hold an @ or a / that nobody escaped; a port before a path is none.
    (re.compile(r"(?<=://)(?:[^\s/'\"]+@|[^\s/@:'\"]{0,99}:(?!\d+/)[^\s'\"]{0,255}@)"), f"{HIDDEN}@"),
    # What somebody is let in by has capitals, digits or padding; the words of a sentence about it have not.
    (re.compile(r"\b((?i:bearer|basic))\s+(?=[\w.~+/=-]+[A-Z0-9=])[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"\b(whsec_)[\w+/=-]{8,}"), rf"\1{HIDDEN}"),
    # An API key of ours, even if its end was cut off; names of tables and metrics begin alike.
    (re.compile(r"\b(onbeat_[a-z0-9]{12}_)[a-zA-Z0-9]{16,}"), rf"\1{HIDDEN}"),
    (
        re.compile(
            r"""(?ix)(?P<name>authorization["']?\s*[=:]\s*)(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\r\n,'"]+)"""
        ),
        rf"\g<name>{HIDDEN}",
    ),
    (
        re.compile(
            r"""(?ix)(?P<name>(?:password|passwd|secret|token|api[_-]?key)["']?\s*[=:]\s*)
            (?P<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;&)\]}'"]+)"""
        ),
        rf"\g<name>{HIDDEN}",
    ),
)


def redact(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """As a step of structlog. Numbers that JSON can say stay what they are."""
    for name, value in fields.items():
        if name == "event" or name.startswith("_"):
            continue
        if _is_hidden(name):
            fields[name] = HIDDEN
        elif not isinstance(value, int | UUID) and not (isinstance(value, float) and isfinite(value)):
            fields[name] = without_secrets(str(value))
    return fields


@lru_cache(maxsize=1000)
def _is_hidden(name: str) -> bool:
    return _NAMES.match(name) is not None


def without_secrets(text: str) -> str:
    if not _SUSPICIOUS.search(text):
        return text
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text
