"""What a worker says of itself to probes: the truth of its database and its broker, and silence only if it hangs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.bootsteps import RUN, TERMINATE
from celery.concurrency.prefork import TaskPool
from celery.concurrency.solo import TaskPool as Solo
from kombu.asynchronous import Hub
from pytest_django import Settings

from launcher import probe
from workers.standing import Standing

pytestmark = pytest.mark.embedded


class Clock:
    now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now


class Consumer:
    """As much of Celery's as is looked at."""

    def __init__(self) -> None:
        self.connection: Any = SimpleNamespace(connected=True)
        self.blueprint = SimpleNamespace(state=RUN)


class Worker:
    def __init__(self, capsys: pytest.CaptureFixture[str], clock: Clock, pool: type) -> None:
        self.hub, self.consumer, self.clock = Hub(), Consumer(), clock
        self.standing = Standing(
            SimpleNamespace(hub=self.hub, consumer=self.consumer, pool_cls=pool, hostname="w@here"), running=lambda: 0
        )
        self._capsys = capsys

    def live_on(self, seconds: float, *, beats: bool = True, turns: bool = True) -> None:
        """A look every second. A turn of its loop does what it was asked to do."""
        for _ in range(int(seconds)):
            self.clock.now += 1
            if beats:
                self.standing.heard()
            if turns:
                for each in self.hub._pop_ready():
                    each()
            self.standing.say()

    def is_ready(self) -> tuple[bool, str]:
        code = probe.main(["worker"])
        return code == 0, self._capsys.readouterr().out.strip()

    def is_live(self) -> bool:
        code = probe.main(["worker", "--live"])
        self._capsys.readouterr()
        return code == 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    for module in ("workers.standing", "executions.alive", "launcher.probe"):
        monkeypatch.setattr(f"{module}.time", one)
    return one


@pytest.fixture
def worker(
    clock: Clock, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: Any, request: Any
) -> Worker:
    settings.DATA_DIR = tmp_path
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    return Worker(capsys, clock, getattr(request, "param", TaskPool))


def test_a_worker_that_beats_and_takes_messages_is_ready(worker: Worker) -> None:
    worker.live_on(200)
    assert worker.is_ready() == (True, "worker w@here is ready: it takes messages and gives signs of life")
    assert worker.is_live()


def test_one_that_cannot_reach_its_database_is_not_ready_but_live(worker: Worker) -> None:
    worker.live_on(5)
    worker.live_on(600, beats=False)
    assert worker.is_ready() == (False, "worker w@here is not ready: its signs of life do not reach the database")
    assert worker.is_live()
    worker.live_on(1)
    assert worker.is_ready()[0]


@pytest.mark.parametrize("gone", ["connection", "connected", "blueprint", "broken"])
def test_one_that_cannot_reach_its_broker_is_not_ready_but_live_however_long_that_lasts(
    worker: Worker, gone: str
) -> None:
    """It has no loop that turns meanwhile: it tries to connect."""
    worker.live_on(5)
    consumer = worker.consumer
    whole = consumer.connection
    if gone == "connection":
        consumer.connection = None
    elif gone == "connected":
        whole.connected = False
    elif gone == "blueprint":
        consumer.blueprint.state = TERMINATE
    else:
        consumer.connection = object()
    worker.live_on(600, turns=False)
    assert worker.is_ready() == (False, "worker w@here is not ready: it cannot reach the broker")
    assert worker.is_live()
    consumer.connection, whole.connected, consumer.blueprint.state = whole, True, RUN
    worker.hub.timer.clear()  # as Celery does when it begins anew
    worker.live_on(200)
    assert worker.is_ready()[0]
    assert worker.is_live()


def test_one_whose_loop_hangs_falls_silent(worker: Worker) -> None:
    worker.live_on(5)
    worker.live_on(59, turns=False)
    assert worker.is_ready()[0]
    worker.live_on(40, turns=False)
    assert not worker.is_ready()[0]
    assert worker.is_live()
    worker.live_on(60, turns=False)
    assert not worker.is_live()
    worker.live_on(2)
    assert worker.is_ready()[0]


@pytest.mark.parametrize("worker", [Solo], indirect=True)
def test_a_task_may_hold_up_the_loop_of_a_solo_pool(worker: Worker) -> None:
    worker.live_on(300, turns=False)
    assert worker.is_ready()[0]


def test_a_loop_that_hangs_is_not_asked_over_and_over(worker: Worker) -> None:
    worker.live_on(300, turns=False)
    assert len(worker.hub._ready) <= 1
