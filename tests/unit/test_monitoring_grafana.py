"""The dashboard asks for what there is, tells what it shows, and is the one that its source makes."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.monitoring.grafana import dashboard
from tests.unit.promql import mistakes, names, ours

METRICS = ours()
GRAFANA = Path(__file__).resolve().parents[2] / "deploy" / "monitoring" / "grafana"
BOARD: dict[str, Any] = json.loads(dashboard.FILE.read_text(encoding="utf-8"))
PANELS: dict[str, dict[str, Any]] = {
    panel["title"]: panel for panel in BOARD["panels"] if panel["type"] != "row" and "title" in panel
}
ROWS = [panel for panel in BOARD["panels"] if panel["type"] == "row"]
# What Grafana puts in place of its variables.
FILLED_IN = {"$__rate_interval": "1m", "$instance": ".+"}


def expressions(panel: dict[str, Any]) -> list[str]:
    found = []
    for target in panel["targets"]:
        expression = target["expr"]
        for variable, value in FILLED_IN.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression
        found.append(expression)
    return found


def test_the_dashboard_is_the_one_that_its_source_makes() -> None:
    made = dashboard.as_text()
    assert dashboard.FILE.read_text(encoding="utf-8") == made, "run: python -m deploy.monitoring.grafana.dashboard"


@pytest.mark.parametrize("title", PANELS)
def test_a_panel_asks_for_what_there_is(title: str) -> None:
    assert [mistake for expression in expressions(PANELS[title]) for mistake in mistakes(expression, METRICS)] == []


@pytest.mark.parametrize("title", PANELS)
def test_a_panel_says_what_it_shows_and_in_which_unit(title: str) -> None:
    panel = PANELS[title]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in {"s", "ops", "percentunit", "none", "short"}
    assert panel["datasource"]["uid"] == "${datasource}"
    letters = [target["refId"] for target in panel["targets"]]
    assert letters == sorted(set(letters)) != []


@pytest.mark.parametrize("title", PANELS)
def test_seconds_are_shown_as_seconds(title: str) -> None:
    panel = PANELS[title]
    asked = [name for expression in expressions(panel) for name in names(expression)]
    is_of_seconds = all("_seconds" in name for name in asked)
    assert (panel["fieldConfig"]["defaults"]["unit"] == "s") == is_of_seconds


def test_what_is_counted_is_shown_per_second() -> None:
    for panel in PANELS.values():
        is_rate = all("rate(" in expression for expression in expressions(panel))
        is_of_rates = any(word in expression for word in ("quantile", " / ") for expression in expressions(panel))
        is_per_second = panel["fieldConfig"]["defaults"]["unit"] == "ops"
        assert is_per_second == (is_rate and not is_of_rates), panel["title"]


def test_every_metric_is_shown() -> None:
    asked = {name for panel in PANELS.values() for expression in expressions(panel) for name in names(expression)}
    shown = asked | {name.removesuffix("_bucket") for name in asked}
    assert METRICS.keys() - shown == set()


def test_the_first_row_has_a_colour_for_good_and_one_for_bad() -> None:
    first, second = (row["gridPos"]["y"] for row in ROWS[:2])
    top = [panel for panel in PANELS.values() if first < panel["gridPos"]["y"] < second]
    assert len(top) == 8
    for panel in top:
        assert panel["type"] == "stat"
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert {step["color"] for step in steps} & {"red", "yellow"}
        assert "green" in {step["color"] for step in steps}
        assert steps[0]["value"] is None


def test_no_panel_lies_on_another_or_beyond_the_edge() -> None:
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_below


def test_names_and_ids_are_given_once() -> None:
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert len(PANELS) + len(ROWS) == len(BOARD["panels"])


def test_the_variables_are_those_that_panels_use() -> None:
    assert [variable["name"] for variable in BOARD["templating"]["list"]] == ["datasource", "instance"]
    (instance,) = [variable for variable in BOARD["templating"]["list"] if variable["name"] == "instance"]
    assert names(instance["definition"].removeprefix("label_values(").split(",")[0]) <= METRICS.keys()
    assert instance["allValue"] == FILLED_IN["$instance"]


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    prometheus = yaml.safe_load((GRAFANA.parent / "prometheus.yml").read_text())
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/onbeat.yml").read_text())["providers"]
    assert Path(provider["options"]["path"]).name == dashboard.FILE.parent.name
