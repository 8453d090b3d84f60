"""A URL that a callback may go to, taken apart. Pure: no Django.

Owns what a URL may look like. Invariant: everybody who reads an accepted URL (we, a resolver, a server) takes it for
the same scheme, host and port. So odd ways to write an address are refused instead of being understood.
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from jobs.addresses import Address, Network, is_allowed, literal, unwrapped

MOST_CHARACTERS = 2000
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[!#$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]+")
_BRACKETED = re.compile(r"\[[0-9A-Fa-f:.]+\](:[0-9]*)?")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_LOOKS_LIKE_A_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")  # a last label that resolvers take for an IPv4 number


class Unfit(ValueError):
    """Why a URL cannot be called, in a sentence with the remedy."""


@dataclass(frozen=True)
class Rules:
    """What the operator allows beyond the public internet."""

    networks: tuple[Network, ...] = ()
    ports: tuple[range, ...] = (range(80, 81), range(443, 444))

    def allow_port(self, port: int) -> bool:
        return any(port in each for each in self.ports)


@dataclass(frozen=True)
class WebAddress:
    scheme: str
    host: str  # a name, or an address without brackets
    port: int
    path: str  # with the query

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def address(self) -> Address | None:
        """The host, if it is an address."""
        return literal(self.host)

    @property
    def authority(self) -> str:
        """As the Host header says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Whom it is that answers; what is told about a host is told by this name."""
        return f"{self.scheme}://{self.authority}"


def parsed(url: str, rules: Rules) -> WebAddress:
    """The parts of a URL that may be called, as far as that can be told without asking anybody."""
    if len(url) > MOST_CHARACTERS:
        raise Unfit(f"The url must be up to {MOST_CHARACTERS} characters long.")
    if not _PLAIN.fullmatch(url):
        raise Unfit(
            "The url must be plain ASCII without spaces; write other characters percent-encoded, in a name as xn--…."
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Unfit("The url cannot be read; write it as https://host/path.") from None
    if parts.scheme not in _DEFAULT_PORTS or "://" not in url:
        raise Unfit("The url must begin with https:// or http://.")
    if "@" in parts.netloc:
        raise Unfit("The url must not hold a user or password; put them into a secret header.")
    if "#" in url:
        raise Unfit("The url must not have a fragment (#…): no server would see it.")
    found = WebAddress(
        parts.scheme,
        _host(parts.netloc, parts.hostname or ""),
        _port(parts.netloc, port, parts.scheme, rules),
        (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
    )
    _check_inside(found, rules)
    return found


def host(text: str) -> str:
    """A host by itself, as a URL may have it. Raises Unfit."""
    text = text.strip("[]")
    if not _PLAIN.fullmatch(text) or (":" in text and literal(text) is None):
        raise Unfit(f"The host {text[:80]!r} must be a name such as api.example.com, or an IP address.")
    return _host(f"[{text}]" if ":" in text else text, text)


def _host(netloc: str, host: str) -> str:
    if "[" in netloc or "]" in netloc:
        if not _BRACKETED.fullmatch(netloc) or literal(host) is None:
            raise Unfit("The host in brackets must be an IPv6 address without a zone.")
        return str(literal(host))
    labels = host.split(".")
    if literal(host) is None:
        if _LOOKS_LIKE_A_NUMBER.fullmatch(labels[-1]):
            raise Unfit(
                f"The host {host!r} must be a name, or an address of four decimal numbers without leading zeros."
            )
        if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
            raise Unfit(f"The host {host[:80]!r} must be a name such as api.example.com, or an IP address.")
    return host.lower()


def _port(netloc: str, port: int | None, scheme: str, rules: Rules) -> int:
    if netloc.endswith(":"):
        raise Unfit("The url must have a port after its colon, or no colon.")
    port = _DEFAULT_PORTS[scheme] if port is None else port
    if not rules.allow_port(port):
        raise Unfit(f"Port {port} may not be called; ONBEAT_CALLBACKS_PORTS allows others.")
    return port


def _check_inside(found: WebAddress, rules: Rules) -> None:
    address = found.address
    if address is not None and not is_allowed(address, rules.networks):
        raise Unfit(refusal(f"The address {unwrapped(address)}"))
    if address is None and (found.host == "localhost" or found.host.endswith(".localhost")):
        loopback = literal("127.0.0.1")
        assert loopback is not None
        if not is_allowed(loopback, rules.networks):
            raise Unfit(refusal(f"The address of {found.host}"))


def refusal(what: str) -> str:
    return f"{what} is not a public one; ONBEAT_CALLBACKS_NETWORKS allows networks of your own."


def port_range(text: str) -> range:
    """Of `80` or `8000-8999`. Raises ValueError for what is neither."""
    first, _, last = text.partition("-")
    found = range(int(first), int(last or first) + 1)
    if not 1 <= found.start < found.stop <= 65_536:
        raise ValueError(text)
    return found
