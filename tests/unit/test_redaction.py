"""Secrets that come back, in the ways in which servers write what they were sent."""

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callbacks.redaction import REDACTED, Redactor, of_request, parts_of_header

SECRET = 'sk/live+"<&>\\x9='
WAYS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON of PHP": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON of Go": lambda text: "".join(f"\\u{ord(c):04x}" if c in "<>&" else json.dumps(c)[1:-1] for c in text),
    "JSON of .NET": lambda text: "".join(c if c.isalnum() else f"\\u{ord(c):04X}" for c in text),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)).strip('\\"'),
    "HTML": html.escape,
    "HTML by numbers": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "HTML by hexadecimals": lambda text: "".join(f"&#x{ord(c):x};" for c in text),
    "an address": quote,
    "a whole address": lambda text: quote(text, safe=""),
    "a form": quote_plus,
    "in small letters": lambda text: quote(text, safe="").lower(),
    "in capitals": str.upper,
    "base64": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 of addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "hexadecimal": lambda text: text.encode().hex(),
    "UTF-16": lambda text: text.encode("utf-16-le").decode("latin-1").rstrip("\0"),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("secret", [SECRET, "abc def+ghi", "a" * 300])
def test_a_secret_is_found_however_it_is_written(way: Callable[[str], str], secret: str) -> None:
    said = Redactor({secret}).text(f"You sent: {way(secret)}!")
    assert said.startswith(f"You sent: {REDACTED}")
    assert len(said) <= len(f"You sent: {REDACTED}!") + 1  # the last digit of base64 may hold a few bits of it


@pytest.mark.parametrize("around", [(b"", b""), (b"x", b"yz"), (b"xx", b"y"), (b"xxx", b"")])
def test_a_secret_is_found_in_the_base64_of_more(around: tuple[bytes, bytes]) -> None:
    before, after = around
    whole = base64.b64encode(before + SECRET.encode() + after).decode()
    said = Redactor({SECRET}).text(whole)
    assert REDACTED in said
    assert len(said) <= len(REDACTED) + 8


def test_a_part_of_a_long_secret_is_found() -> None:
    secret = "0123456789abcdefghijklmnopqrstuvwxyz"
    assert Redactor({secret}).text(f"begins with {secret[:15]}…") == f"begins with {REDACTED}…"
    assert Redactor({secret}).text(f"holds {secret[9:30]}.") == f"holds {REDACTED}."
    assert Redactor({secret}).text("0123456 is too short") == "0123456 is too short"


@pytest.mark.parametrize("way", ["as it is", "JSON of .NET", "HTML by numbers"])
def test_of_a_secret_at_the_edge_nothing_is_left(way: str) -> None:
    written = WAYS[way](SECRET)
    for most in range(4, 20):
        assert Redactor({SECRET}).text(f"you {written}", most=most) in ("you ", f"you {REDACTED}")


def test_text_without_secrets_stays_as_it_is() -> None:
    text = "Zoë paid 5 € for \\u0041 %20 &amp; more\0"
    assert Redactor({"hunter2"}).text(text) == text
    assert Redactor(()).text(text, most=4) == text[:4]


@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_stands_around_it_is_kept(before: str, after: str) -> None:
    secret = "hunter2-7b1f9c"
    said = Redactor({secret}).text(f"{before}|{secret}|{after}")
    assert secret not in said
    if "hunter" not in (before + after).lower():
        assert said == f"{before}|{REDACTED}|{after}"


def test_values_are_gone_through_in_depth() -> None:
    value = {"a": ["hunter2", 1, None], "hunter2": {"b": "is hunter2"}}
    assert Redactor({"hunter2"}).value(value) == {"a": [REDACTED, 1, None], REDACTED: {"b": f"is {REDACTED}"}}


def test_a_token_is_as_secret_as_its_header() -> None:
    assert set(parts_of_header("Bearer 7b1f9c-token")) == {"Bearer 7b1f9c-token", "7b1f9c-token"}
    basic = "Basic " + base64.b64encode(b"anna:open sesame").decode()
    assert {"anna:open sesame", "open sesame"} <= set(parts_of_header(basic))


def test_what_a_request_carried_is_known_by_its_parts() -> None:
    url = "http://127.0.0.1:8000/api/v1/completions/1/1/signed-by-us-alone"
    redactor = of_request(signing_keys=["whsec_c2lnbmluZyBrZXk="], headers=["Bearer 7b1f9c-token"], completion_url=url)
    said = redactor.text(f"c2lnbmluZyBrZXk=, 7b1f9c-token, {url}")
    assert said == f"{REDACTED},{REDACTED}, {url.removesuffix('signed-by-us-alone')}{REDACTED}"
