"""Stopping a call from outside: in the call that is named, once for each reason, and never after its end."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from tests.waiting import wait_until
from workers import orders, stopping
from workers.orders import Why, name_of
from workers.stopping import Call, Cancelled

ID, OTHER = "a-task", "another-task"


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.getsignal(stopping.SIGNAL)
    stopping._handled_in = 0
    stopping.listen()
    yield
    signal.signal(stopping.SIGNAL, before)
    stopping._handled_in = 0


def a_call(task_id: str = ID, *, limit_seconds: float | None = None) -> Call:
    return stopping.begin(task_id, 1, limit_seconds=limit_seconds)


def signalled(task_id: str, why: Why) -> None:
    """What a worker's parent does to a child."""
    orders.give(os.getpid(), name_of(task_id, 1), why)
    os.kill(os.getpid(), stopping.SIGNAL)


@pytest.mark.parametrize(("why", "error"), [(Why.CANCELLED, Cancelled), (Why.TIMED_OUT, SoftTimeLimitExceeded)])
def test_the_call_that_is_named_is_stopped(why: Why, error: type[BaseException]) -> None:
    call = a_call(f"{ID}-{why}")
    with pytest.raises(error):
        stopping.call_step(call, lambda: signalled(f"{ID}-{why}", why))
    assert call.reasons == {why}


def test_a_call_that_is_not_named_goes_on() -> None:
    assert stopping.call_step(a_call("innocent"), lambda: signalled("somebody-else", Why.CANCELLED)) is None


def test_another_attempt_of_the_same_task_goes_on() -> None:
    call = stopping.begin("tried-again", 2, limit_seconds=None)
    assert stopping.call_step(call, lambda: signalled("tried-again", Why.CANCELLED)) is None


def test_a_signal_without_a_word_hits_nobody() -> None:
    stopping.call_step(a_call("wordless"), lambda: os.kill(os.getpid(), stopping.SIGNAL))


def test_a_word_that_comes_after_the_end_hits_nobody() -> None:
    stopping.call_step(a_call("ended"), lambda: None)
    signalled("ended", Why.CANCELLED)
    stopping.call_step(a_call("the-next"), lambda: os.kill(os.getpid(), stopping.SIGNAL))


def test_a_word_that_comes_before_the_work_waits_for_nobody() -> None:
    """Between the claim and the call nothing is raised: the row would be left in the air."""
    call = a_call("early")
    stopping._calls[call.thread] = call
    signalled("early", Why.CANCELLED)
    del stopping._calls[call.thread]
    assert call.reasons == set()


def test_a_call_that_swallows_the_first_word_hears_it_once_and_another_one_too() -> None:
    heard: list[str] = []

    def deaf() -> None:
        for why in (Why.TIMED_OUT, Why.TIMED_OUT, Why.CANCELLED, Why.CANCELLED):
            try:
                signalled("deaf", why)
            except BaseException as error:
                heard.append(type(error).__name__)

    stopping.call_step(a_call("deaf"), deaf)
    assert heard == ["SoftTimeLimitExceeded", "Cancelled"]


def test_a_sleep_is_interrupted() -> None:
    timer = threading.Timer(0.1, signalled, ("sleeper", Why.CANCELLED))
    timer.start()
    with pytest.raises(Cancelled):
        stopping.call_step(a_call("sleeper"), lambda: time.sleep(60))


def test_a_task_that_calls_another_is_known_again_after_it() -> None:
    outer = a_call("outer")

    def work() -> None:
        stopping.call_step(a_call("inner"), lambda: None)
        signalled("outer", Why.CANCELLED)

    with pytest.raises(Cancelled):
        stopping.call_step(outer, work)


class InThread:
    """A call in a thread of its own, as the threads pool has it."""

    def __init__(self, name: str, *, limit_seconds: float | None = None) -> None:
        self.name = name
        self.error: BaseException | None = None
        self.is_over = threading.Event()
        self.may_end = False
        self._thread = threading.Thread(target=self._run, args=(limit_seconds,), daemon=True)
        self._thread.start()
        wait_until(self._is_inside, what="the call has begun")

    def _is_inside(self) -> bool:
        return any(call.is_inside and call.name == name_of(self.name, 1) for call in list(stopping._calls.values()))

    def _run(self, limit_seconds: float | None) -> None:
        try:
            stopping.call_step(stopping.begin(self.name, 1, limit_seconds=limit_seconds), self._spin)
        except BaseException as error:
            self.error = error
        for _ in range(10_000):
            pass  # whatever was raised too late would show here
        self.is_over.set()

    def _spin(self) -> None:
        while not self.may_end:
            time.sleep(0.001)

    def end(self) -> BaseException | None:
        self.may_end = True
        assert self.is_over.wait(10)
        return self.error


def test_a_call_in_a_thread_is_stopped_by_name_and_its_neighbour_goes_on() -> None:
    one, neighbour = InThread("one"), InThread("neighbour")
    assert stopping.stop(name_of("one", 1), Why.CANCELLED)
    assert one.is_over.wait(10)
    assert isinstance(one.error, Cancelled)
    assert neighbour.end() is None


def test_a_call_in_a_thread_that_has_ended_is_not_stopped() -> None:
    one = InThread("soon-over")
    assert one.end() is None
    assert not stopping.stop(name_of("soon-over", 1), Why.CANCELLED)


def test_a_call_that_takes_too_long_is_stopped_where_no_pool_watches() -> None:
    slow, patient = InThread("slow", limit_seconds=0.01), InThread("patient", limit_seconds=60)
    wait_until(lambda: stopping.stop_overdue() or slow.is_over.is_set(), what="the slow one is stopped")
    assert isinstance(slow.error, SoftTimeLimitExceeded)
    assert patient.end() is None


def test_no_error_comes_late_however_close_the_word_is_to_the_end() -> None:
    for number in range(200):
        one = InThread(f"race-{number}")
        one.may_end = True
        stopping.stop(name_of(one.name, 1), Why.CANCELLED)
        assert one.is_over.wait(10), "the thread died of an error that came after its call"


def test_a_process_says_which_call_it_is_in_and_for_how_long_it_is() -> None:
    outer, inner = a_call("outer"), a_call("inner")

    def is_in(task_id: str) -> bool:
        return orders.is_inside(os.getpid(), name_of(task_id, 1))

    def within() -> list[bool]:
        before = is_in("outer")
        meanwhile = stopping.call_step(inner, lambda: is_in("inner") and not is_in("outer"))
        return [before, meanwhile, is_in("outer")]

    assert stopping.call_step(outer, within) == [True, True, True]
    assert not is_in("outer")
    with pytest.raises(ZeroDivisionError):
        stopping.call_step(outer, lambda: 1 / 0)
    assert not is_in("outer")
