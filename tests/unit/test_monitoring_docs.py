"""The page of alerts says what the rules say, and every rule says what a person needs who is called by it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from tests.unit.doc_pages import blocks, page, section, tables

RULES_FILE = Path(__file__).resolve().parents[2] / "deploy" / "monitoring" / "alerts.yml"
PAGE, HOW_TO = "reference/alerts.md", "how-to/monitor.md"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
WORDS = re.compile(r"\bOnbeat[A-Z]\w+")


def test_the_page_lists_the_rules_in_their_order_with_severity_and_delay() -> None:
    listed = {alert.split("]")[0].removeprefix("["): rest for alert, *rest in tables(page(PAGE))[1]}
    assert list(listed.items()) == [(name, [rule["labels"]["severity"], rule["for"]]) for name, rule in RULES.items()]


def test_each_alert_has_a_section_in_the_same_order_and_a_link_to_it() -> None:
    text = page(PAGE)
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == list(RULES)
    assert re.findall(r"\]\(#(\w+)\)", text) == [name.lower() for name in RULES]


@pytest.mark.parametrize("name", RULES)
def test_a_section_says_what_it_means_how_bad_it_is_and_what_to_do(name: str) -> None:
    said = re.findall(r"^\*\*([A-Z][a-z, ]+)\.\*\*", section(page(PAGE), name), flags=re.MULTILINE)
    assert ", ".join(said).lower() == "means, how bad, look at, do"


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_what_a_person_needs(name: str) -> None:
    rule = RULES[name]
    assert set(rule["annotations"]) == {"summary", "description", "remedy", "runbook"}
    assert rule["annotations"]["runbook"] == f"docs/{PAGE}#{name.lower()}"
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert all(text[0] in '{`"' or text[0].isupper() for text in rule["annotations"].values() if "#" not in text)


@pytest.mark.parametrize("name", RULES)
def test_a_remedy_names_a_command_that_there_is(name: str) -> None:
    commands = re.findall(r"`\./onbeat ([a-z_]+)", RULES[name]["annotations"]["remedy"])
    assert commands, "a remedy begins with something to run"
    assert set(commands) <= {*get_commands(), "probe"}


def test_the_severities_are_those_of_the_page() -> None:
    assert {rule["labels"]["severity"] for rule in RULES.values()} == {row[0] for row in tables(page(PAGE))[0]}


def test_no_alert_is_named_that_is_not_there() -> None:
    text = page(PAGE) + page(HOW_TO) + RULES_FILE.read_text(encoding="utf-8")
    assert set(WORDS.findall(text)) == set(RULES)


def test_what_alertmanager_is_told_to_keep_back_is_there_and_goes_to_a_receiver_that_there_is() -> None:
    (written,) = [block for block in blocks(page(HOW_TO), "yaml") if "inhibit_rules" in block]
    said = yaml.safe_load(written)
    receivers = {receiver["name"] for receiver in said["receivers"]}
    assert {said["route"]["receiver"], *(route["receiver"] for route in said["route"]["routes"])} == receivers
    severities = {match.split('"')[1] for route in said["route"]["routes"] for match in route["matchers"]}
    assert severities <= {rule["labels"]["severity"] for rule in RULES.values()}


def test_the_five_numbers_lead_to_their_alerts() -> None:
    (table,) = tables(section(page(HOW_TO), "Five numbers"))
    assert len(table) == 5
    for row in table:
        metric, (alert, place) = row[0].split(",")[0], re.findall(r"\[(\w+)\]\(\S+#(\w+)\)", row[2])[0]
        assert place == alert.lower()
        assert metric in RULES[alert]["expr"]
