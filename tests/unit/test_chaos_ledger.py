"""What handlers and callers of `./onbeat chaos` tell: nothing of it is lost, neither by a kill nor by a race."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import chaos
from chaos import ledger
from chaos.journal import NOT_KNOWN, Journal, answered
from chaos.ledger import Run

NOTED_AND_KILLED = """
import os, signal
from chaos import ledger
ledger.note(what="begin", run="r1", execution="one", attempt=1, job="crash")
ledger.note(what="end", run="r1", how="ok", token="r1")
ledger.note(what="begin", run="r2", execution="two", attempt=3, job="crash")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ledger.FOLDER, str(tmp_path))
    return tmp_path


def begin(run: str, execution: str = "one", attempt: int = 1) -> None:
    ledger.note(what="begin", run=run, execution=execution, attempt=attempt, job="tick")


def end(run: str, how: str = "ok", **facts: str) -> None:
    ledger.note(what="end", run=run, how=how, **facts)


def in_threads(count: int, do: Callable[[int], None]) -> None:
    """All at the same moment."""
    together = threading.Barrier(count)

    def one(number: int) -> None:
        together.wait(timeout=10)
        do(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ── The ledger ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_read_as_it_was_told(folder: Path) -> None:
    before = time.time()
    begin("r1", "one", 2)
    end("r1", token="r1")
    (found,) = ledger.read(folder)
    assert (found.execution, found.attempt, found.job, found.how, found.token) == ("one", 2, "tick", "ok", "r1")
    assert found.ended_at is not None
    assert before <= found.began_at <= found.ended_at <= time.time()


def test_a_run_tells_the_mark_that_its_payload_brought(folder: Path) -> None:
    ledger.note(what="begin", run="r1", execution="one", attempt=1, job="asked", mark="m")
    end("r1", token="r1")
    begin("r2", "two")  # as the receiver of calls tells it, which sees no payload
    assert {run.execution: run.mark for run in ledger.read(folder)} == {"one": "m", "two": ""}


@pytest.mark.parametrize("how", ["failed", "stopped"])
def test_a_run_that_returned_nothing_has_no_token(folder: Path, how: str) -> None:
    begin("r1")
    end("r1", how)
    assert [(run.how, run.token) for run in ledger.read(folder)] == [(how, "")]


def test_a_run_that_did_not_live_to_tell_its_end_has_none(folder: Path) -> None:
    begin("r1")
    (found,) = ledger.read(folder)
    assert found == Run("one", 1, "tick", found.began_at, ended_at=None, how="", token="", mark="")


def test_who_is_killed_has_told_all_that_it_did(folder: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", NOTED_AND_KILLED], cwd=Path(chaos.__file__).parents[1], check=False)
    assert killed.returncode == -signal.SIGKILL
    found = [(run.execution, run.attempt, run.how, run.token) for run in ledger.read(folder)]
    assert found == [("one", 1, "ok", "r1"), ("two", 3, "", "")]


def test_runs_in_threads_of_one_process_are_told_apart(folder: Path) -> None:
    begin("r1", "one")
    begin("r2", "two")
    end("r1", "failed")
    begin("r3", "three")
    end("r3", token="r3")
    end("r2", token="r2")
    assert {run.execution: (run.how, run.token) for run in ledger.read(folder)} == {
        "one": ("failed", ""),
        "two": ("ok", "r2"),
        "three": ("ok", "r3"),
    }


def test_two_runs_of_one_attempt_stay_two(folder: Path) -> None:
    """It is the very thing that the judge looks for."""
    begin("r1")
    begin("r2")
    end("r2", token="r2")
    end("r1", token="r1")
    assert [(run.execution, run.attempt, run.token) for run in ledger.read(folder)] == [
        ("one", 1, "r1"),
        ("one", 1, "r2"),
    ]


def test_runs_of_all_processes_come_in_the_order_in_which_they_began(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, execution in ((30, "first"), (10, "second"), (20, "third"), (30, "fourth")):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        begin(execution, execution)
    assert sorted(path.name for path in folder.iterdir()) == ["10.jsonl", "20.jsonl", "30.jsonl"]
    assert [run.execution for run in ledger.read(folder)] == ["first", "second", "third", "fourth"]


def test_lines_that_are_written_at_the_same_moment_stay_whole(folder: Path) -> None:
    def work(number: int) -> None:
        for turn in range(25):
            begin(f"{number}/{turn}", f"{number}/{turn}")
            end(f"{number}/{turn}", token="x" * 200)

    in_threads(8, work)
    found = ledger.read(folder)
    assert len(found) == len({run.execution for run in found}) == 8 * 25
    assert {run.how for run in found} == {"ok"}


def test_a_ledger_in_which_nobody_wrote_is_empty(folder: Path) -> None:
    (folder / "worker-1.log").write_text("not a line of the ledger\n")
    assert ledger.read(folder) == []


# ── The journal ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_asked_for_is_unknown_until_an_answer_is_in_hand() -> None:
    journal = Journal()
    entry = journal.begin("rest", "run", "asked", mark="m", run_key="k")
    assert (entry.outcome, entry.answered_at, entry.execution) == (NOT_KNOWN, None, "")
    answered(entry, "new", execution="one")
    assert (entry.outcome, entry.execution, entry.mark) == ("new", "one", "m")
    assert entry.answered_at is not None
    assert entry.sent_at <= entry.answered_at <= time.time()


def test_callers_who_ask_at_the_same_moment_each_have_their_entry() -> None:
    journal = Journal()

    def ask(number: int) -> None:
        for _ in range(50):
            journal.begin(str(number), "run", "asked")

    in_threads(8, ask)
    assert len(journal.entries) == 8 * 50


def test_a_journal_can_be_told_as_plain_values() -> None:
    journal = Journal()
    answered(journal.begin("python", "pause", "edited"), "done", version=4)
    (plain,) = journal.plain()
    assert (plain["caller"], plain["deed"], plain["outcome"], plain["version"]) == ("python", "pause", "done", 4)
