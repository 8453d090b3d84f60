"""How `./onbeat chaos` counts what was published: each message once, also if the broker hands it out again."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from chaos import tap
from chaos.tap import Tap

FIRST, SECOND = ("execution-1", 1), ("execution-1", 2)


class Broker:
    """Its connections, one after the other: what each hands out before it is lost, and what is left at the end."""

    def __init__(self, *connections: Sequence[Any], rest: Sequence[Any] = ()) -> None:
        self.connections = list(connections)
        self.rest = rest
        self.acknowledged = 0
        self.is_lost = False

    def basic_ack(self, _tag: int) -> None:
        if self.is_lost:
            raise ConnectionResetError
        self.acknowledged += 1


def message(name: tuple[str, int], *, again: bool = False, loses_line: bool = False) -> Any:
    return SimpleNamespace(
        headers={"onbeat_execution": name[0], "onbeat_attempt": name[1]},
        delivery_info={"redelivered": again},
        delivery_tag=1,
        loses_line=loses_line,  # before it is acknowledged
    )


class Connected(Tap):
    """To a broker of the test."""

    def __init__(self, broker: Broker) -> None:
        super().__init__("amqp://nowhere")
        self._broker = broker

    def _listen(self) -> None:
        if not self._broker.connections:
            self._stop.set()
            return
        for each in self._broker.connections.pop(0):
            self._broker.is_lost = each.loses_line
            self._note(self._broker, each)
        raise ConnectionResetError

    def _read_the_rest(self) -> None:
        for each in self._broker.rest:
            if isinstance(each, Exception):
                raise each
            self._note(self._broker, each)


def read(broker: Broker) -> Tap:
    connected = Connected(broker)
    connected._thread.start()
    connected._thread.join(timeout=30)
    assert not connected._thread.is_alive()
    return connected


def test_each_message_of_an_attempt_is_counted() -> None:
    broker = Broker([message(FIRST), message(SECOND)], [message(FIRST)], rest=[message(FIRST)])
    connected = read(broker)
    assert connected.copies == {FIRST: 3, SECOND: 1}
    assert connected.arrived_at.keys() == {FIRST, SECOND}
    assert broker.acknowledged == 4
    assert connected.error == ""


def test_a_message_that_was_counted_and_not_acknowledged_is_not_counted_when_it_comes_again() -> None:
    broker = Broker([message(FIRST, loses_line=True)], [message(FIRST, again=True)])
    assert read(broker).copies == {FIRST: 1}
    assert broker.acknowledged == 1


def test_an_acknowledgement_may_be_lost_on_its_way() -> None:
    """Nobody hears of that: for the one who sends it all is well."""
    broker = Broker([message(FIRST), message(SECOND)], [message(FIRST, again=True), message(SECOND, again=True)])
    assert read(broker).copies == {FIRST: 1, SECOND: 1}


def test_a_message_may_come_again_more_than_once() -> None:
    again = [message(FIRST, again=True)]
    assert read(Broker([message(FIRST)], again, again, rest=again)).copies == {FIRST: 1}


def test_a_message_that_comes_again_and_was_never_counted_is_counted() -> None:
    """It was handed out, and the line was lost before anybody looked at it."""
    assert read(Broker([], [message(FIRST, again=True)])).copies == {FIRST: 1}


def test_of_two_that_come_again_the_one_that_was_not_counted_is_counted() -> None:
    broker = Broker([message(FIRST)], [message(FIRST, again=True), message(FIRST, again=True)])
    assert read(broker).copies == {FIRST: 2}


def test_a_second_one_that_comes_again_long_after_the_first_was_acknowledged_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tap, "_UNSURE_SECONDS", 0.0)  # all but the last was longer ago
    assert read(Broker([message(FIRST), message(SECOND)], [message(FIRST, again=True)])).copies[FIRST] == 2


def test_a_second_one_that_comes_for_the_first_time_is_counted_whatever_is_in_doubt() -> None:
    broker = Broker([message(FIRST)], [message(FIRST), message(FIRST, again=True)])
    assert read(broker).copies == {FIRST: 2}


def test_what_could_not_be_read_at_the_end_is_told() -> None:
    connected = read(Broker([message(FIRST)], rest=[message(FIRST), ConnectionRefusedError("nobody there")]))
    assert connected.error.rstrip().endswith("ConnectionRefusedError: nobody there")


def test_a_message_that_is_not_the_platforms_is_told_and_ends_the_count() -> None:
    stranger = message(FIRST)
    del stranger.headers["onbeat_attempt"]
    assert "KeyError: 'onbeat_attempt'" in read(Broker([stranger])).error
