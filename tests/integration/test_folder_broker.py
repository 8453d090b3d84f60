"""The folder broker with kombu, in this process and between processes that live."""

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from celery import Celery
from kombu import Connection, Exchange, Queue
from kombu.exceptions import ChannelError, OperationalError

from executions import folder_broker
from tests.waiting import wait_until

pytestmark = pytest.mark.embedded
folder_broker.register()
spawn = multiprocessing.get_context("spawn")
onbeat = Exchange("onbeat", "direct")
work = Queue("onbeat.work", onbeat, "work")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return "folder://" + quote(f"{tmp_path}/broker")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "broker"


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with Connection(url) as connection:
        work(connection.default_channel).declare()
        yield connection


def publish(connection: Connection, body: Any, *, priority: int = 0, key: str = "work") -> None:
    connection.Producer().publish(body, exchange="onbeat", routing_key=key, priority=priority)


def take(connection: Connection, queue: str = "onbeat.work") -> Any:
    return connection.default_channel.basic_get(queue)


def take_all(connection: Connection, queue: str = "onbeat.work") -> list[Any]:
    bodies = []
    while message := take(connection, queue):
        bodies.append(message.payload)
        message.ack()
    return bodies


def files(root: Path, part: str = "*") -> list[Path]:
    return [path for path in root.glob(f"{part}/**/*.json") if path.is_file()]


def test_a_message_stays_on_disk_until_it_is_acked(connection: Connection, root: Path) -> None:
    publish(connection, "hello")
    assert len(files(root, "queues")) == 1
    message = take(connection)
    assert message.payload == "hello"
    assert not message.delivery_info["redelivered"]
    assert len(files(root, "unacked")) == len(files(root)) == 1
    message.ack()
    assert files(root) == []


def test_higher_priority_comes_first_and_equal_priority_in_order(connection: Connection) -> None:
    sent = [(n % 10, n) for n in range(60)]
    for priority, n in sent:
        publish(connection, [priority, n], priority=priority)
    assert [tuple(body) for body in take_all(connection)] == sorted(sent, key=lambda body: (-body[0], body[1]))


def test_a_late_message_of_higher_priority_overtakes_those_that_were_listed(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 1000, time_ns=time.time_ns)  # each look takes a millisecond
    monkeypatch.setattr(folder_broker, "time", clock)
    for n in range(60):
        publish(connection, n)
    take(connection).ack()
    publish(connection, "urgent", priority=9)
    assert take_all(connection).index("urgent") <= 10  # a listing is good for ten times as long as it took


