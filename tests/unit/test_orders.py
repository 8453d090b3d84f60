"""What children of a worker say of themselves: which attempt they hold, for as long as they live."""

import os
import subprocess
import uuid

import pytest
from billiard import current_process

from workers import orders

PAIR = uuid.uuid4(), 3


def test_what_a_thread_of_the_worker_holds_is_told_until_it_is_done() -> None:
    with orders.holding(*PAIR):
        assert PAIR in orders.held()
    assert PAIR not in orders.held()


def test_what_a_child_holds_is_told_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_process(), "index", 5, raising=False)
    with orders.holding(*PAIR):
        assert PAIR in orders.held()
        assert set() == orders._held_here
    assert PAIR not in orders.held()


def test_what_a_child_held_that_is_dead_is_held_by_nobody() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        orders._say(orders._holds, orders._HOLD.pack(child.pid, PAIR[0].bytes, PAIR[1]))
        assert PAIR in orders.held()
        child.kill()
    assert PAIR not in orders.held()
    orders._say(orders._holds, bytes(orders._HOLD.size))


def test_children_have_places_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    others = uuid.uuid4(), 1
    monkeypatch.setattr(current_process(), "index", 1, raising=False)
    orders._say(orders._holds, orders._HOLD.pack(os.getpid(), others[0].bytes, others[1]))
    monkeypatch.setattr(current_process(), "index", 2)
    with orders.holding(*PAIR):
        assert orders.held() >= {PAIR, others}
    assert PAIR not in orders.held()
    assert others in orders.held()
    monkeypatch.setattr(current_process(), "index", 1)
    orders._say(orders._holds, bytes(orders._HOLD.size))
