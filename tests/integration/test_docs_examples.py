"""The examples of the documentation are run as they stand; what a line says after "# →" is what comes out.

So are the commands that act on jobs and API keys; what stands below one is what it prints, and "…" stands for anything.
`$name` in a command is what the examples before it call so.
"""

import re
import shlex
from collections.abc import Iterator
from datetime import datetime
from io import StringIO
from pathlib import Path
from string import Template
from typing import Any

import pytest
from celery import current_app
from django.core.management import call_command

from jobs import targets
from jobs.recurrence import Cron
from tests.making import a_job
from tests.unit.doc_pages import DOCS

# With real processes and curl: tests/acceptance follows these.
BY_CURL = {
    *(DOCS / "how-to" / "use-the-api.md", DOCS / "how-to" / "call-a-webhook.md"),
    DOCS / "how-to" / "move-from-celery-beat.md",
}
BY_BROWSER = {DOCS / "how-to" / "run-the-admin.md"}
# Tests of their own follow these: test_docs_why.py makes a past, test_docs_as_code.py and test_docs_notified.py files.
BY_SCENE = {
    *(DOCS / "how-to" / "find-out-why-it-did-not-run.md", DOCS / "how-to" / "keep-jobs-as-code.md"),
    DOCS / "how-to" / "get-notified.md",
}
BY_DOCTOR = {DOCS / "how-to" / "examine-an-installation.md"}  # tests/unit/test_docs_findings.py reads it
# Of those for operators no block is Python; tests/acceptance/test_backup_and_restore_how_to.py follows the first.
_OF_OPERATORS = ("back-up-and-restore", "deploy", "monitor", "scale", "secure", "upgrade")
BY_OPERATOR = {DOCS / "how-to" / f"{name}.md" for name in _OF_OPERATORS}
PAGES = [
    *sorted({*DOCS.glob("how-to/*.md")} - BY_CURL - BY_BROWSER - BY_SCENE - BY_DOCTOR - BY_OPERATOR),
    DOCS / "explanation" / "retries-and-dead-letters.md",
]
EXPECTATION = re.compile(r"^(?P<indent> *)(?P<expression>\S.*?)  # → (?P<expected>.+)$", re.MULTILINE)
COMMAND = re.compile(
    r"^```sh\n\./onbeat ((?:jobs|api_keys) [^\n]+)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _registered_tasks_stay_as_they_were() -> Iterator[None]:
    before = targets.known_tasks()
    yield
    for name in targets.known_tasks() - before:
        current_app.tasks.pop(name)


def python_of(page: Path) -> str:
    """The page with everything blanked that is not in a python block, so that lines keep their numbers."""
    is_code = False
    lines = []
    for line in with_commands(page.read_text(encoding="utf-8")).splitlines():
        if line.startswith("```"):
            is_code = line == "```python"
            line = ""
        lines.append(line if is_code else "")
    return "\n".join(lines)


def with_commands(text: str) -> str:
    """A command and what it prints become a call, in as many lines."""
    commands, count = COMMAND.subn(
        lambda match: (
            f"```python\n_onbeat({match[1]!r}, {match[2]!r}, globals())" + "\n" * (match[0].count("\n") - 1) + "```"
        ),
        text,
    )
    assert count == len(re.findall(r"\n\./onbeat (?:jobs|api_keys) ", text)), (
        "a command stands alone, without what it prints"
    )
    return commands


def onbeat(command: str, expected: str, names: dict[str, Any]) -> None:
    output = StringIO()
    call_command(*shlex.split(Template(command).substitute(names)), stdout=output)
    pattern = re.escape(expected).replace("…", ".*")
    assert re.fullmatch(pattern, output.getvalue(), re.DOTALL), f"{command} prints:\n{output.getvalue()}"


def with_expectations(source: str) -> str:
    """`x  # → 1` becomes a comparison. What has an arrow and is no such line is an error of the page."""
    checked, count = EXPECTATION.subn(
        lambda match: f"{match['indent']}_expect({match['expression']}, {match['expected']!r})", source
    )
    assert count == source.count("# →"), "an arrow stands where nothing is compared"
    return checked


class Expectations:
    def __init__(self) -> None:
        self.met = 0

    def __call__(self, value: Any, expected: str) -> None:
        assert expected in (str(value), repr(value)), f"the page says {expected}, and it is {value!r}"
        self.met += 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_do_what_the_page_says(page: Path) -> None:
    expect = Expectations()
    source = python_of(page)
    exec(
        compile(with_expectations(source), str(page), "exec"),
        {"__name__": page.stem, "_expect": expect, "_onbeat": onbeat},
    )
    # An expectation in an `except` that was never reached would say nothing.
    assert expect.met == source.count("# →") > 0


def test_the_pages_on_jobs_are_among_them() -> None:
    assert {"define-and-run-jobs", "backfill"} <= {page.stem for page in PAGES}


def test_a_command_that_prints_something_else_fails(noon: datetime) -> None:
    a_job(now=noon, key="report", schedule=Cron("@hourly"))
    command = "jobs backfill report --from 2026-06-15T10:00 --to 2026-06-15T12:00 --dry-run"
    page = with_commands(f"\n```sh\n./onbeat {command}\n```\n\n```text\n4 fires of …\n```\n")
    with pytest.raises(AssertionError, match=r"--dry-run prints:\s+3 fires of report"):
        exec(page.splitlines()[2], {"_onbeat": onbeat})


def test_an_example_that_says_something_else_fails() -> None:
    with pytest.raises(AssertionError, match="the page says 3, and it is 2"):
        exec(with_expectations("1 + 1  # → 3"), {"_expect": Expectations()})
