"""Beats that are killed, told to stop, frozen and started anew at random, with a real worker behind them.

Nothing is lost, nothing doubled, and what was cancelled in time is never sent. The random choices are the same in every
run; `TEST_SEED` makes others. Only at length (`TEST_LONG=1`): in the test command `test_chaos.py` tries all processes
and servers at once.
"""

import json
import math
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.pulses import Pulses
from tests.platform import Process
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="a minute of chaos tries more: see `make test-long`"),
]

SEED = int(os.environ.get("TEST_SEED", "1"))
CHAOS_SECONDS, PULSES = 150, 60
REMINDERS = 100
# Some delayed runs and some fires that are already planned, all of them well ahead of their time.
CREATE_REMINDERS = f"""
from jobs import runs
definitions.create(key="reminder", task="onbeat.echo", now=now)
wanted = [
    runs.Wanted(delay=timedelta(seconds=3 + share * {CHAOS_SECONDS}), run_key=str(share), priority=number % 10)
    for number in range({REMINDERS})
    for share in [number / {REMINDERS}]
]
runs.run_many("reminder", wanted, now=now)
"""
CANCEL = """
import json
from datetime import timedelta
from executions import lifecycle
from executions.clock import database_now
from executions.models import Execution
from jobs import runs
now = database_now()
ahead = Execution.objects.filter(state="SCHEDULED", available_at__gt=now + timedelta(seconds=2))
reminders = list(ahead.exclude(run_key="").order_by("pk").values_list("pk", "run_key")[::4])
fires = list(ahead.filter(trigger="SCHEDULE").order_by("pk").values_list("pk", flat=True)[::10])
assert all(runs.cancel("reminder", key, now=now) == "done" for _, key in reminders)
assert len(lifecycle.cancel(fires, reason="cancelled", now=now).before_run) == len(fires)
print(json.dumps([str(pk) for pk, _ in reminders] + [str(pk) for pk in fires]))
"""


