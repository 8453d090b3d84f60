"""What no line of a log shows: payloads, and what looks like a secret.

Owns the names and patterns. It is the second line of defence: the first is not to say it. Pure: no Django.
"""

import re
from collections.abc import MutableMapping
from typing import Any

HIDDEN = "[redacted]"
_NAMES = re.compile(
    r"(?i)^(args|kwargs|payload|body|checkpoint|result|cookies?|headers|environ(ment)?|.*(password|passwd|secret|token"
    r"|api_?key|authorization|credential|private_?key|dsn).*)$"
)
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
        if _NAMES.match(name):
            fields[name] = HIDDEN
        elif not isinstance(value, int | float | bool):
            text = str(value)
            fields[name] = without_secrets(text) if text != value else without_secrets(value)
    return fields


def without_secrets(text: str) -> str:
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text
