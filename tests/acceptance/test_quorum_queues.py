"""The platform on quorum queues: what runs, what is lost and what no worker takes is as with classic ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amqp
import kombu
import pytest
from pytest_django import Settings

from executions import queues
from tests.acceptance.crew import Crew, a_crew
from tests.acceptance.own_rabbitmq import Broker, own_rabbitmq
from tests.waiting import wait_until

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Of its own: Celery makes queues for countdowns beside quorum queues, and they are nobody else's business."""
    with own_rabbitmq() as started:
        yield started


@pytest.fixture(scope="module")
def crew(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory, CELERY_BROKER_URL=broker.url, ONBEAT_EXECUTIONS_QUEUE_TYPE="quorum") as started:
        yield started


def test_beats_and_workers_declare_them_alike_and_run_what_is_due_once(
    crew: Crew, broker: Broker, tmp_path: Path, settings: Settings
) -> None:
    with crew.working("quick"):
        ids = [crew.run("crew.work", str(tmp_path / "notes")) for _ in range(30)]
        for execution in ids:
            crew.reaches(execution, "SUCCEEDED")
    begun = [line.split()[1] for line in crew.lines(tmp_path / "notes") if line.startswith("begin")]
    assert sorted(begun) == sorted(ids)
    settings.ONBEAT_EXECUTIONS_PREFIX = f"{crew.platform.name}."
    settings.ONBEAT_EXECUTIONS_QUEUE_TYPE = "quorum"
    with kombu.Connection(broker.url) as line:
        for queue in (queues.work_queue("default"), queues.dead_letter_queue()):
            queue.bind(line.channel()).declare()
        settings.ONBEAT_EXECUTIONS_QUEUE_TYPE = "classic"
        with pytest.raises(amqp.PreconditionFailed):
            queues.work_queue("default").bind(line.channel()).declare()


def test_what_a_killed_worker_held_runs_again(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with crew.working("killed") as worker:
        execution = crew.run("crew.work", str(path), 2)
        crew.begins(path)
        worker.process.kill_all()
    with crew.working("next"):
        crew.reaches(execution, "SUCCEEDED", seconds=60)
    assert crew.attempts(execution) == [(1, "WORKER_LOST"), (2, "SUCCEEDED")]


def test_what_no_worker_can_take_is_collected(crew: Crew) -> None:
    with crew.working("puzzled"):
        crew.send("this is no task", headers={"task": "nobody.knows", "id": "1"})
        found: Any = wait_until(
            lambda: crew.ask("list(DeadMessage.objects.values_list('queue', flat=True))"), what="it is collected"
        )
    assert found == [f"{crew.platform.name}.default"]
