"""What no line of a log shows: payloads, and what looks like a secret.

Owns the names and patterns. It is the second line of defence: the first is not to say it. Pure: no Django.
"""

import re
from collections.abc import MutableMapping
from functools import lru_cache
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
    (re.compile(r"(?<=://)[^/@\s'\"]+@"), f"{HIDDEN}@"),  # the login in an address
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"\b(whsec_|onbeat_[a-z0-9]{4,}_)[\w+/=-]{8,}"), rf"\1{HIDDEN}"),
    (
        re.compile(
            r"""(?ix)(?P<name>["']?\b[\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization)["']?\s*[=:]\s*)
            (?P<value>"[^"]*"|'[^']*'|[^\s,;&)\]}'"]+)"""
        ),
        rf"\g<name>{HIDDEN}",
    ),
)


def redact(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """As a step of structlog. Numbers and ids stay what they are."""
    for name, value in fields.items():
        if name == "event" or name.startswith("_"):
            continue
        if _is_hidden(name):
            fields[name] = HIDDEN
        elif not isinstance(value, int | float | UUID):
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
