"""`./onbeat worker`: one Celery worker with our defaults."""

import sys

from tests.platform import Platform
from tests.tiers import once_embedded
from tests.waiting import wait_until


def test_it_takes_work_from_the_queue_of_this_installation(platform: Platform) -> None:
    platform.manage("prepare", "--demo", "always")
    platform.beat()
    worker = platform.start("worker", [sys.executable, "manage.py", "worker", "--concurrency", "1"])
    succeeded = "SELECT worker FROM onbeat_execution WHERE state = 'SUCCEEDED'"
    ((name,), *_) = wait_until(lambda: platform.rows(succeeded), what="an execution has succeeded")
    assert name.startswith(f"onbeat-{worker.pid}@")
    assert worker.terminate() == 0


def test_a_dangerous_setting_stops_it(platform: Platform) -> None:
    platform.environment["ONBEAT_WORKERS_LOST_AFTER_SECONDS"] = "0.6"
    worker = platform.start("worker", [sys.executable, "manage.py", "worker"])
    wait_until(lambda: not worker.is_running(), what="the worker refuses to start")
    assert "onbeat_workers.E001" in worker.output()


def test_its_help_says_what_it_is(platform: Platform) -> None:
    assert "Start one Celery worker for the queues of tasks and of HTTP callbacks" in platform.manage(
        "worker", "--help"
    )


@once_embedded
def test_it_may_be_for_callbacks_alone(platform: Platform) -> None:
    platform.migrate()
    platform.start("worker", [sys.executable, "manage.py", "worker", "--only", "callbacks"])
    signed_on = "SELECT pool, concurrency, queues FROM onbeat_worker"
    ((pool, concurrency, queues),) = wait_until(lambda: platform.rows(signed_on), what="it has signed on")
    assert (pool, concurrency) == ("threads", 16)
    assert f"{platform.name}.http" in queues
    assert f"{platform.name}.default" not in queues


@once_embedded
def test_what_it_is_for_must_be_one_of_two(platform: Platform) -> None:
    worker = platform.start("worker", [sys.executable, "manage.py", "worker", "--only", "mail"])
    wait_until(lambda: not worker.is_running(), what="it refuses to start")
    assert "argument --only: invalid choice: 'mail' (choose from 'tasks', 'callbacks')" in worker.output()
