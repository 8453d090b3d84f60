"""Orders of `./onbeat chaos` to hit a process at a step of its work: once, there alone, and as it was ordered."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import chaos
from chaos.inside import TAKEN, Orders
from chaos.plan import BEAT_STEPS, WORKER_STEPS
from tests.waiting import wait_until


class Recorded(Orders):
    """Notes what it is told to do, and lives."""

    def __init__(self, folder: Path, name: str = "beat-1") -> None:
        super().__init__(folder, name)
        self.obeyed: list[str] = []

    def _obey(self, deed: str) -> None:
        self.obeyed.append(deed)


def order(folder: Path, words: str, name: str = "beat-1") -> Path:
    file = folder / name
    file.write_text(words)
    return file


def in_another_thread(do: Callable[[], None]) -> None:
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


# ── When it strikes ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_an_order_nothing_happens(tmp_path: Path) -> None:
    orders = Recorded(tmp_path)
    orders.at("planned", only_in_a_tick=True)
    assert orders.obeyed == []
    assert list(tmp_path.iterdir()) == []


def test_an_order_strikes_once(tmp_path: Path) -> None:
    orders = Recorded(tmp_path)
    order(tmp_path, "planned kill")
    for _ in range(3):
        orders.at("planned", only_in_a_tick=True)
    assert orders.obeyed == ["kill"]


def test_the_same_order_can_be_given_again(tmp_path: Path) -> None:
    orders = Recorded(tmp_path)
    for _ in range(2):
        order(tmp_path, "planned freeze")
        orders.at("planned", only_in_a_tick=True)
    assert orders.obeyed == ["freeze", "freeze"]


def test_an_order_waits_for_its_step_and_strikes_at_no_other(tmp_path: Path) -> None:
    orders, file = Recorded(tmp_path), order(tmp_path, "confirmed kill-all")
    for step in BEAT_STEPS:
        if step != "confirmed":
            orders.at(step, only_in_a_tick=True)
    assert orders.obeyed == []
    assert file.exists()
    orders.at("confirmed", only_in_a_tick=True)
    assert orders.obeyed == ["kill-all"]


def test_an_order_to_another_process_is_left_alone(tmp_path: Path) -> None:
    orders, file = Recorded(tmp_path), order(tmp_path, "planned kill", name="beat-10")
    orders.at("planned", only_in_a_tick=True)
    assert orders.obeyed == []
    assert file.exists()


def test_who_ordered_can_see_that_it_was_taken(tmp_path: Path) -> None:
    orders, file = Recorded(tmp_path), order(tmp_path, "planned kill")
    assert not file.with_suffix(TAKEN).exists()
    orders.at("planned", only_in_a_tick=True)
    assert not file.exists()
    assert file.with_suffix(TAKEN).exists()


def test_who_takes_an_order_says_its_process_group(tmp_path: Path) -> None:
    """By which it can be woken, whoever was expected to take it."""
    orders, file = Recorded(tmp_path), order(tmp_path, "planned freeze")
    orders.at("planned", only_in_a_tick=True)
    assert file.with_suffix(TAKEN).read_text() == str(os.getpgrp())
    assert list(tmp_path.iterdir()) == [file.with_suffix(TAKEN)]


def test_an_order_that_is_taken_says_by_whom_from_the_first_moment(tmp_path: Path) -> None:
    file = order(tmp_path, "claimed freeze", name="worker-1")
    with a_process(A_PARENT, AT_ITS_STEP, str(tmp_path)) as parent:
        wait_until(file.with_suffix(TAKEN).exists, what="the child takes the order")
        assert file.with_suffix(TAKEN).read_text() == str(parent.pid)  # all that it started are in its group


def test_an_order_is_told_before_it_is_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log of a process that is killed ends with the reason."""
    order(tmp_path, "planned kill")
    Recorded(tmp_path).at("planned", only_in_a_tick=True)
    assert capsys.readouterr().err == "beat-1 is at the step planned: kill\n"


