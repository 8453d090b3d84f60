"""The page of defaults says what the code does: each value is compared with the constant, field or setting it names."""

import re
import runpy
from dataclasses import MISSING, fields
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.db.models import NOT_PROVIDED, Field
from django.db.models.query_utils import DeferredAttribute

from executions.models import Execution
from executions.retry import RetryPolicy
from executions.states import Overlap
from jobs.models import Job, Schedule
from jobs.runs import Wanted
from jobs.specification import Specification
from scheduler_project.env import Environment
from tests.unit.doc_pages import page, section, tables

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"([\d,.]*\d)(?: (\w+))?")
SECONDS = {"s": 1, "min": 60, "h": 3600, "days": 24 * 3600}
BYTES = {"KB": 1024, "bytes": 1}
ROWS = [row for table in tables(page("reference/defaults.md")) for row in table]


@pytest.fixture
def settings_of_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The settings with nothing in the environment."""
    environment = Environment({"DATA_DIR": str(tmp_path)})
    monkeypatch.setattr(Environment, "of_process", lambda root: environment)
    return runpy.run_path(str(ROOT / "scheduler_project" / "settings.py"))


def in_code(source: str) -> Any:
    """The value behind a dotted name: of a constant, a dataclass's field or a model's field."""
    names = source.split(".")
    value: Any = import_module(".".join(names[:2]))
    for name in names[2:]:
        value = getattr(value, name)
        value = value.field if isinstance(value, DeferredAttribute) else value
    if isinstance(value, Field):
        assert value.default is not NOT_PROVIDED, f"{source} has no default"
        value = value.get_default()
    return value


def as_said(value: Any, source: str, said: str) -> Any:
    """What the page says, in the form and unit of the code's value."""
    if value is None or (value in ("", (), [], {}) and not isinstance(value, int)):
        return value if said == "none" else said
    if isinstance(value, str):
        return said
    if isinstance(value, bool):
        return {"yes": True, "no": False}[said]
    if isinstance(value, list):
        return said.split(",")
    if isinstance(value, tuple):
        return tuple(float(number) for number in said.removesuffix(" s").split(", "))
    match = NUMBER.fullmatch(said)
    assert match, f"{said!r} is no number"
    number, unit = float(match[1].replace(",", "")), match[2]
    if isinstance(value, timedelta):
        return timedelta(seconds=number * SECONDS[unit])
    if "SECONDS" in source:
        return number * SECONDS[unit]
    if "BYTES" in source:
        return number * BYTES[unit]
    assert unit in (None, "characters") or (unit == "days" and source.endswith("_DAYS")), f"{unit!r} is no unit here"
    return number


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2])
def test_the_page_says_what_the_code_does(row: list[str], settings_of_nothing: dict[str, Any]) -> None:
    _, said, source = row
    value = settings_of_nothing[source] if source.startswith("ONBEAT_") else in_code(source)
    assert as_said(value, source, said) == value


def test_no_source_is_named_twice() -> None:
    sources = [row[2] for row in ROWS]
    assert sorted(sources) == sorted(set(sources))


def test_every_setting_of_ours_has_a_row(settings_of_nothing: dict[str, Any]) -> None:
    ours = {name for name in settings_of_nothing if name.startswith("ONBEAT_")}
    assert ours - {row[2] for row in ROWS} == set()


def named_in(heading: str) -> set[str]:
    (table,) = tables(section(page("reference/defaults.md"), heading))
    return {re.split("[:;]", row[0])[0] for row in table}


def with_default(cls: type) -> set[str]:
    return {f.name for f in fields(cls) if f.default is not MISSING or f.default_factory is not MISSING}


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Jobs", with_default(Specification) - {"retry"}),
        ("Jobs", {f"retry.{name}" for name in with_default(RetryPolicy)}),
        ("Runs", with_default(Wanted)),
    ],
)
def test_every_field_that_may_be_left_out_has_a_row(heading: str, expected: set[str]) -> None:
    assert len(expected) >= 6
    assert expected - named_in(heading) == set()


def test_a_job_without_a_word_gets_the_defaults_of_the_page() -> None:
    said = Specification(key="a", task="b").normalised()
    columns = said.job_columns()
    stored = {name: value for name, value in columns.items() if name != "task"}
    assert {name: Job._meta.get_field(name).get_default() for name in stored} == stored
    assert said.retry == RetryPolicy(max_attempts=Job._meta.get_field("max_attempts").get_default())
    for name in ("misfire_grace_seconds", "misfire", "misfire_limit", "jitter_seconds"):
        assert getattr(said, name) == Schedule._meta.get_field(name).get_default()
    for name in ("queue", "priority", "max_attempts", "max_lost"):
        assert Execution._meta.get_field(name).get_default() == columns[name]


@pytest.mark.parametrize("policy", [policy for policy in Overlap if policy is not Overlap.ALLOW])
def test_a_policy_without_a_limit_gets_that_of_the_page(policy: Overlap) -> None:
    said = re.search(r"max_concurrency` is (\d+) if nothing else is said", page("reference/defaults.md"))
    assert said
    assert Specification(key="a", task="b", overlap=policy).normalised().max_concurrency == int(said[1])
