"""Beats that are killed or frozen at a named step of their tick, beside one that goes on: nothing is lost or doubled.

All steps at once, since beats that fall together leave each other's work as well; at length (`TEST_LONG=1`) also each
step alone.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.crashing_beat import STEPS, words_of
from tests.acceptance.pulses import SHARDS, Pulses
from tests.platform import Process
from tests.waiting import wait_until

pytestmark = pytest.mark.full

LOOK_AHEAD_SECONDS = 2
LEASE_SECONDS = 3
TOGETHER = [pytest.param(STEPS, id="all-steps")]
ALONE = [pytest.param((step,), id=step) for step in STEPS] if os.environ.get("TEST_LONG") else []
AFTER_A_CONFIRM = ("confirmed", "marked")
# As a worker would: half of what was published of late is claimed, and half of that is done.
CLAIM = """
from executions import lifecycle
from executions.clock import database_now
from executions.models import Execution
now = database_now()
latest = Execution.objects.filter(state="QUEUED").order_by("-fire_time").values_list("pk", flat=True)
for number, pk in enumerate(latest[:800:2]):
    claim = lifecycle.claim(pk, 1, worker="a-worker", now=now)
    if number % 2:
        lifecycle.succeed(claim, result=None, now=now)
print("claimed", number + 1)
"""


class Crashes(Pulses):
    """One beat that goes on, and others that fall."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder,
            count=SHARDS,  # their ids follow each other, so each beat has a job in each of its shards
            ONBEAT_BEAT_LOOK_AHEAD_SECONDS=str(LOOK_AHEAD_SECONDS),
            ONBEAT_BEAT_LEASE_SECONDS=str(LEASE_SECONDS),
            ONBEAT_BEAT_STUCK_AFTER_SECONDS="3",
            ONBEAT_WORKERS_LOST_AFTER_SECONDS="600",  # those that claim here have no heartbeat
        )
        self._started = 0

    def __enter__(self) -> "Crashes":
        super().__enter__()
        self.steady = self.platform.beat("steady")
        return self

    def start(self, step: str, end: str) -> Process:
        self._started += 1
        command = [sys.executable, "-m", "tests.acceptance.crashing_beat", step, end]
        return self.platform.start(f"{self._started}-{end}-{step}", command)

    def is_taken_over(self) -> None:
        wait_until(lambda: self.shards_of(self.steady) == SHARDS, what="the steady beat has all shards")

    def is_hit(self, beat: Process, step: str) -> None:
        wait_until(lambda: words_of(step) in beat.output(), what=f"a beat comes to the step {step}")
        wait_until(lambda: not beat.is_running() or is_frozen(beat), what=f"the beat is hit at the step {step}")


def is_frozen(process: Process) -> bool:
    return " T " in Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2][:3]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crashes]:
    with Crashes(tmp_path_factory.mktemp("crashes")) as crashes:
        yield crashes


@pytest.fixture
def crashes(started: Crashes) -> Iterator[Crashes]:
    """With the steady beat alone before the test and after it."""
    started.share_the_work(started.steady)
    yield started
    for process in started.platform.processes:
        if process is not started.steady:
            process.kill_all()
    print(started.steady.output()[-8000:])  # noqa: T201 - pytest shows it on failure


@pytest.mark.parametrize("steps", TOGETHER + ALONE)
def test_what_a_beat_leaves_that_is_killed_at_a_step_is_done_by_another(
    crashes: Crashes, steps: tuple[str, ...]
) -> None:
    with crashes.every_second_fires_once():
        beats = {step: crashes.start(step, "kill") for step in steps}
        for step, beat in beats.items():
            crashes.is_hit(beat, step)
            assert not beat.is_running()
        crashes.is_taken_over()
        crashes.pass_seconds(LOOK_AHEAD_SECONDS + 1)  # until all is due that they had planned
    for step, beat in beats.items():
        if step in AFTER_A_CONFIRM:
            assert crashes.sent(by=beat)
    assert crashes.steps_back() == []


@pytest.mark.parametrize("steps", TOGETHER + ALONE)
def test_a_beat_that_was_frozen_at_a_step_longer_than_its_lease_undoes_nothing_and_works_again(
    crashes: Crashes, steps: tuple[str, ...]
) -> None:
    with crashes.every_second_fires_once(states=("QUEUED", "RUNNING", "SUCCEEDED")):
        beats = {step: crashes.start(step, "stop") for step in steps}
        for step, beat in beats.items():
            crashes.is_hit(beat, step)
        since = crashes.second()
        crashes.is_taken_over()
        crashes.pass_seconds(LEASE_SECONDS + 1, since=since)
        crashes.go_on(since, crashes.second())
        assert "claimed" in crashes.platform.manage("shell", "-c", CLAIM)
        assert all(is_frozen(beat) for beat in beats.values())
        for beat in beats.values():
            beat.signal(signal.SIGCONT)
        crashes.share_the_work(crashes.steady, *beats.values())
        sent = {beat: crashes.sent(by=beat).total() for beat in beats.values()}
        wait_until(
            lambda: all(crashes.sent(by=beat).total() > before for beat, before in sent.items()),
            what="the beats that were frozen publish again",
        )
    assert crashes.steps_back() == []
