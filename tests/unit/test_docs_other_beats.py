"""The page for those who come from another beat: each of its claims names tests, and these exist."""

import ast
import re
from functools import cache

import pytest

from tests.unit.doc_pages import DOCS, page, tables

ROOT = DOCS.parent
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
OTHER_BEATS = "explanation/other-beats.md"
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
ISSUES = re.compile(r"(?:celery|dcb|redbeat) \d+(?:, \d+)*")


@cache
def names_of_tests(path: str) -> set[str]:
    if not (ROOT / path).is_file():
        return set()
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", PAGES)
def test_every_test_that_a_page_names_is_there(name: str) -> None:
    named = TEST.findall(page(name))
    assert [f"{path}::{test}" for path, test in named if test not in names_of_tests(path)] == []


def test_every_claim_about_beats_names_a_test() -> None:
    claims = [row for table in tables(page(OTHER_BEATS)) for row in table]
    assert len(claims) > 30
    assert [row[0] for row in claims if not TEST.search(row[-1])] == []


def test_issues_are_told_by_project_and_number() -> None:
    told = [row[1] for table in tables(page(OTHER_BEATS)) for row in table if len(row) == 4]
    wrong = [cell for cell in told if cell != "–" and not all(map(ISSUES.fullmatch, cell.split("; ")))]
    assert wrong == []


def test_the_page_promises_no_execution_that_happens_exactly_once() -> None:
    assert "exactly" not in page(OTHER_BEATS)
    assert "at-least-once" in page(OTHER_BEATS)
