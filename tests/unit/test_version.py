"""The version that beats tell is that of the release."""

import tomllib
from pathlib import Path

from executions.version import VERSION

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def test_the_version_is_that_of_the_project() -> None:
    assert tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"] == VERSION
