"""Prometheus for tests: its programs, or a word about why there are none."""

import os
import subprocess

import pytest

from launcher import prometheus
from launcher.prometheus import Programs


def programs() -> Programs:
    """Without them a test is skipped; with CI=true it fails, since green must mean all of them."""
    found = prometheus.find()
    if found is None:
        say = pytest.fail if os.environ.get("CI", "").lower() in ("true", "1") else pytest.skip
        say(f"{prometheus.MISSING} {prometheus.HOW_TO_GET_IT}")
    return found


def promtool(*words: str) -> tuple[bool, str]:
    """Whether it was content, and what it said."""
    command = [str(programs().promtool), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr
