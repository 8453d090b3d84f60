"""The database's clock decides, and the machine's own is only compared with it."""

from datetime import UTC, datetime, timedelta

import pytest

from executions import clock
from executions.clock import Clock
from tests.making import seconds


class Clocks:
    """The database's, the machine's and the monotonic one, each as a test sets it. Asking the database takes time."""

    def __init__(self, noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.database = self.machine = noon
        self.monotonic = 1000.0
        self.answer_takes = 0.0
        self.questions = 0
        monkeypatch.setattr(clock, "database_now", self._ask)
        monkeypatch.setattr(clock, "datetime", self)
        monkeypatch.setattr(clock.time, "monotonic", lambda: self.monotonic)

    def now(self, zone: object) -> datetime:
        assert zone is UTC
        return self.machine

    def _ask(self) -> datetime:
        """Answered at half of the way."""
        self.questions += 1
        self.pass_seconds(self.answer_takes / 2)
        answer = self.database
        self.pass_seconds(self.answer_takes / 2)
        return answer

    def pass_seconds(self, count: float) -> None:
        self.monotonic += count
        self.database += seconds(count)
        self.machine += seconds(count)


@pytest.fixture
def clocks(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(noon, monkeypatch)


def test_time_is_the_databases(clocks: Clocks, noon: datetime) -> None:
    clocks.machine += timedelta(hours=3)
    assert Clock().now() == noon


def test_between_two_looks_time_goes_on_by_itself(clocks: Clocks, noon: datetime) -> None:
    one = Clock()
    one.now()
    clocks.pass_seconds(4.5)
    assert one.now() == noon + seconds(4.5)
    assert clocks.questions == 1


def test_after_a_while_the_database_is_asked_again(clocks: Clocks, noon: datetime) -> None:
    one = Clock()
    one.now()
    clocks.pass_seconds(5.1)
    clocks.database += seconds(2)
    assert one.now() == noon + seconds(7.1)
    assert clocks.questions == 2


def test_a_machine_whose_clock_is_stepped_moves_no_fire(clocks: Clocks, noon: datetime) -> None:
    one = Clock()
    one.now()
    for step in (timedelta(hours=1), timedelta(hours=-2)):
        clocks.machine += step
        clocks.pass_seconds(1)
    assert one.now() == noon + seconds(2)


@pytest.mark.parametrize("wrong", [-3600.0, -0.25, 0.0, 31.0])
def test_how_far_the_machine_is_ahead_is_measured(clocks: Clocks, wrong: float) -> None:
    clocks.machine += seconds(wrong)
    one = Clock()
    one.now()
    assert one.offset == seconds(wrong)


def test_the_way_of_the_answer_is_not_taken_for_an_offset(clocks: Clocks) -> None:
    clocks.machine += seconds(3)
    clocks.answer_takes = 0.8
    one = Clock()
    one.now()
    assert one.offset == seconds(3)


def test_an_answer_that_took_long_says_nothing_about_the_offset(
    clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that hung for two minutes is no clock that is a minute wrong."""
    one = Clock()
    clocks.machine += seconds(3)
    one.now()
    clocks.pass_seconds(6)
    answered_at = clocks.database

    def hang() -> datetime:
        clocks.pass_seconds(120)
        return answered_at

    monkeypatch.setattr(clock, "database_now", hang)
    one.now()
    assert one.offset == seconds(3)


def test_after_an_answer_that_took_long_the_database_is_asked_again_at_once(clocks: Clocks) -> None:
    one = Clock()
    clocks.answer_takes = 120
    one.now()
    clocks.answer_takes = 0
    clocks.pass_seconds(0.001)
    assert one.now() == clocks.database
    assert clocks.questions == 2
