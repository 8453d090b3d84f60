"""The page on the REST API, followed from top to bottom with bash and curl against real processes.

What stands in the block below a command is what it answers; "…" stands for anything.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from api import schema
from tests.platform import ROOT, Platform
from tests.tiers import once_embedded
from tests.unit.doc_pages import page, section, tables
from tests.waiting import wait_until

PAGE = "how-to/use-the-api.md"
STEP = re.compile(r"^```sh\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<answer>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
BROKEN_LINE = re.compile(r',\n(?=["{…])')
PROBLEM = '"about:blank"'  # the type of each
# What a reader puts in: the address of their web process, and the secret that the first command has printed.
ADDRESS, SECRET = "http://127.0.0.1:8000", "KEY=onbeat_…"
HANGS_AFTER_SECONDS = 90


@dataclass(frozen=True)
class Step:
    line: int  # of the page
    commands: str
    answer: str  # empty: the page says nothing about it


def steps(text: str) -> list[Step]:
    found = [
        Step(text.count("\n", 0, match.start()) + 1, match["commands"], match["answer"] or "")
        for match in STEP.finditer(text)
    ]
    assert len(found) == text.count("```sh\n") > 0
    assert sum(bool(step.answer) for step in found) == text.count("```text\n"), "an answer stands below no command"
    return found


def follow(text: str, folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run the steps in one shell, as a reader would, and compare what each answers with what the page says."""
    wanted = steps(text)
    outputs = [folder / f"{number}.out" for number in range(len(wanted))]
    redirected = [f"exec >{output.name} 2>{output.stem}.err\n" for output in outputs]
    script = "".join(where + step.commands for where, step in zip(redirected, wanted, strict=True))
    (folder / "page.sh").write_text(f"set -euo pipefail\n{script}", encoding="utf-8")
    end = _ran(folder, environment)
    begun = [output for output in outputs if output.exists()]
    for step, output in zip(wanted, begun, strict=False):
        said = output.read_text(encoding="utf-8").replace("\r", "")
        errors = output.with_suffix(".err").read_text(encoding="utf-8")
        told = f"line {step.line}:\n{step.commands}answers:\n{said}{errors}"
        assert output != begun[-1] or end == "0", f"{told}and ends with {end}"
        assert (PROBLEM in said) == (PROBLEM in step.answer), told
        pattern = re.escape(BROKEN_LINE.sub(",", step.answer) or "…").replace("…", ".*?")
        assert re.fullmatch(pattern, said, re.DOTALL), f"{told}and the page says:\n{step.answer}"
    assert len(begun) == len(wanted)


def _ran(folder: Path, environment: dict[str, str] | None) -> str:
    command = ["bash", "page.sh"]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, timeout=HANGS_AFTER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "nothing: it hangs"
    return str(done.returncode)


@pytest.fixture
def _curl() -> None:
    if shutil.which("curl") is None:
        assert os.environ.get("CI") not in ("true", "1"), "CI needs curl"
        pytest.skip("curl is not installed here; on Debian and Ubuntu: apt install curl")


@once_embedded
@pytest.mark.usefixtures("_curl")
def test_the_page_can_be_followed_from_top_to_bottom(platform: Platform) -> None:
    platform.migrate()
    platform.beat()
    platform.worker()
    address = platform.web()
    wait_until(lambda: platform.count("SELECT count(*) FROM onbeat_worker"), what="the worker has signed on")
    folder = platform.folder / "reader"
    folder.mkdir()
    # What the launcher hands over to. That it installs the requirements before is the matter of other tests.
    onbeat = folder / "onbeat"
    onbeat.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/manage.py" "$@"\n', encoding="utf-8")
    onbeat.chmod(0o755)
    text = page(PAGE)
    assert (text.count(ADDRESS), text.count(SECRET)) == (1, 1)
    text = text.replace(ADDRESS, address).replace(SECRET, "KEY=$(tail -n 1 0.out)")
    follow(text, folder, platform.environment)


def test_the_statuses_of_the_page_are_those_of_the_schema() -> None:
    rows = tables(section(page(PAGE), "When it says no"))[0]
    assert [int(row[0]) for row in rows] == sorted({*schema._WHEN, 405, 500})


def test_a_page_that_is_right_can_be_followed(tmp_path: Path) -> None:
    follow(
        '```sh\nname=anna\n```\n\n```sh\necho hello, $name: \'1,"2"\'\n```\n\n```text\nhe…: 1,\n"2"\n```\n', tmp_path
    )


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```sh\nfalse\n```\n", "ends with 1"),
        ("```sh\necho $nmae\n```\n", "nmae: unbound variable"),
        ("```sh\nfalse | cat\n```\n\n```sh\ntrue\n```\n", "ends with 1"),
        ("```sh\necho 1\n```\n\n```text\n2\n```\n", "the page says"),
        ("```sh\necho 1; echo 2\n```\n\n```text\n1\n```\n", "the page says"),
        (f"```sh\necho '{{{PROBLEM}}}'\n```\n\n```text\n…\n```\n", "about:blank"),
        ("```text\n1\n```\n\n```sh\necho 1\n```\n", "an answer stands below no command"),
    ],
)
def test_a_page_that_is_wrong_is_told(block: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(why)):
        follow(block, tmp_path)
