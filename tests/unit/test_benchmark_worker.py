"""What the benchmark of workers counts, and that its peers are given what ours has."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from benchmarks import budgets, cpu_time, drained, plain_worker, worker
from benchmarks.budgets import Line
from benchmarks.drained import Look, Stretch
from benchmarks.plain_project import queues as peer_queues
from executions import queues
from executions.models import DEFAULT_PRIORITY
from launcher.refusal import Refusal
from workers.management.commands.worker import _defaults

_SETTINGS = "benchmarks.plain_project.settings"
# One process leads a session and does nothing; one that it started has worked for a third of a second.
_CHILD = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"
_LEADER = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {_CHILD!r}])"


def test_what_counts_lies_between_the_first_look_and_the_last_that_sees_any_message() -> None:
    looks = [Look(490, 10.0, 3.0), Look(250, 10.5, 3.4), Look(10, 11.0, 3.9), Look(0, 12.0, 9.0)]
    counted = drained.stretch(looks)
    assert (counted.executions, counted.seconds) == (480, 1.0)
    assert counted.per_s == 480
    assert counted.cpu_ms_per_execution == pytest.approx(0.9 * 1000 / 480)


@pytest.mark.parametrize("looks", [[Look(0, 1.0, 1.0)], [Look(3, 1.0, 1.0), Look(0, 2.0, 1.0)]])
def test_too_few_for_two_looks_give_no_figure(looks: list[Look]) -> None:
    with pytest.raises(Refusal, match="ask for more with --executions"):
        drained.stretch(looks)


def test_turns_of_the_same_worker_count_together_each_as_much_as_it_ran() -> None:
    turns = [Stretch(300, 1.0, 0.5, {"cpu": 10.0, "wal": 7.0}), Stretch(100, 0.5, 0.1, {"cpu": 30.0, "wal": None})]
    assert drained.together(turns) == Stretch(400, 1.5, 0.6, {"cpu": 15.0, "wal": None})


def test_the_cpu_time_of_a_worker_is_that_of_its_children_too() -> None:
    leader = subprocess.Popen(
        [sys.executable, "-c", _LEADER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    with leader:
        assert leader.stdout
        assert leader.stdout.readline() == b"done\n"
        together = drained.cpu_seconds_of_session(leader.pid)
        assert together - cpu_time.cpu_seconds(leader.pid) >= 0.25
        leader.communicate(b"\n")
    assert drained.cpu_seconds_of_session(leader.pid) == 0


def test_a_budget_may_be_a_minimum() -> None:
    lines = [Line("a", "a ratio", 1.2, "times", 1.3, is_minimum=True), Line("b", "one more", 1.3, "", 1.3, True)]
    assert [line.is_met for line in lines] == [False, True]
    _, first, second = budgets.table([line.as_json() for line in lines]).splitlines()
    assert first.split() == ["a", "ratio", "1.2", "times", "≥", "1.3", "times", "MISSED"]
    assert second.split() == ["one", "more", "1.3", "≥", "1.3", "met"]


def test_our_worker_is_held_against_two_of_its_peers() -> None:
    ours, slow, fast = Stretch(500, 1.0, 0.5), Stretch(500, 2.0, 0.5), Stretch(500, 0.25, 0.5)
    peers = {"plain": fast, "plain_defaults": fast, "results": slow, "results_kept_connection": fast}
    assert list(peers) == [peer.name for peer in plain_worker.PEERS]
    ratios = [line for line in worker.compared(ours, peers) if line.name.startswith("ratio_")]
    assert [(line.name, line.figure, line.budget, line.is_met) for line in ratios] == [
        ("ratio_plain", 0.25, 0.42, False),
        ("ratio_plain_defaults", 0.25, None, None),
        ("ratio_results", 2.0, 1.3, True),
        ("ratio_results_kept_connection", 0.25, None, None),
    ]


def test_the_peers_have_the_options_of_our_worker(settings) -> None:
    settings.IS_FOLDER_BROKER = False
    ours = _defaults("tasks", [])
    for name in ("--queues", "--hostname"):  # where it reads, and what it is called
        place = ours.index(name)
        del ours[place : place + 2]
    assert tuple(ours) == plain_worker.OUR_OPTIONS


def test_the_peers_queue_is_of_our_kind(settings) -> None:
    settings.ONBEAT_EXECUTIONS_PREFIX = "bench_1."
    assert peer_queues.work_queue("bench_1.").as_dict(recurse=True) == queues.work_queue("default").as_dict(
        recurse=True
    )
    dead_letters = peer_queues.dead_letter_queue("bench_1.")
    assert dead_letters.as_dict(recurse=True) == queues.dead_letter_queue().as_dict(recurse=True)


@pytest.fixture
def peer_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv("DATABASE_URL", "postgresql://onbeat:secret@127.0.0.1:5432/onbeat")
    monkeypatch.setenv("CELERY_BROKER_URL", "amqp://onbeat:secret@127.0.0.1:5672/onbeat")
    monkeypatch.setenv("PEER_PREFIX", "bench_1.")
    yield importlib.import_module(_SETTINGS)
    del sys.modules[_SETTINGS]


def test_the_peers_take_and_acknowledge_messages_as_ours_do(peer_settings: ModuleType, settings) -> None:
    for name in ("TASK_ACKS_LATE", "TASK_REJECT_ON_WORKER_LOST", "WORKER_PREFETCH_MULTIPLIER", "BROKER_HEARTBEAT"):
        assert getattr(peer_settings, f"CELERY_{name}") == getattr(settings, f"CELERY_{name}"), name
    assert peer_settings.CELERY_TASK_DEFAULT_PRIORITY == DEFAULT_PRIORITY
