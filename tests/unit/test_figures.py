"""Figures of the platform: one looks however many ask, nobody waits long, and no old figure stands for a new one."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, ProgrammingError
from prometheus_client.core import GaugeMetricFamily

from executions import figures
from tests.waiting import wait_until


class Database:
    """What a look at it is: at once, held up, or refused."""

    def __init__(self) -> None:
        self.looks = 0
        self.answers = threading.Event()
        self.answers.set()
        self.refuses: Exception | None = None

    def look(self) -> list[Any]:
        self.looks += 1
        seen = self.looks
        self.answers.wait(30)
        if self.refuses is not None:
            raise self.refuses
        return [figures.UP.of(1), GaugeMetricFamily("seen", "Which look it was.", value=seen)]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    one = Database()
    monkeypatch.setattr(figures, "_look", one.look)
    monkeypatch.setattr(figures, "_here", figures._Here())
    monkeypatch.setattr(figures, "_PATIENCE_SECONDS", 0.1)
    yield one
    one.answers.set()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let time pass, as far as it matters for what is fresh."""
    passed = [1000.0]
    monkeypatch.setattr("executions.figures.time.monotonic", lambda: passed[0])

    def go_on(seconds: float) -> None:
        passed[0] += seconds

    return go_on


def seen() -> dict[str, float]:
    return {sample.name: sample.value for family in figures.families() for sample in family.samples}


def test_however_many_ask_within_a_second_one_looks(database: Database, later: Callable[[float], None]) -> None:
    with ThreadPoolExecutor(20) as many:
        found = list(many.map(lambda _: seen(), range(100)))
    assert found == [{"onbeat_database_up": 1, "seen": 1}] * 100
    later(0.9)
    assert seen()["seen"] == 1
    later(0.2)
    assert seen()["seen"] == 2


def test_while_a_look_hangs_nobody_else_looks_and_nothing_old_is_shown(
    database: Database, later: Callable[[float], None]
) -> None:
    assert seen()["seen"] == 1
    database.answers.clear()
    for _ in range(5):
        later(10)
        assert seen() == {"onbeat_database_up": 0}
    assert database.looks == 2
    database.answers.set()
    wait_until(lambda: figures._here._looking.done(), what="the look that hung ends")
    later(10)
    assert seen() == {"onbeat_database_up": 1, "seen": 3}


@pytest.mark.parametrize("why", [OperationalError("away"), ProgrammingError("no such table")], ids=repr)
def test_a_database_that_refuses_is_not_up_until_it_answers(
    database: Database, later: Callable[[float], None], why: Exception
) -> None:
    database.refuses = why
    assert seen() == {"onbeat_database_up": 0}
    database.refuses = None
    later(2)
    assert seen() == {"onbeat_database_up": 1, "seen": 2}
