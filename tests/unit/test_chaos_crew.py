"""Who runs and uses the platform for `./onbeat chaos`: whose end is a finding, whom an order hits, who gives up."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos import callers, crew
from chaos.callers import Caller, NoAnswer
from chaos.crew import Place, Platform
from chaos.faults import processes
from chaos.inside import TAKEN
from chaos.journal import Journal
from chaos.plan import Fault
from chaos.world import World
from launcher.folders import ROOT
from tests.waiting import wait_until

NAME = "beat-1"
# Does what its first argument says. Its folder tells that it is there, and to the next that it is not the first.
PROGRAM = """
import signal, sys, time
from pathlib import Path
from chaos.inside import Orders
what, folder = sys.argv[1], Path(sys.argv[2])
is_first = not (folder / "somebody").exists()
if what == "ends":
    sys.exit(0)
if what.startswith("stops with"):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(what.split()[-1])))
if what == "stays":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
(folder / "somebody").touch()
while True:
    time.sleep(0.01)
    if what == "obeys" or (what == "obeys if it is not the first" and not is_first):
        Orders(folder, "beat-1").at("planned", only_in_a_tick=True)
        if (folder / "beat-1.taken").exists():
            (folder / "went on").touch()
"""


@contextmanager
def running(what: str, folder: Path) -> Iterator[Platform]:
    """A platform of one process, which is there."""
    platform = Platform()
    command = [sys.executable, "-c", PROGRAM, what, str(folder)]
    platform.add(Place(NAME, command, {"PYTHONPATH": str(ROOT)}, folder / "beat-1.log"))
    platform.start()
    try:
        if what != "ends":
            wait_until((folder / "somebody").exists, what="the first process is there")
        yield platform
    finally:
        platform.close()


def wait_until_started(platform: Platform, count: int) -> None:
    place = platform.places[NAME]
    wait_until(lambda: place.starts >= count, what=f"the place of {NAME} is filled for the {count}. time")


# ── Whose end is a finding ───────────────────────────────────────────────────────────────────────────────────────────


def test_who_ends_by_itself_is_told(tmp_path: Path) -> None:
    with running("ends", tmp_path) as platform:
        wait_until_started(platform, 2)
        assert platform.findings[0] == "beat-1 ended by itself with 0; see beat-1.log"


@pytest.mark.parametrize("what", ["stops with 0", "is ended by the signal"])
def test_who_is_told_to_stop_and_does_is_no_finding(tmp_path: Path, what: str) -> None:
    with running(what, tmp_path) as platform:
        assert platform.signal(NAME, signal.SIGTERM)
        wait_until_started(platform, 2)
        assert platform.findings == []


def test_who_is_told_to_stop_and_fails_at_it_is_told(tmp_path: Path) -> None:
    with running("stops with 3", tmp_path) as platform:
        platform.signal(NAME, signal.SIGTERM)
        wait_until_started(platform, 2)
        assert platform.findings == ["beat-1 ended with 3 when it was told to stop; see beat-1.log"]


def test_who_is_told_to_stop_and_is_killed_by_a_later_fault_is_no_finding(tmp_path: Path) -> None:
    with running("stays", tmp_path) as platform:
        platform.signal(NAME, signal.SIGTERM)
        platform.signal(NAME, signal.SIGKILL)
        wait_until_started(platform, 2)
        assert platform.findings == []


def test_who_is_told_to_stop_and_killed_by_somebody_else_is_told(tmp_path: Path) -> None:
    platform, place = Platform(), Place(NAME, [], {}, tmp_path / "beat-1.log")
    place.struck[4711] = {signal.SIGTERM}
    platform._judge_end(place, 4711, -signal.SIGKILL)
    assert platform.findings == ["beat-1 ended with -9 when it was told to stop; see beat-1.log"]


def test_a_pid_that_was_struck_is_so_once(tmp_path: Path) -> None:
    """The system gives it to another process by and by."""
    platform, place = Platform(), Place(NAME, [], {}, tmp_path / "beat-1.log")
    place.struck[4711] = {signal.SIGKILL}
    for _ in range(2):
        platform._judge_end(place, 4711, -signal.SIGKILL)
    assert platform.findings == ["beat-1 ended by itself with -9; see beat-1.log"]


class EndsMeanwhile(Place):
    """It is there when somebody looks, and gone when somebody looks again."""

    looks = 0

    @property
    def pid(self) -> int:
        self.looks += 1
        return 4711 if self.looks == 1 else 0


def test_nobody_signals_the_harness_where_a_process_ends_at_this_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: list[int] = []
    monkeypatch.setattr(crew.os, "kill", lambda pid, _: signalled.append(pid))
    platform, place = Platform(), EndsMeanwhile(NAME, [], {}, tmp_path / "beat-1.log")
    place.popen = cast(Any, SimpleNamespace(wait=lambda _: 0))
    platform.add(place)
    platform.stop_all([NAME])
    platform.stop_all([NAME])
    assert signalled == [4711]


def test_only_who_was_started_here_is_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[int] = []
    monkeypatch.setattr(crew.os, "killpg", lambda group, _: woken.append(group))
    platform, place = Platform(), Place(NAME, [], {}, tmp_path / "beat-1.log", sessions=[4711])
    platform.add(place)
    assert [platform.go_on(NAME, group) for group in (0, 1, 4711)] == [False, False, True]
    assert woken == [4711]


# ── Whom an order hits ───────────────────────────────────────────────────────────────────────────────────────────────


def at_planned(seconds: float) -> Fault:
    return Fault(0.0, "beat … at a step", NAME, seconds, "planned")


def world_of(platform: Any, folder: Path) -> World:
    return cast(World, SimpleNamespace(platform=platform, orders=folder))


@contextmanager
def struck(
    strike: Callable[[World, Fault], bool], platform: Platform, folder: Path, seconds: float
) -> Iterator["Future[bool]"]:
    """The order is given, and somebody else may do something meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(strike, world_of(platform, folder), at_planned(seconds))
        wait_until(lambda: (folder / NAME).exists() or answer.done(), what="the order is given")
        yield answer


