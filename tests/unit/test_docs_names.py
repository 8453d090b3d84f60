"""What the documentation names exists: modules, functions of theirs, constraints and tables."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps

from executions import metrics

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
MODULE = re.compile(r"`((?:\w+/)+\w+\.py)`")
OURS = re.compile(r"`(onbeat_[a-z_]+)`")
FUNCTION = re.compile(r"`(lifecycle|definitions|runs|replay|partitions|run_keys)\.([a-z]\w*)(?:\(\))?`")
HOMES = {"definitions": "jobs", "runs": "jobs"}


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def names_of_ours() -> set[str]:
    found = {metric.name for metric in (*metrics.COUNTED, *metrics.GAUGES.values())}
    for config in apps.get_app_configs():
        found.add(config.label)
        for model in config.get_models():
            named = [*model._meta.constraints, *model._meta.indexes]
            found |= {model._meta.db_table, *(each.name for each in named)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_module_that_a_page_names_is_there(page: Path) -> None:
    assert [path for path in MODULE.findall(text(page)) if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_function_that_a_page_names_is_there(page: Path) -> None:
    missing = [
        (module, name)
        for module, name in FUNCTION.findall(text(page))
        if name != "py" and not hasattr(import_module(f"{HOMES.get(module, 'executions')}.{module}"), name)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_table_constraint_label_and_metric_that_a_page_names_is_there(page: Path) -> None:
    prefixes = {"onbeat_"}
    assert set(OURS.findall(text(page))) - names_of_ours() - prefixes == set()


def test_the_guarantees_name_the_constraints_that_hold_them() -> None:
    named = set(OURS.findall(text(ROOT / "docs" / "explanation" / "guarantees.md")))
    assert {"onbeat_execution_once_per_fire", "onbeat_attempt_once_per_number"} <= named
