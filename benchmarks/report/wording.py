"""Numbers and tables as the page has them. Text out."""

import textwrap
from collections.abc import Iterable, Sequence

_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
UNKNOWN = "not measured"
_WIDTH = 120


def number(value: float) -> str:
    """With as many digits as matter: 12,345 and 12.3 and 0.123."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(share: float) -> str:
    return f"{number(share * 100)} %"


def figure(value: float | None, unit: str = "") -> str:
    if value is None:
        return UNKNOWN
    return f"{number(value)} {unit}".strip()


def size(value: float | None) -> str:
    """Powers of ten: a MB is a million bytes."""
    if value is None:
        return UNKNOWN
    for bytes_, unit in _SIZES:
        if value >= bytes_:
            return f"{number(value / bytes_)} {unit}"
    return f"{value:.0f} bytes"


def times(value: float) -> str:
    return f"{number(value)} times"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def listed(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def wrapped(text: str) -> str:
    """With lines as long as those of the other pages, but for tables and pictures."""
    return "\n".join(
        _wrapped(line) if len(line) > _WIDTH and line[0] not in "|!" else line for line in text.split("\n")
    )


def _wrapped(line: str) -> str:
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
