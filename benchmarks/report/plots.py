"""Pictures as SVG: bars on one or several scales, and a line. Text in, text out.

A picture stands on a card of its own colour, light or dark as its reader's system asks for, so that it is readable on
any page. Each value is written beside its bar or point, and the whole is said in `desc` for those who do not see it.
Shown on a narrow page everything shrinks, so there the letters are drawn larger; the space for them is always left.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape

from benchmarks.report.wording import number

WIDTH = 720
_MARGIN = 28
_LEFT, _RIGHT = _MARGIN, WIDTH - _MARGIN
_ROW, _BAR, _BAR_TOP = 58, 14, 28  # a bar with its label above it
_PLOT_HEIGHT, _AXIS_WIDTH = 260, 76
_LETTERS = {
    "title": (20, 27),
    "sub": (15, 21),
    "head": (16, 23),
    "label": (16, 23),
    "value": (16, 23),
    "tick": (13, 20),
}

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif'
_LIGHT = {
    ".card": "fill: #ffffff; stroke: #d0d7de",
    "text": "fill: #1f2328; stroke: #ffffff",
    ".sub, .tick": "fill: #59636e",
    ".grid": "stroke: #d8dee4",
    ".ours": "fill: #0969da; stroke: #0969da",
    ".other": "fill: #8c959f; stroke: #8c959f",
    ".limit": "fill: #bc8f2a; stroke: #bc8f2a",
    ".mark": "stroke: #cf222e",
}
_DARK = {
    ".card": "fill: #0d1117; stroke: #3d444d",
    "text": "fill: #f0f6fc; stroke: #0d1117",
    ".sub, .tick": "fill: #9198a1",
    ".grid": "stroke: #2b3138",
    ".ours": "fill: #4493f8; stroke: #4493f8",
    ".other": "fill: #6e7681; stroke: #6e7681",
    ".limit": "fill: #9e7a24; stroke: #9e7a24",
    ".mark": "stroke: #f85149",
}


class Whose(StrEnum):
    OURS = "ours"
    OTHER = "other"
    LIMIT = "limit"  # what nobody can pass


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    whose: Whose = Whose.OURS


@dataclass(frozen=True)
class Mark:
    """A budget, as a line across."""

    value: float
    text: str


@dataclass(frozen=True)
class Panel:
    """Bars on one scale."""

    bars: Sequence[Bar]
    unit: str
    heading: str = ""
    is_log: bool = False
    mark: Mark | None = None


def bars(title: str, subtitle: str, panels: Sequence[Panel]) -> str:
    """One panel above the other."""
    drawn, top = [], 92.0
    for panel in panels:
        part, top = _panel(panel, top)
        drawn.append(part)
    said = "; ".join(f"{bar.label}: {number(bar.value)} {panel.unit}".strip() for panel in panels for bar in panel.bars)
    return _picture(title, subtitle, said, drawn, top + 4)


def line(title: str, subtitle: str, points: Sequence[tuple[str, float]], unit: str, mark: Mark | None = None) -> str:
    """Values with their names, from left to right, on a scale of powers of ten."""
    scale = _Scale.over([y for _, y in points] + ([mark.value] if mark else []), is_log=True)
    top, bottom, left = 116.0, 116.0 + _PLOT_HEIGHT, _LEFT + _AXIS_WIDTH
    apart = (_RIGHT - 24 - left) / max(len(points) - 1, 1)

    def up(value: float) -> float:
        return bottom - scale.share(value) * (bottom - top)

    drawn = []
    for tick in scale.ticks:
        drawn.append(_line("grid", left, up(tick), _RIGHT, up(tick)))
        drawn.append(_text("tick", left - 10, up(tick) + 5, number(tick), anchor="end"))
    if mark:
        drawn.append(_line("mark", left, up(mark.value), _RIGHT, up(mark.value)))
    places = [(left + place * apart, up(value)) for place, (_, value) in enumerate(points)]
    drawn.append(f'<polyline class="ours" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>')
    for (x, y), (name, value) in zip(places, points, strict=True):
        anchor = "start" if x == left else "end" if (x, y) == places[-1] else "middle"
        drawn.append(f'<circle class="ours" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        drawn.append(_text("value", x, y - 12, number(value), anchor=anchor))
        drawn.append(_text("tick", x, bottom + 28, name, anchor="middle"))
    end = bottom + 44
    if mark:
        drawn.append(_key_of_mark(mark, end + 8))
        end += 34
    said = "; ".join(f"{name}: {number(value)} {unit}".strip() for name, value in points)
    return _picture(title, subtitle, said, drawn, end + 8)


@dataclass(frozen=True)
class _Scale:
    least: float
    most: float
    ticks: Sequence[float]
    is_log: bool

    @classmethod
    def over(cls, values: Iterable[float], *, is_log: bool = False) -> "_Scale":
        """From 0, or by powers of ten from the one below the least."""
        known = [value for value in values if value > 0] or [1.0]
        if not is_log:
            step = _round_step(max(known) / 4)
            count = math.ceil(max(known) / step - 1e-9)
            return cls(0, step * count, [step * place for place in range(count + 1)], is_log)
        low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
        low -= min(known) < 2 * 10**low  # else the least would have hardly any length
        high = max(high, low + 1)
        return cls(10**low, 10**high, [10.0**power for power in range(low, high + 1)], is_log)

    def share(self, value: float) -> float:
        """From 0 to 1."""
        if not self.is_log:
            return value / self.most
        if value <= self.least:
            return 0
        return math.log10(value / self.least) / math.log10(self.most / self.least)


def _round_step(rough: float) -> float:
    power = 10 ** math.floor(math.log10(rough))
    return float(next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * (1 - 1e-9)))


def _panel(panel: Panel, top: float) -> tuple[str, float]:
    """What is drawn, and where it ends."""
    drawn = []
    if panel.heading:
        drawn.append(_text("head", _LEFT, top + 18, panel.heading))
        top += 38
    values = [bar.value for bar in panel.bars] + ([panel.mark.value] if panel.mark else [])
    scale = _Scale.over(values, is_log=panel.is_log)
    bottom = top + len(panel.bars) * _ROW - 6

    def across(value: float) -> float:
        return _LEFT + scale.share(value) * (_RIGHT - _LEFT)

    for tick in scale.ticks:
        drawn.append(_line("grid", across(tick), top, across(tick), bottom))
        anchor = "start" if tick == scale.ticks[0] else "end" if tick == scale.ticks[-1] else "middle"
        drawn.append(_text("tick", across(tick), bottom + 22, number(tick), anchor=anchor))
    for row, bar in zip(itertools.count(top, _ROW), panel.bars, strict=False):
        length = max(across(bar.value) - _LEFT, 2)
        drawn.append(_text("label", _LEFT, row + 20, bar.label))
        drawn.append(_text("value", _RIGHT, row + 20, number(bar.value), anchor="end"))
        drawn.append(_rect(bar.whose, _LEFT, row + _BAR_TOP, length, _BAR))
        if panel.mark:  # beside the bars alone: numbers stand between them
            place = across(panel.mark.value)
            drawn.append(_line("mark", place, row + _BAR_TOP - 5, place, row + _BAR_TOP + _BAR + 5))
    end = bottom + 36
    if panel.mark:
        drawn.append(_key_of_mark(panel.mark, end + 8))
        end += 30
    return "\n".join(drawn), end + 10


def _key_of_mark(mark: Mark, middle: float) -> str:
    return _line("mark", _LEFT, middle, _LEFT + 34, middle) + _text("sub", _LEFT + 44, middle + 6, mark.text)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3"/>'


def _text(kind: str, x: float, y: float, text: str, *, anchor: str = "start") -> str:
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(text)}</text>'


def _picture(title: str, subtitle: str, said: str, drawn: Sequence[str], height: float) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
            f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(said)}.</desc>',
            f"<style>\n{_style()}\n</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="10"/>',
            _text("title", _LEFT, 42, title),
            _text("sub", _LEFT, 70, subtitle),
            *drawn,
            "</svg>\n",
        ]
    )


def _style() -> str:
    usual, narrow = (
        [f".{kind} {{ font-size: {sizes[which]}px }}" for kind, sizes in _LETTERS.items()] for which in (0, 1)
    )
    fixed = [
        # With a rim in the colour of the card, so that a line behind it does no harm.
        f"text {{ font-family: {_FONT}; paint-order: stroke; stroke-width: 4px; stroke-linejoin: round }}",
        ".title, .head, .value { font-weight: 600 }",
        ".value { font-variant-numeric: tabular-nums }",
        "polyline.ours { fill: none; stroke-width: 2.5 }",
        ".mark { stroke-width: 3 }",
    ]
    light, dark = ([f"{name} {{ {look} }}" for name, look in looks.items()] for looks in (_LIGHT, _DARK))
    return "\n".join(
        [
            *fixed,
            *usual,
            *light,
            f"@media (max-width: 520px) {{ {' '.join(narrow)} }}",
            f"@media (prefers-color-scheme: dark) {{ {' '.join(dark)} }}",
        ]
    )