@pytest.mark.parametrize("words", ["", "planned", "planned kill now"])
def test_what_is_not_a_step_and_a_deed_is_no_order(tmp_path: Path, words: str) -> None:
    orders = Recorded(tmp_path)
    order(tmp_path, words)
    orders.at("planned", only_in_a_tick=True)
    assert orders.obeyed == []


def test_no_step_can_be_mistaken_for_two_words() -> None:
    assert all(len(step.split()) == 1 for step in (*BEAT_STEPS, *WORKER_STEPS))


# ── Who is struck ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thread_of_a_beat_that_does_its_duties_leaves_the_order_to_the_main_one(tmp_path: Path) -> None:
    orders, file = Recorded(tmp_path), order(tmp_path, "leased-to-plan kill")
    in_another_thread(lambda: orders.at("leased-to-plan", only_in_a_tick=True))
    assert orders.obeyed == []
    assert file.exists()
    orders.at("leased-to-plan", only_in_a_tick=True)
    assert orders.obeyed == ["kill"]


def test_a_worker_with_threads_obeys_in_any_of_them(tmp_path: Path) -> None:
    orders = Recorded(tmp_path, "callbacks")
    order(tmp_path, "claimed kill", name="callbacks")
    in_another_thread(lambda: orders.at("claimed", only_in_a_tick=False))
    assert orders.obeyed == ["kill"]


def test_of_many_who_come_to_the_step_at_once_one_obeys(tmp_path: Path) -> None:
    """The children of a worker share its name, and each looks for itself."""
    together = threading.Barrier(8)

    def come(child: Recorded) -> list[str]:
        together.wait(timeout=10)
        child.at("claimed", only_in_a_tick=False)
        return child.obeyed

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            order(tmp_path, "claimed kill")
            obeyed = pool.map(come, [Recorded(tmp_path) for _ in range(8)])
            assert [deed for deeds in obeyed for deed in deeds] == ["kill"]


# ── What it does ─────────────────────────────────────────────────────────────────────────────────────────────────────

AT_ITS_STEP = """
import sys
from pathlib import Path
from chaos.inside import Orders
Orders(Path(sys.argv[1]), "worker-1").at("claimed", only_in_a_tick=False)
sys.exit(7)
"""
A_PARENT = """
import subprocess, sys
sys.exit(abs(subprocess.run([sys.executable, "-c", *sys.argv[1:]]).returncode))
"""


@contextmanager
def a_process(*words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """In a session of its own, as the harness starts them; nobody of it is left when the test ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", *words],
        cwd=Path(chaos.__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_child_that_is_ordered_to_die_dies_alone(tmp_path: Path) -> None:
    order(tmp_path, "claimed kill", name="worker-1")
    with a_process(A_PARENT, AT_ITS_STEP, str(tmp_path)) as parent:
        assert parent.wait(timeout=20) == signal.SIGKILL  # as its child ended; the parent lived to tell it


def test_who_is_ordered_to_die_with_all_others_takes_them_with_it(tmp_path: Path) -> None:
    order(tmp_path, "claimed kill-all", name="worker-1")
    with a_process(A_PARENT, AT_ITS_STEP, str(tmp_path)) as parent:
        assert parent.wait(timeout=20) == -signal.SIGKILL


def test_who_is_ordered_to_freeze_stands_still_until_it_is_let_go(tmp_path: Path) -> None:
    order(tmp_path, "claimed freeze", name="worker-1")
    with a_process(AT_ITS_STEP, str(tmp_path)) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.killpg(process.pid, signal.SIGCONT)
        assert process.wait(timeout=20) == 7


def test_who_was_ordered_to_do_something_else_goes_on(tmp_path: Path) -> None:
    order(tmp_path, "claimed dance", name="worker-1")
    with a_process(AT_ITS_STEP, str(tmp_path)) as process:
        assert process.wait(timeout=20) == 7
