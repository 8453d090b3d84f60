"""Files of `NAME=value` lines: `.env`, and the one that the private services write. The settings read them too."""

import os
from pathlib import Path

from launcher.refusal import Refusal


def parse(text: str, source: str) -> dict[str, str]:
    """Blank lines and `#` comments are passed over; `export ` before a name and quotes around a value are taken off."""
    values: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        if not equals or not name.strip().isidentifier():
            # The line itself may hold a secret, so the message names only its place.
            raise ValueError(f"{source}, line {number}: expected NAME=value.")
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        values[name.strip()] = value
    return values


def read(path: Path) -> dict[str, str]:
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"{path} cannot be read as UTF-8 text.") from None


def load_into_environment(path: Path) -> None:
    """Take what a file says for variables that the environment does not have."""
    if not path.is_file():
        return
    try:
        values = read(path)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    for name, value in values.items():
        os.environ.setdefault(name, value)
