"""What a PromQL expression asks for: series, their labels, and whether it goes about counters as counters need it.

It is compared with the registry of our metrics.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser

from executions import metrics as registry

# What each kind of metric may be put through: a counter's value alone depends on when its process began.
_OF_COUNTERS = {"rate", "increase", "irate", "resets"}
_PARTS_OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")
# Given by Prometheus to whatever it scrapes, and what it tells itself.
_GIVEN = {"job", "instance"}
_FROM_PROMETHEUS = {"up": _GIVEN, "ALERTS": {"alertname", "alertstate", "severity"}}


@dataclass(frozen=True)
class Metric:
    """`labels` has the values of each label, and none of those that are names or texts."""

    kind: str  # counter, gauge or histogram
    labels: dict[str, set[str]]


def ours() -> dict[str, Metric]:
    """As the code has them."""
    import scheduler_project.urls  # noqa: F401 - all that is shown is loaded

    found = {}
    for metric in (*registry.COUNTED, *registry.GAUGES.values()):
        is_counter = metric.name.endswith("_total")
        kind = "histogram" if isinstance(metric, registry.Spread) else "counter" if is_counter else "gauge"
        found[metric.name] = Metric(kind, {name: set(values) for name, values in metric.labels.items()})
    return found


def mistakes(expression: str, metrics: dict[str, Metric]) -> list[str]:
    """In the names, labels and values of the metrics, and in the use of counters."""
    return list(_walked(promql_parser.parse(expression), metrics, within=""))


def names(expression: str) -> set[str]:
    """The series that it asks for, as they are called in it."""
    found: set[str] = set()

    def look(node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            found.add(str(node.name))
        elif isinstance(node, promql_parser.MatrixSelector):
            found.add(str(node.vector_selector.name))
        return True

    promql_parser.walk(promql_parser.parse(expression), look)
    return found


def _walked(node: Any, metrics: dict[str, Metric], *, within: str) -> Iterator[str]:
    match node:
        case promql_parser.VectorSelector():
            yield from _of_series(node, metrics, within)
        case promql_parser.MatrixSelector():
            yield from _of_series(node.vector_selector, metrics, within)
        case promql_parser.Call():
            for argument in node.args:
                yield from _walked(argument, metrics, within=node.func.name)
        case promql_parser.AggregateExpr():
            yield from _walked(node.expr, metrics, within=within)
            if node.modifier:
                yield from _of_grouping(set(node.modifier.labels), node.expr, metrics)
        case promql_parser.BinaryExpr():
            yield from _walked(node.lhs, metrics, within=within)
            yield from _walked(node.rhs, metrics, within=within)
        case promql_parser.ParenExpr() | promql_parser.UnaryExpr() | promql_parser.SubqueryExpr():
            yield from _walked(node.expr, metrics, within=within)


def _metric(name: str, metrics: dict[str, Metric]) -> tuple[Metric | None, str]:
    """And which part of a histogram the name is of."""
    if name in metrics and metrics[name].kind != "histogram":
        return metrics[name], ""
    for part in _PARTS_OF_A_HISTOGRAM:
        base = metrics.get(name.removesuffix(part))
        if name.endswith(part) and base and base.kind == "histogram":
            return base, part
    return None, ""


def _labels(name: str, metrics: dict[str, Metric]) -> set[str]:
    metric, part = _metric(name, metrics)
    own = set(metric.labels) if metric else _FROM_PROMETHEUS.get(name, set())
    return own | _GIVEN | ({"le"} if part == "_bucket" else set())


def _of_series(selector: Any, metrics: dict[str, Metric], within: str) -> Iterator[str]:
    name = selector.name
    metric, part = _metric(name, metrics)
    if metric is None and name not in _FROM_PROMETHEUS:
        yield f"there is no {name}"
        return
    is_counter = metric is not None and (metric.kind == "counter" or bool(part))
    if is_counter and within not in _OF_COUNTERS:
        yield f"{name} is a counter, and only its rate means something"
    if not is_counter and within in _OF_COUNTERS:
        yield f"{name} is no counter, and {within} of it means nothing"
    for matcher in selector.matchers.matchers:
        if matcher.name not in _labels(name, metrics):
            yield f"{name} has no label {matcher.name}"
        elif metric and (known := metric.labels.get(matcher.name)):
            yield from (f"{name} has no {matcher.name}={value}" for value in _values(matcher.value) - known)


def _values(pattern: str) -> set[str]:
    """The values that a matcher names. `.+` names none."""
    return {value for value in pattern.split("|") if re.fullmatch(r"\w+", value)}


def _of_grouping(labels: set[str], node: Any, metrics: dict[str, Metric]) -> Iterator[str]:
    asked = names(str(node))
    known = set().union(*(_labels(name, metrics) for name in asked))
    yield from (f"none of {', '.join(sorted(asked))} has a label {label}" for label in sorted(labels - known))
