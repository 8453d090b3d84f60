"""Time limits as the parent of a worker enforces them: told in the call, killed in the call, and only once."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from celery import shared_task
from celery.worker import state

from tests.delivered import Delivered
from tests.making import a_job, planned
from workers import heartbeat, orders
from workers.heartbeat import HeartbeatThread
from workers.orders import Why
from workers.patience import LONG_SECONDS
from workers.request import TrackedRequest
from workers.tasks import echo

pytestmark = pytest.mark.django_db
OURS, ANOTHER, NONE = "its own call", "another call", "no call"


@shared_task(name="time_limits.limited", soft_time_limit=3, time_limit=4)
def limited() -> None: ...


@shared_task(name="time_limits.slow", soft_time_limit=5)
def slow() -> None: ...


@contextmanager
def a_child(
    request: TrackedRequest, *, seconds_ago: float = 60, call: str = OURS
) -> "Iterator[subprocess.Popen[bytes]]":
    """One that was given the request so long ago, and says which call it is in."""
    state.task_reserved(request)
    state.task_accepted(request)
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            request.worker_pid, request.accepted_at = child.pid, time.monotonic() - seconds_ago
            if call != NONE:
                name = request.name_of_call if call == OURS else orders.name_of("another", 1)
                orders._say(orders._calls, orders._CALL.pack(child.pid, name))
            yield child
        finally:
            child.kill()
            orders.leave()
            state.task_ready(request)


def a_thread() -> HeartbeatThread:
    return HeartbeatThread(SimpleNamespace(hostname="here", pool=None))


@pytest.fixture
def request_of_ours(noon: datetime) -> TrackedRequest:
    return Delivered(planned(a_job(now=noon, timeout_seconds=5, stop_grace_seconds=2), noon)).request


@pytest.mark.parametrize(
    ("fields", "task", "limits"),
    [
        ({}, echo, (3630, 3600)),
        ({"timeout_seconds": 5, "stop_grace_seconds": 2}, echo, (7, 5)),
        ({}, limited, (4, None)),  # Celery takes the task's own soft one
        ({"timeout_seconds": 5, "stop_grace_seconds": 2}, limited, (7, 5)),
    ],
)
def test_the_jobs_limits_go_before_the_tasks_and_these_before_the_default(
    noon: datetime, fields: dict[str, int], task: Any, limits: Any
) -> None:
    execution = planned(a_job(now=noon, task=task.name, **fields), noon)
    request = Delivered(execution, task=task).request
    assert (request.hard_seconds, request.time_limits[1]) == limits
    assert request.time_limits[0] > limits[0] + sum(LONG_SECONDS)


@pytest.mark.parametrize(
    ("seconds_ago", "call", "is_overdue"), [(8, OURS, True), (6, OURS, False), (8, ANOTHER, False), (8, NONE, False)]
)
def test_a_child_is_killed_at_the_hard_limit_while_it_is_in_that_very_call(
    request_of_ours: TrackedRequest, seconds_ago: float, call: str, is_overdue: bool
) -> None:
    """One whose work is done may wait for a database that is away, for as long as its patience lasts."""
    with a_child(request_of_ours, seconds_ago=seconds_ago, call=call) as child:
        a_thread()._stop_or_kill()
        assert request_of_ours.was_overdue == is_overdue
        if is_overdue:
            assert child.wait(timeout=10) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("seconds_ago", "call", "is_late"), [(6, OURS, True), (4, OURS, False), (6, ANOTHER, False), (6, NONE, False)]
)
@pytest.mark.parametrize("limits", [{"timeout_seconds": 5}, {}], ids=["the job's", "the task's"])
def test_a_child_that_missed_its_soft_limit_before_its_call_is_told_again_in_it(
    noon: datetime, limits: dict[str, int], seconds_ago: float, call: str, is_late: bool
) -> None:
    """Celery says it once, and the claim may have waited for the database at that moment."""
    request = Delivered(planned(a_job(now=noon, task=slow.name, **limits), noon), task=slow).request
    with a_child(request, seconds_ago=seconds_ago, call=call) as child:
        a_thread()._stop_or_kill()
        assert list(orders.given(child.pid, request.name_of_call)) == [Why.TIMED_OUT] * is_late
        if is_late:
            assert child.wait(timeout=10) == -signal.SIGUSR1


@pytest.mark.parametrize("deed", ["ask_to_stop", "say_late", "kill_overdue", "kill"])
def test_a_child_that_is_gone_before_celery_notices_is_left_alone(request_of_ours: TrackedRequest, deed: str) -> None:
    with a_child(request_of_ours) as child:
        child.kill()
        child.wait(timeout=10)
        getattr(request_of_ours, deed)()


@pytest.mark.parametrize(("deed", "mark"), [("kill_overdue", "was_overdue"), ("kill", "was_killed")])
def test_a_child_is_killed_once_since_its_number_may_soon_be_somebody_elses(
    request_of_ours: TrackedRequest, deed: str, mark: str
) -> None:
    with a_child(request_of_ours) as child:
        setattr(request_of_ours, mark, True)
        getattr(request_of_ours, deed)()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=0.3)


def test_an_error_does_not_end_the_thread_that_enforces_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = a_thread()
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise ZeroDivisionError
        looking._stop.set()

    monkeypatch.setattr(heartbeat, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(looking, "_stop_or_kill", look)
    looking._enforce_limits()
    assert len(looks) == 2
