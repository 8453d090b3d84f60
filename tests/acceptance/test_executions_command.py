"""`executions watch` and `cancel` as real processes, beside a real beat and a real worker."""

import json
import signal
import subprocess
import sys
from uuid import UUID

import pytest

from tests.platform import ROOT, Platform, Process
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full

_DEFINED = (
    "from jobs import definitions; from jobs.recurrence import Cron; "
    "definitions.create(key='slow', task='onbeat.sleep', kwargs={'seconds': 600}, schedule=Cron('* * * * * *'), "
    "max_fires=1); "
    "definitions.create(key='pulse', task='onbeat.echo', schedule=Cron('* * * * * *'))"
)


@pytest.fixture
def running(platform: Platform) -> Platform:
    platform.migrate()
    platform.beat()
    platform.worker()
    return platform


def watch(platform: Platform, name: str, *words: str) -> Process:
    return platform.start(name, [sys.executable, "manage.py", "executions", "watch", *words])


def states(process: Process) -> list[str]:
    """What a watcher told as JSON. A line that is not whole yet is not looked at."""
    lines = process.output().splitlines(keepends=True)
    return [json.loads(line)["state"] for line in lines if line.endswith("\n")]


def exit_code(process: Process) -> int:
    wait_until(lambda: not process.is_running(), what=f"{process.name} ends")
    return process._popen.returncode


def test_an_execution_is_watched_and_cancelled_from_elsewhere(running: Platform) -> None:
    _define(running)
    of_all = watch(running, "all", "--job", "slow", "--json")
    row = wait_until(lambda: _running(running), what="the slow one runs")
    of_one = watch(running, "one", str(row), "--json")
    wait_until(lambda: states(of_one), what="it is told where it is")
    told = json.loads(running.manage("executions", "cancel", str(row), "--reason", "enough", "--by", "ops", "--json"))
    assert told == {"done": 1, "items": [{"id": str(row), "outcome": "asked to stop"}]}
    assert exit_code(of_one) == 1  # it did not succeed
    assert states(of_one) == ["RUNNING", "CANCELLED"]
    wait_until(lambda: "CANCELLED" in states(of_all), what="who watches the job is told, too")
    assert len(states(of_all)) == len(set(states(of_all)))  # each once
    of_all.signal(signal.SIGINT)
    assert exit_code(of_all) == 130
    assert "Traceback" not in of_all.output()


def test_a_pulse_is_followed_without_a_gap_and_nothing_is_told_twice(running: Platform) -> None:
    _define(running)
    watcher = watch(running, "pulse", "--job", "pulse", "--state", "SUCCEEDED", "--json")
    wait_until(lambda: len(states(watcher)) >= 5, what="five successes are told")
    watcher.signal(signal.SIGINT)
    assert exit_code(watcher) == 130
    told = [UUID(json.loads(line)["id"]) for line in watcher.output().splitlines()]
    assert len(told) == len(set(told))
    pulses = "SELECT id FROM onbeat_execution WHERE task = 'onbeat.echo' ORDER BY id"  # by fire time
    ran = [UUID(str(pk)) for (pk,) in running.rows(pulses)]
    assert sorted(told) == ran[ran.index(min(told)) : ran.index(max(told)) + 1]


def test_a_reader_that_has_seen_enough_is_no_traceback(running: Platform) -> None:
    _define(running)
    line = f"{sys.executable} manage.py executions watch --json | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=ROOT,
        env=running.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")


def _define(platform: Platform) -> None:
    platform.manage("shell", "-c", _DEFINED)


def _running(platform: Platform) -> UUID | None:
    found = platform.rows("SELECT id FROM onbeat_execution WHERE state = 'RUNNING' AND task = 'onbeat.sleep'")
    return UUID(str(found[0][0])) if found else None
