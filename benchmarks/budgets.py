"""Figures beside what they may be at most, or have to be at least."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """Without a budget it is told, and nothing is asked of it."""

    name: str
    what: str
    figure: float
    unit: str
    budget: float | None = None
    is_minimum: bool = False

    @property
    def is_met(self) -> bool | None:
        if self.budget is None:
            return None
        return self.figure >= self.budget if self.is_minimum else self.figure <= self.budget

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.what,
            "figure": self.figure,
            "unit": self.unit,
            "budget": self.budget,
            "is_minimum": self.is_minimum,
            "is_met": self.is_met,
        }


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest of the values that at least so many percent of them do not pass."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """For people: what, the figure, the budget, and whether it is met."""
    rows = [["", "figure", "budget", ""]]
    for line in lines:
        sign = "≥" if line["is_minimum"] else "≤"
        budget = "" if line["budget"] is None else f"{sign} {line['budget']:g} {line['unit']}"
        met = {None: "", True: "met", False: "MISSED"}[line["is_met"]]
        rows.append([line["what"], f"{line['figure']:g} {line['unit']}", budget, met])
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    pattern = "{:<{}}  {:>{}}  {:>{}}  {:<{}}"
    return "\n".join(
        pattern.format(*(part for pair in zip(row, widths, strict=True) for part in pair)).rstrip() for row in rows
    )
