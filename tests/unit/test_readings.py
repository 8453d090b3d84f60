"""What may hang is read in the background: nobody waits long, and one look at a time is enough for all."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from console import readings
from console.readings import Reading

LONG = 30.0  # seconds in which everything must have happened; none is waited for


class Broker:
    """Looked at; answers when it is let, or says what is wrong with it."""

    def __init__(self) -> None:
        self.looks = 0
        self.begun, self.may_answer = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def look(self) -> int:
        self.looks += 1
        number = self.looks
        self.begun.set()
        assert self.may_answer.wait(LONG)
        if self.error is not None:
            raise self.error
        return number


@pytest.fixture
def broker() -> Iterator[Broker]:
    one = Broker()
    yield one
    one.may_answer.set()
    over()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set by hand: seconds are added to it."""
    now = [1000.0]
    monkeypatch.setattr(readings.time, "monotonic", lambda: now[0])

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


def over() -> None:
    """Every look has ended."""
    for thread in threading.enumerate():
        if thread.name == "reading":
            thread.join(LONG)
            assert not thread.is_alive()


def reading(broker: Broker, *, patience: float = 0.0, fresh: float = 3.0) -> Reading[int]:
    return Reading(broker.look, fresh_seconds=fresh, patience_seconds=patience)


def test_who_asks_a_broker_that_hangs_has_no_answer_and_does_not_wait(broker: Broker) -> None:
    assert reading(broker).latest() is None
    assert broker.begun.wait(LONG)


def test_nobody_waits_longer_than_the_patience(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []

    class Told(threading.Event):
        """Does not wait, and tells for how long it was asked to."""

        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return self.is_set()

    slow = reading(broker, patience=0.15)
    with monkeypatch.context() as patched:
        patched.setattr(readings, "threading", SimpleNamespace(Event=Told, Thread=threading.Thread))
        assert [slow.latest(), slow.latest()] == [None, None]
    assert waits == [0.15, 0.15]


def test_an_answer_that_comes_in_time_is_waited_for(broker: Broker, clock: Callable[[float], None]) -> None:
    broker.may_answer.set()
    answer = reading(broker, patience=LONG).latest()
    assert answer is not None
    assert (answer.value, answer.age_seconds) == (1, 0.0)


def test_one_look_is_under_way_however_many_ask(broker: Broker) -> None:
    slow = reading(broker)
    assert [slow.latest() for _ in range(20)] == [None] * 20
    assert broker.begun.wait(LONG)
    assert [slow.latest() for _ in range(20)] == [None] * 20
    assert broker.looks == 1


def test_many_who_wait_share_the_answer_of_one_look(broker: Broker) -> None:
    shared = reading(broker, patience=LONG)
    answers: list[int] = []

    def ask() -> None:
        answer = shared.latest()
        assert answer is not None
        answers.append(answer.value)

    people = [threading.Thread(target=ask) for _ in range(10)]
    for person in people:
        person.start()
    assert broker.begun.wait(LONG)
    broker.may_answer.set()
    for person in people:
        person.join(LONG)
    assert answers == [1] * 10


def test_what_is_fresh_is_not_looked_at_again(broker: Broker, clock: Callable[[float], None]) -> None:
    broker.may_answer.set()
    one = reading(broker, patience=LONG)
    one.latest()
    clock(2.9)
    answer = one.latest()
    assert answer is not None
    assert (answer.value, round(answer.age_seconds, 1), broker.looks) == (1, 2.9, 1)
    over()
    clock(0.2)
    again = one.latest()
    assert again is not None
    assert (again.value, again.age_seconds) == (2, 0.0)


def test_while_it_hangs_the_last_answer_is_told_with_its_age(broker: Broker, clock: Callable[[float], None]) -> None:
    broker.may_answer.set()
    one = reading(broker)
    one.latest()
    over()
    broker.may_answer.clear()
    clock(60.0)
    answer = one.latest()
    assert answer is not None
    assert (answer.value, answer.age_seconds) == (1, 60.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_look_that_fails_leaves_what_was_seen_and_the_next_one_may_succeed(
    broker: Broker, clock: Callable[[float], None]
) -> None:
    broker.may_answer.set()
    one = reading(broker, patience=LONG)
    broker.error = ConnectionError("away")
    assert one.latest() is None
    over()
    broker.error = None
    answer = one.latest()
    assert answer is not None
    assert answer.value == 2