class Chaos(Pulses):
    """So many beats, each of which runs, is frozen or is gone."""

    def __init__(self, folder: Path, *, beats: int) -> None:
        super().__init__(
            folder,
            count=PULSES,
            others=CREATE_REMINDERS,
            ONBEAT_BEAT_STUCK_AFTER_SECONDS="3",
            ONBEAT_WORKERS_LOST_AFTER_SECONDS="60",  # the worker lives, however busy the machine
        )
        self._random = random.Random(SEED)
        self._size = beats
        self._running: list[Process] = []
        self._frozen: list[Process] = []
        self._stopped: list[Process] = []
        self.deeds: list[str] = []

    def __enter__(self) -> "Chaos":
        super().__enter__()
        self.since = self.count("SELECT extract(epoch FROM min(next_fire_at))::bigint FROM onbeat_schedule")
        self.platform.worker()
        for _ in range(self._size):
            self._start()
        return self

    def rage(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            deeds = [self._kill, self._terminate, self._freeze, self._freeze] if self._ticking() else []
            deeds += [self._go_on, self._kill_frozen] if self._frozen else []
            deeds += [self._start] * 3 if len(self._running) + len(self._frozen) < self._size else []
            if deeds:
                self._random.choice(deeds)()
            self._pause()

    def end(self) -> None:
        """All beats are there again and share the work, and those that were told to stop have done so."""
        while self._frozen:
            self._go_on()
        while len(self._running) < self._size:
            self._start()
        self.share_the_work(*self._running)
        self._assert_clean_ends()

    def calm_down(self) -> None:
        """Nothing more is sent, so that the worker comes to the least urgent as well."""
        while self._running:
            self._terminate()
        self._assert_clean_ends()

    def _pause(self) -> None:
        """Half of the times until a second begins, which is when beats are busy."""
        now = time.time()
        end = self._random.choice([math.ceil(now), now + self._random.uniform(0.05, 0.8)])
        wait_until(lambda: time.time() >= end, what="a moment has passed")

    def _ticking(self) -> list[Process]:
        """Those that run and have begun to work: one that is still starting has nothing to lose."""
        pids = {pid for (pid,) in self.rows("SELECT pid FROM onbeat_beat WHERE ticked_at IS NOT NULL")}
        return [beat for beat in self._running if beat.pid in pids]

    def _assert_clean_ends(self) -> None:
        wait_until(lambda: not any(beat.is_running() for beat in self._stopped), what="those told to stop have ended")
        assert {beat.name: code for beat in self._stopped if (code := beat.terminate())} == {}

    def _start(self) -> None:
        beat = self.platform.beat(f"beat-{len(self.platform.processes)}")
        self._running.append(beat)
        self._say("start", beat)

    def _kill(self) -> None:
        self._picked(self._ticking(), "kill").kill_all()

    def _kill_frozen(self) -> None:
        self._picked(self._frozen, "kill frozen").kill_all()

    def _terminate(self) -> None:
        """Nothing waits for its end: the next may start beside it."""
        beat = self._picked(self._ticking(), "terminate")
        beat.signal(signal.SIGTERM)
        self._stopped.append(beat)

    def _freeze(self) -> None:
        beat = self._picked(self._ticking(), "freeze")
        beat.signal(signal.SIGSTOP)
        self._frozen.append(beat)

    def _go_on(self) -> None:
        beat = self._picked(self._frozen, "continue")
        beat.signal(signal.SIGCONT)
        self._running.append(beat)

    def _picked(self, beats: list[Process], deed: str) -> Process:
        """One of these, which is no longer what it was."""
        beat = self._random.choice(beats)
        (self._running if beat in self._running else self._frozen).remove(beat)
        self._say(deed, beat)
        return beat

    def _say(self, deed: str, beat: Process) -> None:
        self.deeds.append(f"{deed} {beat.name}")


@pytest.fixture(params=[2, 4])
def chaos(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chaos]:
    with Chaos(tmp_path, beats=request.param) as chaos:
        yield chaos
        states = chaos.rows("SELECT state, count(*) FROM onbeat_execution GROUP BY state")
        print(f"seed {SEED}: {', '.join(chaos.deeds)}; {states}")  # noqa: T201 - pytest shows it on failure


def test_beats_that_come_and_go_at_random_fire_every_second_once(chaos: Chaos) -> None:
    chaos.rage(CHAOS_SECONDS / 4)
    cancelling = chaos.platform.start("cancelling", [sys.executable, "manage.py", "shell", "-c", CANCEL])
    chaos.rage(CHAOS_SECONDS * 3 / 4)
    chaos.end()
    until = chaos.second() + 1
    wait_until(lambda: not cancelling.is_running(), what="some are cancelled")
    cancelled = set(json.loads(cancelling.output().splitlines()[-1]))
    assert cancelled
    chaos.go_on(chaos.since, until)
    chaos.are_published(until=until)
    chaos.calm_down()
    wait_until(
        lambda: unended(chaos, until) == [], what="everything that was due has run", seconds=60 + CHAOS_SECONDS * 2
    )

    sent = chaos.sent()
    assert cancelled & sent.keys() == set()
    rows = dict(chaos.rows("SELECT id::text, state FROM onbeat_execution"))
    assert {pk for pk, state in rows.items() if state == "CANCELLED"} == cancelled
    assert sent.keys() <= rows.keys()
    chaos.assert_each_second_once(chaos.since, until, states=("SUCCEEDED", "CANCELLED"))
    assert chaos.count("SELECT count(*) FROM onbeat_execution WHERE trigger = 'DELAYED'") == REMINDERS
    assert attempts_other_than_one_success(chaos) == []
    assert chaos.steps_back() == []
    doubles = sent.total() - len(sent)
    print(f"{len(sent)} executions, {doubles} of them sent twice")  # noqa: T201 - allowed, and worth to know


def unended(chaos: Chaos, until: int) -> list[tuple[str, int]]:
    return chaos.rows(
        "SELECT state, count(*) FROM onbeat_execution WHERE state NOT IN ('SUCCEEDED', 'CANCELLED') "
        f"AND fire_time < to_timestamp({until}) GROUP BY state"
    )


def attempts_other_than_one_success(chaos: Chaos) -> list[tuple[str, int, list[str]]]:
    """Of what has succeeded: its attempt, and how its attempts ended."""
    return chaos.rows(
        "SELECT e.id::text, attempt, array_agg(outcome) FROM onbeat_execution e "
        "LEFT JOIN onbeat_attempt a ON a.execution_id = e.id WHERE e.state = 'SUCCEEDED' GROUP BY e.id, attempt "
        "HAVING attempt <> 1 OR array_agg(outcome::text) <> ARRAY['SUCCEEDED']"
    )
