"""A page of the docs, followed from top to bottom with bash against real processes.

What stands in the block below a command is what it answers; "…" stands for anything.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.platform import ROOT, Platform

STEP = re.compile(r"^```sh\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<answer>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
BROKEN_LINE = re.compile(r',\n(?=["{…])')
PROBLEM = '"about:blank"'  # the type of each
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
    with subprocess.Popen(["bash", "page.sh"], cwd=folder, env=environment, start_new_session=True) as shell:
        try:
            return str(shell.wait(HANGS_AFTER_SECONDS))
        except subprocess.TimeoutExpired:
            return "nothing: it hangs"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # with what a page started beside itself


def needs_curl() -> None:
    if shutil.which("curl") is None:
        assert os.environ.get("CI") not in ("true", "1"), "CI needs curl"
        pytest.skip("curl is not installed here; on Debian and Ubuntu: apt install curl")


def a_reader(platform: Platform) -> Path:
    """A folder with what a checkout has: `./onbeat` and the examples."""
    folder = platform.folder / "reader"
    folder.mkdir()
    # What the launcher hands over to. That it installs the requirements before is the matter of other tests.
    onbeat = folder / "onbeat"
    onbeat.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/manage.py" "$@"\n', encoding="utf-8")
    onbeat.chmod(0o755)
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder
