"""How a panel of the Grafana dashboard is written, as Grafana's JSON, and what it asks Prometheus.

Invariant: what web tells of the database is the same from each web process, so it is shown by max(); what beats and
workers count is summed after its rate is taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
BY_INSTANCE = '{instance=~"$instance"}'
GREEN, YELLOW, RED, GREY, BLUE = "green", "yellow", "red", "#8e8e8e", "blue"
# The same thing has the same colour wherever it is.
_COLOURS = {
    "{{outcome}}": {
        "SUCCEEDED": GREEN,
        "FAILED": RED,
        "TIMED_OUT": "orange",
        "WORKER_LOST": "purple",
        "CANCELLED": GREY,
    },
    "{{state}}": {
        "SUCCEEDED": GREEN,
        "DEAD": RED,
        "CANCELLED": GREY,
        "ticking": GREEN,
        "alive": GREEN,
        "silent": RED,
        "refusing": "orange",
        "due": BLUE,
        "overdue": RED,
    },
    "expected": {"expected": GREY},
}


@dataclass(frozen=True)
class Panel:
    """`lines`: what is asked, by how it is called. `{{label}}` in a name stands for a label."""

    title: str
    says: str  # what one sees there, and what is no cause for alarm
    lines: Mapping[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    steps: Sequence[tuple[float | None, str]] = ()  # from which value on it has which colour; None is from the start
    is_stacked: bool = False
    height: int = 8
    least: float | None = 0

    @property
    def is_stat(self) -> bool:
        return self.kind == "stat"

    def as_json(self, number: int, x: int, y: int, width: int) -> Json:
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.says,
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": self.height},
            "targets": [self._target(*line) for line in zip("ABCDEFGH", self.lines.items(), strict=False)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": self._overrides()},
            "options": _STAT if self.is_stat else _LINES,
        }

    def _target(self, letter: str, line: tuple[str, str]) -> Json:
        name, expression = line
        return {
            "refId": letter,
            "datasource": SOURCE,
            "expr": expression,
            "legendFormat": name,
            "instant": self.is_stat,
            "range": not self.is_stat,
        }

    def _defaults(self) -> Json:
        steps = [{"value": value, "color": colour} for value, colour in self.steps or ((None, GREEN),)]
        common = {"unit": self.unit, "thresholds": {"mode": "absolute", "steps": steps}, "noValue": "not known"}
        if self.is_stat:
            return {**common, "color": {"mode": "thresholds"}}
        custom = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 25 if self.is_stacked else 5,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if self.is_stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "dashed" if self.steps else "off"},
        }
        return {**common, "color": {"mode": "palette-classic"}, "min": self.least, "custom": custom}

    def _overrides(self) -> list[Json]:
        colours = [colour for line in self.lines for colour in _COLOURS.get(line, {}).items()]
        return [
            {
                "matcher": {"id": "byName", "options": name},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
            }
            for name, colour in colours
        ]


_STAT: Json = {
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    "colorMode": "background_solid",
    "graphMode": "none",
    "justifyMode": "center",
    "textMode": "value",
}
_LINES: Json = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
    "tooltip": {"mode": "multi", "sort": "desc"},
}


def rate(metric: str, by: str = "", labels: str = "") -> str:
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{labels}[$__rate_interval]))"


def quantile(share: float, histogram: str, by: str = "", window: str = "$__rate_interval") -> str:
    labels = BY_INSTANCE if by else ""
    groups = f"le, {by}" if by else "le"
    # Of nothing it is no number, and that is not 0 or more.
    return f"histogram_quantile({share}, sum by ({groups}) (rate({histogram}_bucket{labels}[{window}]))) >= 0"


def quantiles(histogram: str, name: str = "") -> dict[str, str]:
    said = f"{name} " if name else ""
    return {f"{said}p{share * 100:g}": quantile(share, histogram) for share in (0.5, 0.95, 0.99)}


def told(metric: str, by: str = "", labels: str = "") -> str:
    """By the web processes, which all tell the same."""
    return f"max{f' by ({by})' if by else ''} ({metric}{labels})"


def stat(title: str, expression: str, says: str, *steps: tuple[float | None, str], unit: str = "none") -> Panel:
    return Panel(title, says, {title: expression}, unit, "stat", steps, height=4)
