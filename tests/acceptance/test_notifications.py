"""A job fails and is well again: real beats find it, real workers tell it, real receivers hear it once each."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.acceptance.crew import Crew, a_crew
from tests.platform import Process
from tests.receiver import Receiver, Sent, answer, receiving
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full

ALLOWED = {
    "ONBEAT_CALLBACKS_NETWORKS": "127.0.0.1/32",
    "ONBEAT_CALLBACKS_PORTS": "1024-65535",
    "ONBEAT_CALLBACKS_URL": "https://onbeat.example.com",
}
ROUTING_KEY = "R0UT1NGKEYR0UT1NGKEYR0UT1NGKEY99"
SLACK = "/services/T000/B000/xyzXYZxyz"


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory, **ALLOWED) as crew:
        yield crew


class World:
    """Whom jobs call and who is told, behind one port: the work fails until it is mended."""

    def __init__(self) -> None:
        self.works = False
        self.told: list[Sent] = []

    def act(self, connection: Any, sent: Sent) -> None:
        path = sent.line.split()[1]
        if path.startswith("/work"):
            answer(200 if self.works else 404)(connection, sent)
        else:
            self.told.append(sent)
            answer(202, b"ok")(connection, sent)

    def at(self, path: str) -> list[Any]:
        return [json.loads(sent.body) for sent in self.told if sent.line.split()[1] == path]


def test_it_is_told_once_to_each_and_its_recovery_as_well(crew: Crew, tmp_path: Path) -> None:
    world = World()
    with receiving(world.act) as receiver:
        made = receivers_of(crew, receiver, tmp_path)
        second = crew.platform.beat("beat-2")
        worker = start_worker(crew)
        fail(crew, receiver, "daily")
        heard(world, 1)
        trouble = {path: world.at(path)[0] for path in ("/plain", SLACK, "/pagerduty")}
        assert trouble["/plain"]["type"] == "onbeat.dead_letter"
        assert trouble["/plain"]["data"]["link"].startswith("https://onbeat.example.com/admin/onbeat_executions/")
        assert trouble[SLACK]["text"] == "❌ daily is given up"
        assert (trouble["/pagerduty"]["event_action"], trouble["/pagerduty"]["routing_key"]) == ("trigger", ROUTING_KEY)
        for sent in world.told:
            if sent.line.split()[1] == "/plain":
                Webhook(made["key"]).verify(sent.body, sent.headers)

        crew.platform.processes[0].kill_all()  # one of the beats; the other goes on
        assert second.is_running()
        world.works = True
        crew.ask("runs.run('daily').execution_id")
        heard(world, 2)
        assert world.at("/plain")[1]["type"] == "onbeat.recovery"
        resolved = world.at("/pagerduty")[1]
        assert (resolved["event_action"], resolved["dedup_key"]) == ("resolve", trouble["/pagerduty"]["dedup_key"])

        world.works = False
        fail(crew, receiver, "nightly")
        heard(world, 3)
        assert Counter(body["type"] for body in world.at("/plain")) == {"onbeat.dead_letter": 2, "onbeat.recovery": 1}
        assert crew.platform.count("SELECT count(*) FROM onbeat_notice") == len(world.told) == 9
        for process in (*crew.platform.processes, worker):
            for secret in ("xyzXYZxyz", ROUTING_KEY, made["key"]):
                assert secret not in process.output(), process.name
        said = crew.platform.manage("notifications", "test", "slack", "--wait", "--timeout", "30s", "--json")
        assert json.loads(said)["state"] == "SUCCEEDED"
        assert world.at(SLACK)[-1]["text"] == "🔔 Test of the notifications for slack"


def receivers_of(crew: Crew, receiver: Receiver, folder: Path) -> Any:
    """One of each template; what was said of the first."""

    def create(name: str, path: str, *words: str) -> Any:
        url = folder / name
        url.write_text(receiver.url(path))
        return json.loads(
            crew.platform.manage("notifications", "create", name, "--url-from", str(url), "--json", *words)
        )

    key = folder / "key"
    key.write_text(ROUTING_KEY)
    create("slack", SLACK, "--template", "slack")
    create("duty", "/pagerduty", "--template", "pagerduty", "--routing-key-from", str(key))
    return create("plain", "/plain")


def start_worker(crew: Crew) -> Process:
    process = crew.platform.start("worker", [sys.executable, "manage.py", "worker"])
    signed_on = f"SELECT count(*) FROM onbeat_worker WHERE pid = {process.pid}"
    wait_until(lambda: crew.platform.count(signed_on), what="the worker has signed on")
    return process


def fail(crew: Crew, receiver: Receiver, key: str) -> None:
    crew.ask(f"definitions.create(key={key!r}, http=HttpTarget({receiver.url('/work')!r})).key")
    execution = crew.ask(f"runs.run({key!r}).execution_id")
    crew.reaches(execution, "DEAD")


def heard(world: World, count: int) -> None:
    """Each of the three so often."""
    paths = ("/plain", SLACK, "/pagerduty")
    wait_until(lambda: all(len(world.at(path)) >= count for path in paths), what=f"each is told {count} times")
    assert [len(world.at(path)) for path in paths] == [count] * 3
