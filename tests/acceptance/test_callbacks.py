"""Callbacks with a real beat, real workers for them alone, and a real receiver."""

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from chaos.proxy import Proxy
from tests.acceptance.crew import Crew, a_crew
from tests.platform import Process
from tests.receiver import Receiver, Sent, answer, receiving
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full
ALLOWED = {
    "ONBEAT_CALLBACKS_NETWORKS": "127.0.0.0/8",
    "ONBEAT_CALLBACKS_PORTS": "1024-65535",
    "ONBEAT_CALLBACKS_URL": "http://127.0.0.1:1024",
    "ONBEAT_CALLBACKS_PER_HOST": "3",
}


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory, **ALLOWED) as crew:
        yield crew


def start(crew: Crew, only: str, **environment: str) -> Process:
    """A worker as `run` and `up` start it."""
    command = [sys.executable, "manage.py", "worker", "--only", only]
    process = crew.platform.start(f"{only}-{len(crew.platform.processes)}", command, **environment)
    signed_on = f"SELECT count(*) FROM onbeat_worker WHERE pid = {process.pid}"
    wait_until(lambda: crew.platform.count(signed_on), what=f"the worker for {only} has signed on")
    return process


def call(crew: Crew, receiver: Receiver, *, times: int = 1, http: str = "", **fields: Any) -> list[str]:
    """Runs of a job that calls the receiver; their ids."""
    key = f"callback-{receiver.port}"
    target = f"HttpTarget({receiver.url()!r}{http})"
    crew.ask(f"definitions.create(key={key!r}, http={target}, **{fields!r}).key")
    return [crew.ask(f"runs.run({key!r}).execution_id") for _ in range(times)]


class Gate:
    """An act of a receiver that answers when it is opened."""

    def __init__(self, status: int = 200) -> None:
        self.opened = threading.Event()
        self._answer = answer(status)

    def __call__(self, connection: Any, sent: Sent) -> None:
        self.opened.wait(60)
        self._answer(connection, sent)


def test_slow_hosts_hold_up_no_tasks_and_get_no_more_calls_than_they_may(crew: Crew) -> None:
    gate, workers = Gate(), [start(crew, "tasks"), start(crew, "callbacks")]
    with receiving(gate) as slow, receiving() as fast:
        waiting = call(crew, slow, times=10)
        wait_until(lambda: slow.under_way == 3, what="three calls are under way")
        task = crew.ask(
            "[definitions.create(key='plain', task='onbeat.echo', kwargs={'message': 'hello'}), "
            "runs.run('plain').execution_id][1]"
        )
        crew.reaches(task, "SUCCEEDED")
        (other,) = call(crew, fast)
        crew.reaches(other, "SUCCEEDED")
        assert slow.under_way == 3
        held = "SELECT count(*) FROM onbeat_execution WHERE state = 'SCHEDULED' AND reason LIKE 'waits: 3 at once%'"
        wait_until(lambda: crew.platform.count(held) == 7, what="the others wait, and say why")
        gate.opened.set()
        for execution in waiting:
            crew.reaches(execution, "SUCCEEDED", seconds=60)
            assert crew.attempts(execution) == [(1, "SUCCEEDED")]
    assert (slow.most_at_once, len(slow.sent)) == (3, 10)
    for worker in workers:
        assert worker.terminate() == 0


def test_a_call_whose_worker_was_killed_is_sent_again_with_the_same_id_and_finds_a_place(crew: Crew) -> None:
    gate = Gate()
    with receiving(gate) as receiver:
        worker = start(crew, "callbacks")
        executions = call(crew, receiver, times=3, http=", timeout_seconds=600")
        wait_until(lambda: len(receiver.sent) == 3, what="all places are taken")
        worker.kill_all()
        gate.opened.set()
        start(crew, "callbacks")
        for execution in executions:
            crew.reaches(execution, "SUCCEEDED", seconds=90)
            assert crew.attempts(execution) == [(1, "WORKER_LOST"), (2, "SUCCEEDED")]
            sent = [sent for sent in receiver.sent if sent.headers["webhook-id"] == execution]
            assert [one.headers["onbeat-attempt"] for one in sent] == ["1", "2"]
    crew.platform.processes[-1].terminate()


def test_a_silent_receiver_of_a_202_is_timed_out_and_one_that_promised_nothing_is_not(crew: Crew) -> None:
    worker = start(crew, "callbacks")
    with receiving(answer(202)) as receiver:
        (execution,) = call(crew, receiver, http=", is_asynchronous=True", timeout_seconds=2)
        wait_until(lambda: crew.attempts(execution), what="the first attempt has ended")
        assert crew.attempts(execution) == [(1, "TIMED_OUT")]
        assert "No word came from the receiver in time" in crew.row(execution, "error")[0]
    with receiving(answer(202)) as receiver:
        (execution,) = call(crew, receiver)
        crew.reaches(execution, "SUCCEEDED")
    assert worker.terminate() == 0


@pytest.mark.full
def test_an_answer_counts_though_the_database_was_away_when_it_came(tmp_path_factory: pytest.TempPathFactory) -> None:
    gates = {200: Gate(200), 404: Gate(404)}
    with (
        a_crew(tmp_path_factory, **ALLOWED, ONBEAT_WORKERS_LOST_AFTER_SECONDS="60") as crew,
        Proxy(crew.platform.environment["DATABASE_URL"]) as line,
        receiving(gates[200]) as well,
        receiving(gates[404]) as denied,
    ):
        worker = start(crew, "callbacks", DATABASE_URL=line.url)
        (first,), (second,) = call(crew, well), call(crew, denied)
        wait_until(lambda: well.sent and denied.sent, what="the requests were sent")
        line.cut()
        for gate in gates.values():
            gate.opened.set()
        wait_until(lambda: worker.output().count("the database is away: the worker waits") >= 2, what="both ends wait")
        assert worker.output().count("nobody noted how a host did") == 2
        line.mend()
        crew.reaches(first, "SUCCEEDED", seconds=60)
        crew.reaches(second, "DEAD", seconds=60)
        assert (crew.attempts(first), crew.attempts(second)) == ([(1, "SUCCEEDED")], [(1, "FAILED")])
        assert (len(well.sent), len(denied.sent)) == (1, 1)
