"""What differs between two versions of a job. Pure: no Django."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    field: str  # with dots between a field and what is in it
    before: Any
    after: Any


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Field by field, in the order of their names. The payload is one field, whatever it holds."""
    return sorted(_differences(before, after), key=lambda each: each.field)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[Difference]:
    for name in {*before, *after}:
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping) and name != "kwargs":
            yield from _differences(old, new, f"{path}{name}.")
        elif old != new or type(old) is not type(new):
            yield Difference(f"{path}{name}", old, new)
