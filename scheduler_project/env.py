"""Read settings from the environment, loudly.

Owns: how a variable's text becomes a value. Invariant: a wrong value stops the start with one sentence that names
the variable, what it holds and what it may hold; it never falls back to the default in silence.

Sources, first hit wins: the process environment, the file named by ONBEAT_ENV_FILE (written by `./onbeat services`),
`.env` in the project's root.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from executions import ports
from launcher import env_file

T = TypeVar("T")

_YES = {"1", "true", "yes", "on"}
_NO = {"0", "false", "no", "off"}


def read_env_file(path: Path) -> dict[str, str]:
    try:
        return env_file.read(path)
    except ValueError as problem:
        raise ImproperlyConfigured(str(problem)) from None


class Environment:
    """The variables of one start, and which of them the settings asked for."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables
        self.asked_for: set[str] = set()

    @classmethod
    def of_process(cls, root: Path) -> "Environment":
        variables: dict[str, str] = {}
        named = os.environ.get("ONBEAT_ENV_FILE")
        if named and not Path(named).is_file():
            raise ImproperlyConfigured(
                f"ONBEAT_ENV_FILE names {named}, which is not a file. Start the services with `./onbeat services`, "
                "or unset the variable."
            )
        for path in (root / ".env", Path(named) if named else None):
            if path is not None and path.is_file():
                variables.update(read_env_file(path))
        variables.update(os.environ)
        return cls(variables)

    def unknown(self, prefix: str) -> list[str]:
        """Variables with our prefix that no setting asked for: most likely misspelt."""
        return sorted(name for name in self._variables if name.startswith(prefix) and name not in self.asked_for)

    def text(self, name: str, default: str = "") -> str:
        self.asked_for.add(name)
        return self._variables.get(name, "").strip() or default

    def flag(self, name: str, default: bool) -> bool:
        return self._parsed(name, default, _flag, "yes or no")

    def one_of(self, name: str, default: str, words: Sequence[str]) -> str:
        def parse(text: str) -> str:
            if text not in words:
                raise ValueError
            return text

        return self._parsed(name, default, parse, " or ".join(words))

    def integer(self, name: str, default: int, *, at_least: int = 0, at_most: int | None = None) -> int:
        def parse(text: str) -> int:
            value = int(text)
            if value < at_least or (at_most is not None and value > at_most):
                raise ValueError
            return value

        limit = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        return self._parsed(name, default, parse, f"a whole number {limit}")

    def seconds(self, name: str, default: float, *, above: float = 0) -> float:
        def parse(text: str) -> float:
            value = float(text)
            if not above < value < float("inf"):
                raise ValueError
            return value

        return self._parsed(name, default, parse, f"a number of seconds above {above:g}")

    def words(
        self, name: str, default: Iterable[str], *, each: Callable[[str], object] = str, allowed: str = ""
    ) -> list[str]:
        """Separated by commas. `each` raises ValueError for a word that is not what is allowed."""

        def parse(text: str) -> list[str]:
            words = [word.strip() for word in text.split(",") if word.strip()]
            for word in words:
                each(word)
            return words

        return self._parsed(name, list(default), parse, allowed)

    def secrets(self, name: str, *, at_least: int) -> list[str]:
        """Words that no message shows."""
        words = self.words(name, [])
        if any(len(word) < at_least for word in words):
            raise ImproperlyConfigured(f"{name} must be texts of at least {at_least} characters, separated by commas.")
        return words

    def secret(self, name: str, *, at_least: int) -> str:
        text = self.text(name)
        if text and len(text) < at_least:
            raise ImproperlyConfigured(f"{name} must be a text of at least {at_least} characters.")
        return text

    def ports(self, name: str) -> str:
        def parse(text: str) -> str:
            ports.parsed(text)
            return text

        return self._parsed(name, "", parse, "host:port or host:first-last, such as 127.0.0.1:9101-9119")

    def file(self, name: str) -> str:
        text = self.text(name)
        if text and not os.access(text, os.R_OK):
            raise ImproperlyConfigured(f"{name} must be a file that can be read, not {text!r}.")
        return text

    def _parsed(self, name: str, default: T, parse: Callable[[str], T], allowed: str) -> T:
        text = self.text(name)
        if not text:
            return default
        try:
            return parse(text)
        except ValueError:
            raise ImproperlyConfigured(f"{name} must be {allowed}, not {text!r}.") from None


def _flag(text: str) -> bool:
    word = text.lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise ValueError


def address(name: str, url: str, schemes: Iterable[str]) -> SplitResult:
    """The parts of a service's URL. Errors name the variable, never the URL: it may hold a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # The parser's own words may quote the password.
        raise ImproperlyConfigured(f"{name} is no address; write special characters in it as %XX.") from None
    allowed = " or ".join(f"{scheme}://" for scheme in schemes)
    if parts.scheme not in schemes:
        raise ImproperlyConfigured(f"{name} must start with {allowed}, not {parts.scheme or 'no scheme'!r}.")
    try:
        is_port_good = parts.port != 0
    except ValueError:
        is_port_good = False
    if not is_port_good:
        raise ImproperlyConfigured(f"{name} has a port that is not a number from 1 to 65535.")
    return parts


def host_name(word: str) -> str:
    """As Django compares it with what a request asks for: `example.org`, `.example.org`, `10.0.0.1`, `[::1]` or `*`."""
    is_six = word.startswith("[") and word.endswith("]")
    if "/" in word or (":" in word and not is_six):
        raise ValueError
    return word


def is_this_machine(host: str) -> bool:
    return host in ("localhost", "[::1]") or host.startswith("127.") or host.endswith(".localhost")


_DATABASES = ("postgresql", "postgres", "sqlite")


def database(name: str, url: str) -> dict[str, Any]:
    """Django's connection settings for `postgresql://user:password@host:port/name?sslmode=…` or `sqlite:///path`.

    Several hosts, `host1:port1,host2:port2`, are tried in turn: a primary and those that may take its place.
    """
    login, at, hosts, rest = _around_hosts(url)
    addresses = [address(name, f"{login}{at}{host}{rest}", _DATABASES) for host in hosts]
    parts = addresses[0]
    path = unquote(parts.path)
    if parts.scheme == "sqlite":
        if parts.netloc or not path.startswith("/") or path == "/":
            raise ImproperlyConfigured(f"{name} must name a file: sqlite:///absolute/path/to/db.sqlite3.")
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path}
    if not all(each.hostname for each in addresses) or len(path) < 2:
        raise ImproperlyConfigured(
            f"{name} must name a host and a database: postgresql://user:password@host:5432/name."
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": path[1:],
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": ",".join(each.hostname or "" for each in addresses),
        "PORT": ",".join(str(each.port or 5432) for each in addresses),
        "OPTIONS": dict(parse_qsl(parts.query)),
    }


def _around_hosts(url: str) -> tuple[str, str, list[str], str]:
    """What stands before the hosts of an address, the hosts, and what stands after them."""
    scheme, slashes, rest = url.partition("://")
    end = min((place for sign in "/?#" if (place := rest.find(sign)) >= 0), default=len(rest))
    login, at, hosts = rest[:end].rpartition("@")
    return f"{scheme}{slashes}{login}", at, hosts.split(","), rest[end:]


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The folder {path} cannot be made ({error.strerror}); set DATA_DIR to a folder that you may write to."
        ) from None
