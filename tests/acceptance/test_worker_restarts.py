"""Real servers that are killed and started again while real workers are at work: nothing is lost, nothing done twice.

On a set of servers of its own, since everybody else works on the shared one; that takes a minute, so only `make
test-long` does it. Otherwise cut lines stand for it (`test_worker_outages.py`).
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher import rabbitmq, services
from launcher.processes import is_alive, pid_in, run
from launcher.service_record import load, services_folder
from tests.acceptance.crew import Crew
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="starts servers of its own: see `make test-long`"),
]

POSTGRES, RABBITMQ = "postgres/data/postmaster.pid", "rabbitmq/rabbitmq.pid"


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="onbeat-test-"))
    yield folder / "var"
    services.stop(folder / "var", print)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def crew(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    addresses = services.start(data_dir, print).as_env()
    # A worker that cannot reach the database is silent, and so is the beat: nobody may be taken for dead meanwhile.
    patience = {"ONBEAT_WORKERS_LOST_AFTER_SECONDS": "20"}
    with Crew(tmp_path_factory.mktemp("crew"), is_full=True, **addresses, **patience) as started:
        yield started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@contextmanager
def stopped(data_dir: Path, pid_file: str, number: signal.Signals) -> Iterator[None]:
    """One of the servers is gone, and back afterwards."""
    pid = pid_in(services_folder(data_dir) / pid_file)
    os.kill(pid, number)
    wait_until(lambda: not is_alive(pid), what="the server is gone")
    yield
    services.start(data_dir, print)


def test_rabbitmq_is_killed_and_started_again_in_mid_run(crew: Crew, data_dir: Path, path: Path) -> None:
    with crew.working("bunny") as worker:
        running = [crew.run("crew.work", str(path), 3) for _ in range(2)]
        crew.begins(path, 2)
        queued = [crew.run("crew.work", str(path)) for _ in range(20)]
        for execution in queued:
            crew.reaches(execution, "QUEUED")
        with stopped(data_dir, RABBITMQ, signal.SIGKILL):
            asked_meanwhile = crew.run("crew.work", str(path))
        for execution in (*running, *queued, asked_meanwhile):
            crew.reaches(execution, "SUCCEEDED", seconds=90)
            assert crew.attempts(execution) == [(1, "SUCCEEDED")]
        assert worker.process.is_running()
    begun = [line.split()[1] for line in crew.lines(path) if line.startswith("begin")]
    assert sorted(begun) == sorted([*running, *queued, asked_meanwhile])


def test_a_task_may_take_longer_than_rabbitmq_waits_for_its_acknowledgement(
    crew: Crew, data_dir: Path, path: Path
) -> None:
    wait = "application:set_env(rabbit, consumer_timeout, {}), application:set_env(rabbit, channel_tick_interval, {})."
    control(data_dir, wait.format(2000, 1000))
    try:
        with crew.working("slow") as worker:
            executions = [crew.run("crew.work", str(path), 6) for _ in range(2)]
            for execution in executions:
                crew.reaches(execution, "SUCCEEDED")
                assert crew.attempts(execution) == [(1, "SUCCEEDED")]
            assert "delivery acknowledgement on channel" in worker.process.output()
            crew.reaches(crew.run("onbeat.echo"), "SUCCEEDED")
            assert worker.process.is_running()
    finally:
        control(data_dir, wait.format(1_800_000, 60_000))
    assert len(crew.lines(path)) == 4


def control(data_dir: Path, expression: str) -> None:
    """Let the server evaluate it."""
    record, home = load(data_dir), services_folder(data_dir) / "rabbitmq"
    assert record is not None
    command = [str(rabbitmq._programs() / "rabbitmqctl"), "-n", record.node, "eval", expression]
    done = run(command, env=rabbitmq._environment(home, record))
    assert done.returncode == 0, done.stdout


def test_postgresql_is_stopped_at_claims_and_at_finishes(crew: Crew, data_dir: Path, path: Path) -> None:
    with crew.working("elephant", "-c", "4") as worker:
        running = [crew.run("crew.work", str(path), 2) for _ in range(2)]
        crew.begins(path, 2)
        claimed = [crew.run("crew.work", str(path)) for _ in range(20)]
        with stopped(data_dir, POSTGRES, signal.SIGQUIT):
            away = "the database is away: the worker waits"
            wait_until(lambda: worker.process.output().count(away) >= 2, what="its children wait for the database")
        for execution in (*running, *claimed):
            crew.reaches(execution, "SUCCEEDED", seconds=90)
            assert crew.attempts(execution) == [(1, "SUCCEEDED")]
    begun = [line.split()[1] for line in crew.lines(path) if line.startswith("begin")]
    assert sorted(begun) == sorted([*running, *claimed])
