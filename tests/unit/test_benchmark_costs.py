"""What the servers pay: whose CPU it is, and what one fire's share is."""

import os
import socket
import subprocess
import sys

import pytest

from benchmarks import costs
from benchmarks.costs import Reading

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_the_cpu_of_a_server_is_that_of_all_its_processes_also_of_those_that_have_ended() -> None:
    before = costs.cpu_seconds_of_all(os.getpid())
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    ended = costs.cpu_seconds_of_all(os.getpid()) - before
    assert ended >= 0.25
    with subprocess.Popen(
        [sys.executable, "-c", f"{BUSY}\nprint(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        running = costs.cpu_seconds_of_all(os.getpid()) - before - ended
    assert running >= 0.25


def test_a_process_that_is_gone_has_cost_nothing() -> None:
    assert costs.cpu_seconds_of_all(2**22 + 1) == 0


def test_who_listens_is_taken_for_a_server_only_if_it_is_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"postgresql://onbeat@127.0.0.1:{listening.getsockname()[1]}/onbeat"
        assert costs.server_pid("postgres", url) == 0
        monkeypatch.setitem(costs._PROGRAMS, "postgres", costs._program(os.getpid()))
        assert costs.server_pid("postgres", url) == os.getpid()
    assert costs.server_pid("postgres", url) == 0


def test_a_server_elsewhere_is_not_taken_for_one_that_listens_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(costs._PROGRAMS, "redis", costs._program(os.getpid()))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert costs.server_pid("redis", f"redis://redis.example.org:{port}/0") == 0
        assert costs.server_pid("redis", f"redis://localhost:{port}/0") == os.getpid()


def test_the_share_of_one_is_the_difference_by_their_number() -> None:
    before = Reading({"postgres": 1.0, "rabbitmq": 2.0}, wal_bytes=1000, transaction_ids=5)
    after = Reading({"postgres": 1.5, "rabbitmq": 2.1}, wal_bytes=41_000, transaction_ids=45)
    assert costs.per(1000, before, after) == {
        "postgres_cpu_us": 500,
        "rabbitmq_cpu_us": pytest.approx(100),
        "redis_cpu_us": None,
        "wal_bytes": 40,
        "transaction_ids": 0.04,
    }
