"""An HTTP request as a job's target, checked. Pure: no Django.

Owns the fields of such a target, their limits and their form as JSON. Invariant: a target that passes `check` can be
sent as it is; it holds names of secrets and never a secret.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from jobs.refusals import InvalidDefinition, shown
from jobs.web_address import Rules, Unfit, WebAddress, parsed

# The worker task that sends it, and the queue it goes to if none is named: slow hosts hold up no tasks.
HTTP_TASK = "onbeat.http"
HTTP_QUEUE = "http"
METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE", "HEAD")
WITHOUT_BODY = ("GET", "HEAD")
DEFAULT_METHOD = "POST"
DEFAULT_TIMEOUT_SECONDS = 30
MOST_TIMEOUT_SECONDS = 3600
MOST_HEADERS = 50
MOST_HEADER_CHARACTERS = 4000
SECRET = "secret"  # a header's value `{"secret": "name"}` stands for what is kept under that name
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")
_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# What the transfer itself says, what would change how the answer is read, and what we say ourselves.
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"}
    | {"accept-encoding", "idempotency-key", "http2-settings"}
)
_TELLING = re.compile(r"cookie|auth|token|secret|session|signature|password|credential|api-?key", re.IGNORECASE)
_OUR_BEGINNINGS = ("webhook-", "onbeat-", "proxy-")


@dataclass(frozen=True)
class HttpTarget:
    url: str
    method: str = DEFAULT_METHOD
    headers: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    body: Any = None  # in place of the payload
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    expected: Sequence[int] = ()  # any 2xx, if none is named
    secret: str = ""  # that it is signed with
    is_asynchronous: bool = False  # a 202 means that the end is told later

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> "HttpTarget":
        """From what a job keeps: what differs from the default. A newer release may keep more."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known}).normalised()

    def to_store(self) -> dict[str, Any]:
        standard = HttpTarget(url="")
        values = {each.name: getattr(self.normalised(), each.name) for each in fields(self)}
        values = {name: value for name, value in values.items() if value != getattr(standard, name)}
        return values | ({"expected": list(self.expected)} if self.expected else {})

    def normalised(self) -> "HttpTarget":
        return HttpTarget(
            self.url,
            self.method.upper(),
            {name: value if isinstance(value, str) else dict(value) for name, value in self.headers.items()},
            self.body,
            self.timeout_seconds,
            tuple(sorted(set(self.expected))),
            self.secret,
            self.is_asynchronous,
        )

    @property
    def shown(self) -> str:
        """For people: without the query, which may hold what is not for everybody."""
        address, mark, _ = self.url.partition("?")
        return f"{self.method} {address}{'?…' if mark else ''}"

    def secret_headers(self) -> Iterator[tuple[str, str]]:
        """Header and the name of the secret that it holds."""
        for name, value in self.headers.items():
            if not isinstance(value, str):
                yield name, value[SECRET]

    def secret_names(self) -> set[str]:
        return {*filter(None, [self.secret]), *(name for _, name in self.secret_headers())}

    def check(self, rules: Rules) -> None:
        _check_kinds(self)
        _address(self.url, rules)
        if self.method.upper() not in METHODS:
            raise _refused("method", f"The method must be one of {', '.join(METHODS)}, not {shown(self.method)}.")
        if self.body is not None and self.method.upper() in WITHOUT_BODY:
            raise _refused("body", f"A {self.method.upper()} has no body; leave it out or use POST.")
        if not 1 <= self.timeout_seconds <= MOST_TIMEOUT_SECONDS:
            raise _refused(
                "timeout_seconds",
                f"The timeout must be 1 to {MOST_TIMEOUT_SECONDS} s, not {shown(self.timeout_seconds)}.",
            )
        _check_headers(self)
        if self.secret and not is_secret_name(self.secret):
            raise _refused("secret", _not_a_name(self.secret))
        for status in self.expected:
            if type(status) is not int or not 200 <= status <= 599:
                raise _refused("expected", f"An expected status must be a number from 200 to 599, not {shown(status)}.")


def _refused(name: str, problem: str) -> InvalidDefinition:
    return InvalidDefinition(f"http.{name}", problem)


def _address(url: str, rules: Rules) -> WebAddress:
    try:
        return parsed(url, rules)
    except Unfit as unfit:
        raise _refused("url", str(unfit)) from None


_KINDS: dict[str, tuple[Any, str]] = {
    "url": (str, "text"),
    "method": (str, "text"),
    "headers": (Mapping, "a mapping"),
    "timeout_seconds": (int, "a whole number"),
    "expected": (list | tuple, "a list"),
    "secret": (str, "text"),
    "is_asynchronous": (bool, "True or False"),
}


def _check_kinds(target: HttpTarget) -> None:
    for name, (kind, words) in _KINDS.items():
        value = getattr(target, name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _refused(name, f"{name} must be {words}, not {shown(value)}.")
    try:
        json.dumps(target.body, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused("body", f"The body must be plain JSON or text: {error}.") from None


def _check_headers(target: HttpTarget) -> None:
    if len(target.headers) > MOST_HEADERS:
        raise _refused("headers", f"A request may have {MOST_HEADERS} headers, not {len(target.headers)}.")
    seen: set[str] = set()
    for name, value in target.headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise _refused("headers", f"The header {shown(name)} must be named by letters, digits and hyphens.")
        plain = name.lower().replace("_", "-")  # many servers take the one for the other
        if plain in _OURS or plain.startswith(_OUR_BEGINNINGS):
            raise _refused("headers", f"The header {name} is set by Onbeat or by the transfer itself; leave it out.")
        if plain in seen:
            raise _refused("headers", f"The header {name} stands there twice; say it once.")
        seen.add(plain)
        _check_value(name, value)


def _check_value(name: str, value: object) -> None:
    if isinstance(value, Mapping):
        if set(value) != {SECRET} or not is_secret_name(value[SECRET]):
            raise _refused(
                "headers", f'The secret value of {name} must be {{"secret": "name"}}, by the name of a stored secret.'
            )
        return
    if not isinstance(value, str) or not is_header_value(value):
        raise _refused(
            "headers",
            f"The value of {name} must be a line of up to {MOST_HEADER_CHARACTERS} printable ASCII characters.",
        )


def tells_of_a_secret(header: str) -> bool:
    return _TELLING.search(header) is not None


def is_header_value(value: str) -> bool:
    return len(value) <= MOST_HEADER_CHARACTERS and _VALUE.fullmatch(value) is not None


def is_secret_name(name: object) -> bool:
    return isinstance(name, str) and _SECRET_NAME.fullmatch(name) is not None


def _not_a_name(name: str) -> str:
    return f"The secret {shown(name)} must be the name of a stored one: letters, digits and . _ - only."
