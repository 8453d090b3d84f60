"""The folder broker when real processes, and a real Celery worker, are killed with -9."""

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu import Connection, Exchange, Queue

from executions import folder_broker
from tests.waiting import wait_until

pytestmark = pytest.mark.embedded
folder_broker.register()
REPOSITORY = Path(folder_broker.__file__).parents[1]
spawn = multiprocessing.get_context("spawn")
work = Queue("onbeat.work", Exchange("onbeat", "direct"), "work")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "broker"


@pytest.fixture
def url(root: Path) -> str:
    return f"folder://{root}"


def publish_for_ever(url: str, confirmed: Any) -> None:
    with Connection(url) as connection:
        producer = connection.Producer()
        for n in range(1_000_000):
            body = [os.getpid(), n, "x" * 100_000]
            producer.publish(body, exchange="onbeat", routing_key="work", declare=[work])
            confirmed.send(body[:2])


def hold(url: str, holding: Any) -> None:
    with Connection(url) as connection:
        bound = work(connection.default_channel)
        bound.declare()
        held = [bound.get() for _ in range(20)]
        holding.send([message.payload for message in held])
        signal.pause()


def collect(url: str, start: Any, left: Any, collected: Any) -> None:
    """Take over what the dead one held, until both collectors together have it all."""
    bodies: list[Any] = []

    def on_message(message: Any) -> None:
        with left.get_lock():
            left.value -= 1
        bodies.append([message.payload, message.delivery_info["redelivered"]])
        message.ack()

    with Connection(url) as connection, connection.Consumer([work], on_message=on_message):
        start.wait()
        while left.value > 0:
            try:
                connection.drain_events(timeout=0.2)
            except TimeoutError:
                continue
    collected.put(bodies)


def test_what_a_killed_consumer_held_reaches_the_living_ones_once_each(url: str, root: Path) -> None:
    with Connection(url) as connection:
        for n in range(20):
            connection.Producer().publish(n, exchange="onbeat", routing_key="work", declare=[work])
    mine, theirs = spawn.Pipe()
    holder = spawn.Process(target=hold, args=(url, theirs))
    start, left, collected = spawn.Barrier(3), spawn.Value("i", 20), spawn.Queue()
    collectors = [spawn.Process(target=collect, args=(url, start, left, collected)) for _ in range(2)]
    for process in [holder, *collectors]:
        process.start()
    try:
        assert mine.poll(20)
        assert mine.recv() == list(range(20))
        start.wait(20)  # both are already polling when the holder dies, so both try to restore
        holder.kill()
        bodies = [body for _ in collectors for body in collected.get(timeout=20)]
    finally:
        for process in [holder, *collectors]:
            process.kill()
            process.join()
    assert sorted(bodies) == [[n, True] for n in range(20)]
    assert list((root / "unacked").iterdir()) == []


def test_a_killed_publisher_leaves_all_that_was_confirmed_and_nothing_half_written(url: str, root: Path) -> None:
    confirmed: list[list[int]] = []
    for _ in range(4):
        mine, theirs = spawn.Pipe()
        publisher = spawn.Process(target=publish_for_ever, args=(url, theirs))
        publisher.start()
        theirs.close()
        try:
            assert mine.poll(20)
            confirmed += [mine.recv() for _ in range(20)]
        finally:
            publisher.kill()
            publisher.join()
        with suppress(EOFError):
            while mine.poll():
                confirmed.append(mine.recv())
    ready = list((root / "queues/onbeat.work/ready").iterdir())
    assert all(json.loads(path.read_bytes())["properties"] for path in ready)
    received = []
    with Connection(url) as connection:
        while message := connection.default_channel.basic_get("onbeat.work"):
            assert message.payload[2] == "x" * 100_000
            received.append(message.payload[:2])
            message.ack()
    assert [body for body in confirmed if body not in received] == []
    assert len(received) <= len(confirmed) + 4  # each may have died between its rename and its confirmation
    assert list((root / "undecodable").iterdir()) == []


def publish_more_than_may_be_written(url: str) -> None:
    with Connection(url) as connection:
        connection.Producer().publish("whole", exchange="onbeat", routing_key="work", declare=[work])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the kernel writes 50,000 bytes, then ends the process
        connection.Producer().publish("x" * 100_000, exchange="onbeat", routing_key="work")


