"""Blackening secrets in what others send back. Pure: no Django.

A receiver may echo what it was sent, and servers write it in their own way: as JSON, in addresses, in HTML, in base64.
Owns which ways are recognised. Invariant: of a secret in one of them no more than a few characters in a row are kept,
also where the text is cut.
"""

import base64
import html
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from jobs.signing import PREFIX

REDACTED = "[redacted]"
_FEWEST_OF_A_WORD = 6  # within a header's value
_FEWEST_OF_A_FORM = 8
_MOST_IN_A_ROW = 12  # a longer secret is recognised by any part of it of this length
# One character as it may be written: of JSON, of an address, of HTML; or itself.
_WRITTEN = re.compile(
    r"\\u(?P<json>[0-9a-f]{4})|%(?P<address>[0-9a-f]{2})|(?P<html>&(?:\#x?[0-9a-f]{1,6}|[a-z]{2,6});)|(?P<self>.)",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_SAYS_NOTHING = "\\\0"  # escapes of JSON, and the other halves of UTF-16
_LONGEST_WRITTEN = 10  # characters for one of a secret


class Redactor:
    def __init__(self, secrets: Collection[str]) -> None:
        self._parts = {part for secret in secrets for form in _forms(secret) for part in _parts(form)}
        self._lengths = sorted({len(part) for part in self._parts})

    def text(self, text: str, *, most: int | None = None) -> str:
        """Up to so many characters of a text, without the secrets in it."""
        most = len(text) if most is None else most
        if not self._parts:
            return text[:most]
        plain, places = _read(text[: most + _MOST_IN_A_ROW * _LONGEST_WRITTEN])
        kept, end = [], 0
        for start, stop in self._found(plain):
            if (begin := places[start]) >= most:
                break
            kept += [text[end:begin], REDACTED]
            end = places[stop]
        return "".join([*kept, text[end:most]])

    def value(self, value: Any) -> Any:
        """The same for whatever JSON can say."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(name)): self.value(one) for name, one in value.items()}
        return [self.value(one) for one in value] if isinstance(value, list) else value

    def _found(self, plain: str) -> Iterator[tuple[int, int]]:
        """Those that touch as one, in their order."""
        begin = end = 0
        for at in range(len(plain)):
            length = max((len(part) for n in self._lengths if (part := plain[at : at + n]) in self._parts), default=0)
            if not length:
                continue
            if at > end:
                if end:
                    yield begin, end
                begin = at
            end = max(end, at + length)
        if end:
            yield begin, end


def _parts(form: str) -> Iterator[str]:
    if form:
        yield form[:_MOST_IN_A_ROW]
    yield from (form[at : at + _MOST_IN_A_ROW] for at in range(1, len(form) - _MOST_IN_A_ROW + 1))


def _read(text: str) -> tuple[str, list[int]]:
    """What a text says whatever way it is written, and where each character of that begins; then the end."""
    said, places = [], []
    for match in _WRITTEN.finditer(text):
        character = _character(match)
        if character not in _SAYS_NOTHING:
            said.append(character)
            places.append(match.start())
    return "".join(said), [*places, len(text)]


def _character(match: re.Match[str]) -> str:
    if match["self"]:
        return _alike(match["self"])
    if match["html"]:
        meant = html.unescape(match["html"])
        return _alike(meant) if len(meant) == 1 else match["html"][0]
    return _alike(chr(int(match["json"] or match["address"], 16)))


def _alike(text: str) -> str:
    """Capitals are often changed, and a blank is a plus in addresses."""
    return text.lower().replace("+", " ") if text.isascii() else text


def _forms(secret: str) -> Iterator[str]:
    """As `_read` finds them."""
    yield _alike(secret)
    yield _read(secret)[0]
    raw = secret.encode()
    coded = [raw.hex()]
    for before in range(3):
        # Of whatever stands before and after it in the same encoding, nothing is in these characters.
        whole = base64.b64encode(bytes(before) + raw).decode()
        coded.append(whole[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6])
    for text in coded:
        if len(text) >= _FEWEST_OF_A_FORM:
            yield _alike(text)
            yield _alike(text.replace("+", "-").replace("/", "_"))


def parts_of_header(value: str) -> Iterator[str]:
    """What of a header's value is as secret as the whole: a token without its scheme, a password without its user."""
    yield value
    scheme, _, rest = value.partition(" ")
    yield from (word for word in rest.split() if len(word) >= _FEWEST_OF_A_WORD)
    if scheme.lower() == "basic":
        try:
            plain = base64.b64decode(rest, validate=True).decode()
        except ValueError:
            return
        yield plain
        yield plain.partition(":")[2]


def of_request(
    *, signing_keys: Iterable[str], headers: Iterable[str], completion_url: str, others: Iterable[str] = ()
) -> Redactor:
    """For what comes back to a request that was sent with these."""
    secrets = {key.removeprefix(PREFIX) for key in signing_keys}
    secrets |= {part for value in headers for part in parts_of_header(value)}
    return Redactor(secrets | {completion_url.rpartition("/")[2], *others})
