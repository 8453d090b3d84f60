"""The proof that a sceptic can run, run: a slice of it with a fixed seed, and a judge who must find what is broken.

`./onbeat chaos` starts servers of its own, so that its faults strike nobody else's tests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.folders import ROOT

pytestmark = pytest.mark.full
SEED = "7"
# The machine has other tests to run: how fast it is with these beside is no promise.
_TIME_ENOUGH = ("--drained-within", "300")


def chaos(folder: Path, *words: str, exits_with: int) -> dict[str, Any]:
    """What a run says of itself, as JSON."""
    command = [sys.executable, "-m", "chaos", "--json", "--seed", SEED, *words]
    environment = {**os.environ, "DATA_DIR": str(folder)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == exits_with, done.stderr[-6000:] + done.stdout[-6000:]
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_a_minute_of_faults_breaks_no_promise(tmp_path: Path) -> None:
    said = chaos(tmp_path, "--seconds", "60", *_TIME_ENOUGH, exits_with=0)
    assert said["breaches"] == []
    assert said["fires"] > 500
    assert sum(said["faults"].values()) > 20
    assert not (tmp_path / "chaos").exists() or list((tmp_path / "chaos").iterdir()) == []


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="two minutes each: see `make test-long`")
@pytest.mark.parametrize(
    ("guard", "rule"),
    [
        ("claim", "one run per attempt"),
        ("mark", "queued means confirmed"),
        ("lease", "each fire once"),
    ],
)
def test_a_guard_that_is_broken_is_found_within_a_minute(guard: str, rule: str, tmp_path: Path) -> None:
    said = chaos(tmp_path, "--seconds", "45", "--break", guard, exits_with=1)
    assert any(breach.startswith(f"{rule}: ") for breach in said["breaches"]), said["breaches"]
    assert {path.name for path in (tmp_path / "chaos" / f"seed-{SEED}").iterdir()} >= {"logs", "ledger", "rows.jsonl"}