def test_who_is_killed_at_a_step_is_no_finding(tmp_path: Path) -> None:
    with running("obeys", tmp_path) as platform:
        assert processes.kill_at_step(world_of(platform, tmp_path), at_planned(20))
        wait_until_started(platform, 2)
        assert platform.findings == []


def test_who_is_killed_at_a_step_in_the_place_of_another_is_no_finding(tmp_path: Path) -> None:
    with running("obeys if it is not the first", tmp_path) as platform:
        with struck(processes.kill_at_step, platform, tmp_path, 20) as answer:
            platform.signal(NAME, signal.SIGKILL)
            assert answer.result(timeout=20)
        wait_until_started(platform, 3)
        assert platform.findings == []


def test_who_ends_for_another_reason_while_an_order_is_out_is_told(tmp_path: Path) -> None:
    with running("stays", tmp_path) as platform:
        with struck(processes.kill_at_step, platform, tmp_path, 2) as answer:
            assert platform.places[NAME].popen is not None
            platform.places[NAME].popen.kill()  # as the system may, and no fault
            assert not answer.result(timeout=20)
        wait_until_started(platform, 2)
        assert platform.findings == ["beat-1 ended by itself with -9; see beat-1.log"]


def test_who_ends_after_an_order_that_nobody_took_is_told(tmp_path: Path) -> None:
    with running("stays", tmp_path) as platform:
        assert not processes.kill_at_step(world_of(platform, tmp_path), at_planned(0.1))
        assert platform.places[NAME].popen is not None
        platform.places[NAME].popen.kill()
        wait_until_started(platform, 2)
        assert platform.findings == ["beat-1 ended by itself with -9; see beat-1.log"]


def test_who_is_frozen_at_a_step_in_the_place_of_another_is_woken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_SHORTEST_FREEZE_SECONDS", 0.5)
    with running("obeys if it is not the first", tmp_path) as platform:
        with struck(processes.freeze_at_step, platform, tmp_path, 3) as answer:
            platform.signal(NAME, signal.SIGKILL)
            assert answer.result(timeout=20)
        wait_until((tmp_path / "went on").exists, what="the second goes on")
        assert platform.findings == []


# ── How long it lasts ────────────────────────────────────────────────────────────────────────────────────────────────


class Clock:
    """Whoever sleeps lets it pass. Somebody comes to the step at a moment, and says a while later who it is."""

    def __init__(self, folder: Path, comes_at: float, says_after: float = 0.0) -> None:
        self._order, self._mine = folder / NAME, folder / "mine"
        self._comes_at, self._says_at = comes_at, comes_at + says_after
        self.now = 0.0
        self.woken_at: float | None = None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self._comes_at and self._order.exists():
            self._order.rename(self._mine)
            self._mine.write_text("4711")
        if self.now >= self._says_at and self._mine.exists():
            self._mine.rename(self._order.with_suffix(TAKEN))

    def go_on(self, name: str, group: int) -> bool:
        assert (name, group) == (NAME, 4711)
        self.woken_at = self.now
        return True


@pytest.mark.parametrize("comes_at", [0.0, 1.0, 3.9])
def test_who_is_frozen_at_a_step_is_woken_when_the_time_of_the_fault_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_at: float
) -> None:
    clock = Clock(tmp_path, comes_at)
    monkeypatch.setattr(processes, "time", clock)
    assert processes.freeze_at_step(world_of(clock, tmp_path), at_planned(6.0))
    assert clock.woken_at == pytest.approx(6.0, abs=0.1)


def test_a_step_that_nobody_comes_to_in_time_strikes_nobody_then_or_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(tmp_path, comes_at=4.2)
    monkeypatch.setattr(processes, "time", clock)
    assert not processes.freeze_at_step(world_of(clock, tmp_path), at_planned(6.0))
    assert clock.now < 6.0
    clock.sleep(10)
    assert list(tmp_path.iterdir()) == []


def test_who_has_the_order_in_hand_when_it_is_taken_back_is_woken_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(tmp_path, comes_at=3.9, says_after=0.5)
    monkeypatch.setattr(processes, "time", clock)
    assert processes.freeze_at_step(world_of(clock, tmp_path), at_planned(6.0))
    assert clock.woken_at is not None


# ── Who gets no answer ───────────────────────────────────────────────────────────────────────────────────────────────


class Unanswered(Caller):
    name = "rest"

    def _nobody(self, *_words: Any) -> Any:
        raise NoAnswer

    run = cancel = move = change = pause = resume = create = archive = _nobody

    def pauses(self, key: str) -> "Unanswered":
        self._paused.add(key)
        return self


def test_a_caller_that_never_hears_again_gives_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "_FINISH_SECONDS", 0.0)
    caller = Unanswered(Journal(), 7, until=time.monotonic()).pauses("edited-rest-1")
    caller.start()
    caller.join()
    assert "edited-rest-1 is still paused: nobody answered" in str(caller.error)


def test_a_caller_that_hears_in_the_end_is_content(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, {"version": 2}])

    def resume(_caller: Caller, _key: str) -> Any:
        return next(answers) or Unanswered._nobody(caller)

    monkeypatch.setattr(Unanswered, "resume", resume)
    caller = Unanswered(Journal(), 7, until=time.monotonic()).pauses("edited-rest-1")
    caller.start()
    caller.join()
    assert caller.error is None