def test_a_long_queue_is_not_listed_for_every_message(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    listings = []
    names_in = folder_broker._names_in
    monkeypatch.setattr(folder_broker, "_names_in", lambda folder: listings.append(folder) or names_in(folder))
    with monkeypatch.context() as quick:
        quick.setattr(os, "fsync", lambda descriptor: None)
        for n in range(3000):
            publish(connection, n)
    assert take_all(connection) == list(range(3000))
    assert len([folder for folder in listings if folder.name == "ready"]) < 1000


def test_a_requeued_message_keeps_its_place_and_says_that_it_is_redelivered(connection: Connection) -> None:
    for body in "abc":
        publish(connection, body)
    for _ in range(2):
        first = take(connection)
        assert first.payload == "a"
        first.requeue()
    again = take(connection)
    assert (again.payload, again.delivery_info["redelivered"]) == ("a", True)
    again.ack()
    assert take_all(connection) == ["b", "c"]


def test_closing_gives_unacked_messages_back_in_order_and_leaves_nothing(
    connection: Connection, url: str, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for n in range(5):
        publish(connection, n)
    with Connection(url) as leaving:
        assert [take(leaving).payload for _ in range(3)] == [0, 1, 2]
    assert list((root / "unacked").iterdir()) == []
    assert take_all(connection) == [0, 1, 2, 3, 4]
    assert caplog.records == []


def test_recover_puts_unacked_messages_back(connection: Connection) -> None:
    publish(connection, "a")
    take(connection)
    connection.default_channel.basic_recover(requeue=True)
    assert take(connection).delivery_info["redelivered"]


@pytest.mark.parametrize(("arguments", "dead_key"), [({"x-dead-letter-routing-key": "dead"}, "dead"), ({}, "risky")])
def test_a_rejected_message_goes_to_the_dead_letter_queue(
    connection: Connection, url: str, arguments: dict[str, str], dead_key: str
) -> None:
    with Connection(url) as other:  # whoever declared the dead-letter queue need not be the consumer
        Queue("onbeat.dead", Exchange("onbeat.dlx", "direct"), dead_key)(other.default_channel).declare()
    arguments = {"x-dead-letter-exchange": "onbeat.dlx", **arguments}
    Queue("onbeat.risky", onbeat, "risky", queue_arguments=arguments)(connection.default_channel).declare()
    publish(connection, "poison", key="risky", priority=4)
    take(connection, "onbeat.risky").reject()
    assert take(connection, "onbeat.risky") is None
    dead = take(connection, "onbeat.dead")
    assert (dead.payload, dead.properties["priority"]) == ("poison", 4)
    assert (dead.delivery_info["exchange"], dead.delivery_info["routing_key"]) == ("onbeat.dlx", dead_key)
    assert (dead.headers["x-death"][0]["queue"], dead.headers["x-death"][0]["reason"]) == ("onbeat.risky", "rejected")


@pytest.mark.parametrize(("exchange", "queue"), [("", "onbeat.dead"), ("nowhere", "nowhere")])
def test_a_dead_letter_is_kept_even_if_no_queue_is_bound(connection: Connection, exchange: str, queue: str) -> None:
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "onbeat.dead"}
    Queue("onbeat.risky", onbeat, "risky", queue_arguments=arguments)(connection.default_channel).declare()
    publish(connection, "poison", key="risky")
    take(connection, "onbeat.risky").reject()
    assert take(connection, queue).payload == "poison"


def test_a_rejected_message_is_deleted_if_the_queue_has_no_dead_letter_exchange(
    connection: Connection, root: Path
) -> None:
    publish(connection, "poison")
    take(connection).reject()
    assert files(root) == []


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "not json",
        "[1]",
        '{"body": "x"}',
        '{"body": "abc", "properties": {"body_encoding": "base64", "delivery_info": {}}}',
    ],
)
def test_junk_is_set_aside_once_and_the_queue_goes_on(
    connection: Connection, root: Path, caplog: pytest.LogCaptureFixture, junk: str
) -> None:
    (root / "queues/onbeat.work/ready/0-junk").write_text(junk)
    (root / "queues/onbeat.work/ready/0-folder").mkdir()
    publish(connection, "sound")
    assert take_all(connection) == ["sound"]
    assert take_all(connection) == []
    assert {path.name[9:] for path in (root / "undecodable").iterdir()} == {"0-junk", "0-folder"}
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_the_prefetch_limit_holds_and_an_ack_from_another_thread_ends_the_wait_at_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Connection(url, transport_options={"polling_interval": 60}) as connection:
        received: list[Any] = []
        consumer = connection.Consumer([work], on_message=received.append)
        consumer.qos(prefetch_count=1)
        for n in range(2):
            publish(connection, n)
        with consumer:
            connection.drain_events(timeout=5)
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.01)
            wait = connection.transport.acked.wait

            def ack_while_waiting(seconds: float) -> bool:
                threading.Thread(target=received[0].ack).start()
                return wait(seconds)

            monkeypatch.setattr(connection.transport.acked, "wait", ack_while_waiting)
            connection.drain_events(timeout=5)
        assert [message.payload for message in received] == [0, 1]


@pytest.mark.parametrize("name", ["..", ".", "../../up", "a/b c", "ünï%2F", "x" * 100])
def test_any_queue_name_stays_below_the_root(connection: Connection, root: Path, name: str) -> None:
    Queue(name, onbeat, name)(connection.default_channel).declare()
    publish(connection, "here", key=name)
    assert len(list((root / "queues").iterdir())) == 2
    assert {path.name for path in root.parent.iterdir()} == {"broker"}
    message = take(connection, name)
    message.requeue()
    assert take_all(connection, name) == ["here"]


def test_size_purge_passive_declare_and_delete(connection: Connection, root: Path) -> None:
    channel = connection.default_channel
    for n in range(3):
        publish(connection, n)
    assert channel.queue_declare(work.name, passive=True).message_count == 3
    assert channel.queue_purge(work.name) == 3
    assert (files(root), channel.queue_declare(work.name).message_count) == ([], 0)
    publish(connection, "kept")
    channel.queue_delete(work.name, if_empty=True)
    assert channel.queue_declare(work.name, passive=True).message_count == 1
    channel.queue_delete(work.name)
    with pytest.raises(ChannelError, match="no queue"):
        channel.queue_declare(work.name, passive=True)
    publish(connection, "unroutable")
    assert files(root) == []


def test_what_one_connection_has_bound_holds_for_all(connection: Connection, url: str) -> None:
    with Connection(url) as stranger:
        publish(stranger, "hello")
    assert take_all(connection) == ["hello"]


