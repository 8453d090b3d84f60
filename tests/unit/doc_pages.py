"""Pages of the documentation, cut into what can be compared with the code."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
Table = list[list[str]]


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading of the second level, up to the next one."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert heading in found, f"there is no heading {heading!r}; there are {list(found)}"
    return found[heading]


def tables(text: str) -> list[Table]:
    """The rows of each table, without its head, ruler and backticks."""
    found: list[Table] = []
    is_inside = False
    for line in text.splitlines():
        if line.startswith("|"):
            if not is_inside:
                found.append([])
            cells = [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
            found[-1].append(cells)
        is_inside = line.startswith("|")
    return [table[2:] for table in found]


def blocks(text: str, language: str = "") -> list[str]:
    """What stands between fences of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
