"""Every metric that rules name is one that the platform tells, with the labels and values that it has."""

import re
from pathlib import Path

import pytest
import yaml

from tests.unit.promql import mistakes, ours

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy" / "monitoring"

METRICS = ours()
RULES = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
NAME = re.compile(r"\bonbeat_\w+")


def test_the_kinds_of_metrics_are_told_apart() -> None:
    kinds = ("onbeat_retries_total", "onbeat_leases_total", "onbeat_tick_seconds", "onbeat_beats", "onbeat_beat_shards")
    assert [METRICS[name].kind for name in kinds] == ["counter", "counter", "histogram", "gauge", "gauge"]
    assert METRICS["onbeat_beats"].labels == {"state": {"ticking", "silent", "refusing"}}
    assert METRICS["onbeat_queue_waiting"].labels == {"queue": set()}


@pytest.mark.parametrize("alert", RULES)
def test_a_rule_asks_for_what_there_is(alert: str) -> None:
    assert mistakes(RULES[alert], METRICS) == []


@pytest.mark.parametrize(
    ("expression", "mistake"),
    [
        ("onbeat_nothing > 0", "there is no onbeat_nothing"),
        ("onbeat_lateness_seconds > 0", "there is no onbeat_lateness_seconds"),
        ("onbeat_retries_total > 0", "onbeat_retries_total is a counter, and only its rate means something"),
        ("sum(onbeat_tick_seconds_count)", "onbeat_tick_seconds_count is a counter, and only its rate means something"),
        ("rate(onbeat_overdue_seconds[5m])", "onbeat_overdue_seconds is no counter, and rate of it means nothing"),
        ('max(onbeat_beats{kind="ticking"})', "onbeat_beats has no label kind"),
        ('onbeat_beats{state=~"silent|dead"}', "onbeat_beats has no state=dead"),
        ("sum by (queue) (onbeat_beats)", "none of onbeat_beats has a label queue"),
        ("sum by (le) (rate(onbeat_tick_seconds_sum[1m]))", "none of onbeat_tick_seconds_sum has a label le"),
        ("-(max_over_time(onbeat_nothing[5m:1m] offset 1m))", "there is no onbeat_nothing"),
    ],
)
def test_a_mistake_in_an_expression_is_found(expression: str, mistake: str) -> None:
    assert mistakes(expression, METRICS) == [mistake]


def test_an_expression_without_a_mistake_is_none() -> None:
    late = 'histogram_quantile(0.9, sum by (le, instance) (rate(onbeat_tick_seconds_bucket{job="x"}[5m])))'
    assert mistakes(f"{late} > 1 unless on() absent(up{{job=~'onbeat-.+'}} == 1)", METRICS) == []


def test_the_metrics_that_comments_and_pages_name_are_there() -> None:
    parts = ("_bucket", "_sum", "_count")
    known = METRICS.keys() | {f"{name}{part}" for name in METRICS for part in parts}
    docs = [ROOT / "docs" / path for path in ("reference/alerts.md", "how-to/monitor.md")]
    for page in [*MONITORING.glob("*.yml"), *docs]:
        named = set(NAME.findall(page.read_text(encoding="utf-8")))
        assert named - known == set(), page