def test_a_message_for_two_queues_is_acked_in_each(connection: Connection, root: Path) -> None:
    Queue("onbeat.copy", onbeat, "work")(connection.default_channel).declare()
    publish(connection, "hello")
    one, two = take(connection), take(connection, "onbeat.copy")
    one.ack()
    assert len(files(root, "unacked")) == 1
    two.ack()
    assert files(root) == []


def test_a_publish_that_cannot_reach_the_disk_fails_and_leaves_nothing(
    connection: Connection, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OperationalError, match="No space"):
        connection.Producer().publish(
            "lost?",
            routing_key="work",
            exchange="onbeat",
            retry=True,
            retry_policy={"max_retries": 1, "interval_start": 0},
        )
    assert files(root) == []


def test_urls(url: str, root: Path, tmp_path: Path) -> None:
    spaced = f"folder://{quote(str(tmp_path))}/with%20space"
    with Celery(broker=spaced, set_as_current=False).connection() as connection:
        assert connection.transport.root == connection.clone().transport.root == tmp_path / "with space"
        assert (connection.transport.driver_type, connection.supports_exchange_type("fanout")) == ("folder", False)
    for wrong in ("folder://", "folder:///", "folder://relative/path"):
        with pytest.raises(ValueError, match="folder:///absolute/path"):
            Connection(wrong).connect()


def look_for_a_message(url: str, found: Any) -> None:
    with Connection(url) as connection:
        found.put(take(connection) is not None)


def assert_another_process_finds_nothing(url: str) -> None:
    found = spawn.Queue()
    looking = spawn.Process(target=look_for_a_message, args=(url, found))
    looking.start()
    assert found.get(timeout=15) is False
    looking.join()


def test_a_consumer_keeps_its_messages_from_its_own_and_other_processes(connection: Connection, url: str) -> None:
    publish(connection, "mine")
    message = take(connection)
    with Connection(url) as sibling:
        assert take(sibling) is None
    assert_another_process_finds_nothing(url)
    message.ack()


@pytest.mark.parametrize("child_consumes", [False, True])
def test_a_forked_child_leaves_its_parents_messages_alone(
    connection: Connection, url: str, root: Path, child_consumes: bool
) -> None:
    publish(connection, "the parent's")
    publish(connection, "anyone's")
    held = take(connection)
    child = os.fork()
    if child == 0:
        try:
            if child_consumes:
                take(connection)
            connection.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert len(files(root, "unacked")) == len(files(root, "queues")) == 1
    anyones = take(connection)
    assert (anyones.payload, anyones.delivery_info["redelivered"]) == ("anyone's", child_consumes)
    assert_another_process_finds_nothing(url)
    held.ack()
    anyones.ack()
    assert files(root) == []


def publish_numbers(url: str, numbers: range) -> None:
    os.fsync = lambda descriptor: None  # only a power cut could tell the difference, and the four race harder
    with Connection(url) as connection:
        producer = connection.Producer()
        for n in numbers:
            producer.publish(n, exchange="onbeat", routing_key="work", priority=n % 10, declare=[work])


def consume_numbers(url: str, stop: Any, received: Any) -> None:
    numbers: list[int] = []

    def on_message(message: Any) -> None:
        numbers.append(message.payload)
        message.ack()

    with Connection(url) as connection, connection.Consumer([work], on_message=on_message, prefetch_count=10):
        while not stop.is_set():
            try:
                connection.drain_events(timeout=0.2)
            except TimeoutError:
                continue
    received.put(numbers)


def test_ten_thousand_messages_between_four_processes_arrive_once_each(
    connection: Connection, url: str, root: Path
) -> None:
    stop, received = spawn.Event(), spawn.Queue()
    consumers = [spawn.Process(target=consume_numbers, args=(url, stop, received)) for _ in range(2)]
    halves = range(5000), range(5000, 10_000)
    publishers = [spawn.Process(target=publish_numbers, args=(url, half)) for half in halves]
    for process in [*consumers, *publishers]:
        process.start()
    try:
        for publisher in publishers:
            publisher.join(40)
            assert publisher.exitcode == 0
        wait_until(lambda: not files(root), what="every message was taken and acknowledged")
        stop.set()
        shares = [received.get(timeout=15) for _ in consumers]
    finally:
        for process in [*consumers, *publishers]:
            process.kill()
            process.join()
    assert sorted(n for share in shares for n in share) == list(range(10_000))
    assert all(shares), "one consumer did it all"