def test_a_publisher_that_dies_in_the_middle_of_a_write_leaves_no_part_of_it_to_be_read(url: str, root: Path) -> None:
    publisher = spawn.Process(target=publish_more_than_may_be_written, args=(url,))
    publisher.start()
    publisher.join(20)
    assert publisher.exitcode == -signal.SIGXFSZ
    assert [path.stat().st_size for path in (root / "tmp").iterdir()] == [50_000]
    with Connection(url) as connection:
        assert connection.default_channel.queue_declare("onbeat.work", passive=True).message_count == 1
        assert connection.default_channel.basic_get("onbeat.work").payload == "whole"
        assert connection.default_channel.basic_get("onbeat.work") is None
    assert list((root / "undecodable").iterdir()) == []


APP = """
    import os, pathlib, sys, time
    sys.path.insert(0, {repository!r})
    from celery import Celery
    from executions.folder_broker import register

    register()
    app = Celery("embedded", broker={url!r})
    app.conf.update(
        task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1, task_ignore_result=True,
        worker_enable_remote_control=False, broker_connection_retry_on_startup=True,
    )
    folder = pathlib.Path({folder!r})

    @app.task(bind=True)
    def work(self, n):
        again = self.request.delivery_info["redelivered"]
        (folder / f"started-{{n}}-{{os.getpid()}}-{{again}}").touch()
        deadline = time.monotonic() + 30
        while not (folder / "gate").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        (folder / f"done-{{n}}-{{again}}").touch()
"""


@pytest.fixture
def start_worker(tmp_path: Path, url: str) -> Iterator[Callable[[], "subprocess.Popen[str]"]]:
    script = APP.format(repository=str(REPOSITORY), url=url, folder=str(tmp_path))
    (tmp_path / "embedded_app.py").write_text(textwrap.dedent(script))
    workers: list[subprocess.Popen[str]] = []

    def start() -> "subprocess.Popen[str]":
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "embedded_app",
            "worker",
            "-c",
            "2",
            "--pool=prefork",
            "-l",
            "info",
        ]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        log = (tmp_path / f"worker-{len(workers)}.log").open("w")
        environment = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
        workers.append(
            subprocess.Popen(
                [*command, *quiet],
                cwd=tmp_path,
                env=environment,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        )
        log.close()
        return workers[-1]

    yield start
    for worker in workers:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)  # its own session: the worker and its children
        worker.wait()


def test_a_celery_worker_killed_with_its_children_loses_no_task(
    tmp_path: Path, root: Path, url: str, start_worker: Callable[[], "subprocess.Popen[str]"]
) -> None:
    app = Celery("embedded", broker=url, set_as_current=False)
    with app.connection_for_write() as connection:
        for n in range(6):
            app.send_task("embedded_app.work", [n], connection=connection)
    first = start_worker()
    wait_until(lambda: len(list(tmp_path.glob("started-*"))) == 2, what="two tasks have started")
    assert len(list((root / "queues/celery/ready").iterdir())) == 4  # prefetch 1 for each of two processes
    children = [int(path.name.split("-")[2]) for path in tmp_path.glob("started-*")]
    for pid in [first.pid, *children]:
        os.kill(pid, signal.SIGKILL)
    first.wait()

    (tmp_path / "gate").touch()
    second = start_worker()
    wait_until(lambda: len(list(tmp_path.glob("done-*"))) == 6, what="all six tasks are done")
    assert sorted(path.name for path in tmp_path.glob("done-*")) == [f"done-{n}-{n < 2}" for n in range(6)]
    wait_until(lambda: not list(root.rglob("*.json")), what="no message is left")

    second.send_signal(signal.SIGTERM)
    assert second.wait(20) == 0
    assert list((root / "unacked").glob("*/")) == []
    assert "estoring" not in (tmp_path / "worker-1.log").read_text()


def test_a_celery_worker_shut_down_in_haste_gives_its_messages_back_at_once(
    tmp_path: Path, root: Path, url: str, start_worker: Callable[[], "subprocess.Popen[str]"]
) -> None:
    app = Celery("embedded", broker=url, set_as_current=False)
    with app.connection_for_write() as connection:
        app.send_task("embedded_app.work", [0], connection=connection)
    worker = start_worker()
    wait_until(lambda: list(tmp_path.glob("started-*")), what="a task has started")
    worker.send_signal(signal.SIGQUIT)
    worker.wait(20)
    assert [path.name.endswith(folder_broker.AGAIN) for path in (root / "queues/celery/ready").iterdir()] == [True]
    assert list((root / "unacked").glob("*/")) == []
