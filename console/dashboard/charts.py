"""The geometry of the dashboard's charts. Pure: no Django.

Owns scales and heights in percent; the templates draw. Invariant: a bar of anything is at least a hair high, and the
top of the scale is a round number that nothing exceeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from executions.words import duration

# In the order in which they are stacked, from the ground up.
STACK = ("SUCCEEDED", "OPEN", "CANCELLED", "SKIPPED", "DEAD")
_OPEN = ("SCHEDULED", "QUEUED", "RUNNING")
_HAIR = 0.8  # percent
_PILE_TIMES = 3


@dataclass(frozen=True)
class Part:
    kind: str
    height: float  # percent of the chart


@dataclass(frozen=True)
class Column:
    at: datetime
    parts: Sequence[Part]
    tip: str
    total: int
    has_label: bool = False


@dataclass(frozen=True)
class Chart:
    columns: Sequence[Column]
    marks: Sequence[tuple[str, float]]  # what stands beside a line of the grid, and its height in percent
    total: int


def round_up(value: float) -> float:
    """The next of 1, 2, 3, 4, 6, 8, 10, 20, 30 and so on."""
    size = 1.0
    while size * 10 < value:
        size *= 10
    return next(size * step for step in (1, 2, 3, 4, 6, 8, 10) if size * step >= value)


def in_short(number: float) -> str:
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def _marks(top: float) -> list[tuple[str, float]]:
    return [(in_short(top * share), share * 100) for share in (0.5, 1.0) if top * share >= 1]


def stacked(hours: Sequence[tuple[datetime, Mapping[str, int]]]) -> Chart:
    """Executions by the hour and state."""
    totals = [sum(counts.values()) for _, counts in hours]
    top = round_up(max(totals, default=0))
    columns = [
        Column(at, _stack(counts, top), _told(counts), total, has_label=place % 3 == 0)
        for place, ((at, counts), total) in enumerate(zip(hours, totals, strict=True))
    ]
    return Chart(columns, _marks(top), sum(totals))


def _stack(counts: Mapping[str, int], top: float) -> list[Part]:
    merged = {kind: counts.get(kind, 0) for kind in STACK}
    merged["OPEN"] = sum(counts.get(state, 0) for state in _OPEN)
    return [Part(kind, max(number / top * 100, _HAIR)) for kind, number in merged.items() if number]


def _told(counts: Mapping[str, int]) -> str:
    return "\n".join(f"{number:,} {state.lower()}" for state, number in counts.items() if number) or "none"


def bars(slots: Sequence[tuple[datetime, int]]) -> Chart:
    """Fires to come; those that stand out are piles."""
    counts = [number for _, number in slots]
    top = round_up(max(counts, default=0))
    usual = sum(counts) / len(counts) if counts else 0.0
    columns = [
        Column(
            at,
            [Part("pile" if is_pile(number, usual) else "bar", max(number / top * 100, _HAIR))] if number else [],
            f"{number:,} fires",
            number,
            has_label=place % 18 == 0,
        )
        for place, (at, number) in enumerate(slots)
    ]
    return Chart(columns, _marks(top), sum(counts))


def is_pile(number: int, usual: float) -> bool:
    return number > _PILE_TIMES * usual and number >= 10


@dataclass(frozen=True)
class Lines:
    points: Mapping[str, str]  # by name, as SVG wants them, in a square of 100
    columns: Sequence[Column]
    marks: Sequence[tuple[str, float]]


def _spread(p50: float | None, p95: float | None) -> str:
    return "none" if p50 is None else f"half within {duration(p50)}\n95 % within {duration(p95)}"


def _points(values: Sequence[float | None], top: float) -> str:
    width = 100 / max(len(values), 1)
    drawn = [(place + 0.5, value) for place, value in enumerate(values) if value is not None]
    if len(drawn) == 1:  # a line of one point would be none: as wide as its hour
        drawn = [(drawn[0][0] + half, drawn[0][1]) for half in (-0.5, 0.5)]
    return " ".join(f"{place * width:.2f},{100 - value / top * 100:.2f}" for place, value in drawn)


def lateness(hours: Sequence[tuple[datetime, float | None, float | None]]) -> Lines:
    """The median and the 95th percentile, hour by hour; hours without any are gaps that the line goes over."""
    known = [value for _, *values in hours for value in values if value is not None]
    top = round_up(max([*known, 0.001]) * 1000) / 1000
    points = {"p50": _points([p50 for _, p50, _ in hours], top), "p95": _points([p95 for _, _, p95 in hours], top)}
    columns = [
        Column(at, (), _spread(p50, p95), 0, has_label=place % 3 == 0) for place, (at, p50, p95) in enumerate(hours)
    ]
    return Lines(points, columns, [(duration(top / 2), 50.0), (duration(top), 100.0)])
