"""The error of an execution as it may leave the house: one line, without what looks like a secret. Pure: no Django.

Errors are written by handlers, and some of them say with what they tried to sign in. Nobody can know all ways to write
a secret; invariant: what follows a word that announces one, what stands before the @ of an address, and the query of a
URL are never told.
"""

import re

from executions.storable import stored_in_a_line

HIDDEN = "[hidden]"
_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[-_ ]?key|access[-_ ]?key|auth\w*|credentials?|signature|routing_key"
)
_RULES = (
    (re.compile(r"(\w://)[^\s'\"@]+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(\w://[^\s?'\"]+)\?[^\s'\"]+"), r"\1?…"),
    (re.compile(r"(//hooks\.slack\.com)/\S+", re.IGNORECASE), r"\1/…"),
    (re.compile(r"\b((?i:bearer|basic))\s+(?=\S*[\dA-Z=])[\w+/=.~-]{6,}"), rf"\1 {HIDDEN}"),
    (
        re.compile(rf"(\b\w*(?:{_WORDS})[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&)}}\]]+)", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"\b(?:whsec_|xox[a-z]-|sk_live_|gh[pousr]_|AKIA)[\w+/=-]{8,}"), HIDDEN),
)


def line_of(error: str) -> str:
    """Of an error as it was stored."""
    return masked(stored_in_a_line(error))


def masked(text: str) -> str:
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text
