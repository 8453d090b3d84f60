"""What Flower hears of real workers: all that happens to a task, several events in one message."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.crew import Crew, a_crew
from tests.listening import listening
from tests.waiting import wait_until

pytestmark = pytest.mark.full

ONCE_EACH = Counter({"task-received": 1, "task-started": 1, "task-succeeded": 1})


@pytest.fixture
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory) as started:
        yield started


@contextmanager
def hearing() -> Iterator[list[list[dict[str, Any]]]]:
    """What is said to Flower while this lasts: messages, each of several events."""
    heard: list[list[dict[str, Any]]] = []

    def note(text: str, _message: Any) -> None:
        body = json.loads(text)
        heard.append(body if isinstance(body, list) else [body])

    with listening(("celeryev", "topic", "task.#"), note=note):
        yield heard


def said_of(heard: list[list[dict[str, Any]]], execution: str) -> Counter[str]:
    return Counter(event["type"] for message in list(heard) for event in message if event.get("uuid") == execution)


def test_each_event_of_each_task_is_heard_once_and_many_in_one_message(crew: Crew) -> None:
    with crew.working("heard", "-E"), hearing() as heard:
        executions = [crew.run("onbeat.echo") for _ in range(20)]
        for execution in executions:
            wait_until(lambda: said_of(heard, execution) == ONCE_EACH, what=f"all is heard of {execution}")  # noqa: B023
        ours = [message for message in heard if any(event.get("uuid") in executions for event in message)]
    assert len(ours) < 2 * len(executions)


def test_how_the_last_tasks_of_a_worker_ended_is_heard_though_it_stops(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with crew.working("leaves", "-E") as worker, hearing() as heard:
        executions = [crew.run("crew.work", str(path), 2) for _ in range(2)]
        crew.begins(path, 2)
        worker.process.signal(signal.SIGTERM)
        wait_until(lambda: not worker.process.is_running(), what="the worker has ended")
        for execution in executions:
            assert crew.state(execution) == "SUCCEEDED"
            wait_until(lambda: said_of(heard, execution) == ONCE_EACH, what=f"all is heard of {execution}")  # noqa: B023
