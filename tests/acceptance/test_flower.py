"""Flower as `./onbeat up` starts it: whom it lets in, what it shows of our workers and tasks, and what it does not."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from launcher import platform as launcher_platform
from launcher.ports import free_port
from tests.acceptance.checkout import family
from tests.acceptance.crew import Crew, a_crew
from tests.platform import ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.full

SECRET = "a-secret-in-a-payload"


class Flower:
    def __init__(self, crew: Crew, data_dir: Path) -> None:
        port = free_port(set())
        self.address = f"http://127.0.0.1:{port}"
        environment, _ = launcher_platform.flower_login(data_dir)
        self.login = environment["FLOWER_BASIC_AUTH"]
        program = launcher_platform.flower(port, environment)
        self.process = crew.platform.start(program.name, program.command, **program.environment)
        self.port = port

    def get(self, path: str, login: str | None = None) -> tuple[int, str]:
        request = Request(f"{self.address}{path}")
        if login is not None:
            request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def shows(self, path: str) -> Any:
        status, body = self.get(path, self.login)
        assert status == 200, body
        return json.loads(body)

    def is_up(self) -> bool:
        try:
            return self.get("/healthcheck")[0] == 200
        except OSError:
            return False


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory) as started:
        yield started


@pytest.fixture(scope="module")
def flower(crew: Crew, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    one = Flower(crew, tmp_path_factory.mktemp("flower"))
    wait_until(one.is_up, what="Flower answers")
    yield one
    one.process.kill_all()


def passwords(crew: Crew) -> set[str]:
    """What the settings hold that nobody in Flower needs."""
    names = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")
    found = {urlsplit(crew.platform.environment[name]).password for name in names}
    return {password for password in found if password} | {crew.platform.environment["SECRET_KEY"]}


@pytest.mark.parametrize(
    "path",
    ["/", "/workers", "/tasks", "/broker", "/api/workers", "/api/tasks", "/api/task/types", "/api/queues/length"],
)
@pytest.mark.parametrize("login", [None, "onbeat:", "onbeat:guess", "admin:admin"])
def test_nobody_gets_in_without_the_password(flower: Flower, path: str, login: str | None) -> None:
    assert flower.get(path, login)[0] == 401


def test_the_password_is_not_among_what_everybody_on_the_machine_sees(flower: Flower) -> None:
    password = flower.login.partition(":")[2]
    assert len(password) >= 20
    commands = [
        subprocess.check_output(["ps", "-ww", "-o", "args=", "-p", str(pid)], text=True)
        for pid in family(flower.process.pid)
    ]
    assert any("flowerconfig.py" in command for command in commands), commands
    assert not any(password in command for command in commands)


def test_it_listens_on_this_machine_alone(flower: Flower) -> None:
    listing = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    listening = [words[1] for words in map(str.split, listing.splitlines()[1:]) if words[3] == "0A"]
    assert [where for where in listening if where.endswith(f":{flower.port:04X}")] == [f"0100007F:{flower.port:04X}"]


def test_it_shows_our_workers_and_the_tasks_that_ran_by_their_names_and_none_of_their_payload(
    crew: Crew, flower: Flower, tmp_path: Path
) -> None:
    path = tmp_path / "go-on"
    with crew.working("shown", "-E"):
        name = f"shown-{crew.platform.name}@"
        (worker,) = wait_until(
            lambda: [one for one in flower.shows("/api/workers?refresh=1") if one.startswith(name)],
            what="the worker is shown",
        )
        echoed = crew.run("onbeat.echo", SECRET)
        waiting = crew.run("crew.wait_for", str(path))
        done = wait_until(
            lambda: (task := flower.shows("/api/tasks").get(echoed)) and task["state"] == "SUCCESS" and task,
            what="the execution is shown",
        )
        assert (done["name"], done["worker"]) == ("onbeat.echo", worker)
        wait_until(
            lambda: flower.shows("/api/tasks").get(waiting, {}).get("state") == "STARTED", what="the other one runs"
        )
        pages = ["/api/tasks", f"/task/{echoed}", f"/task/{waiting}", "/tasks", f"/worker/{worker}", "/broker"]
        bodies = {
            page: flower.get(page, flower.login) for page in [*pages, f"/api/workers?workername={worker}&refresh=1"]
        }
        assert {status for status, _ in bodies.values()} == {200}
        assert "onbeat.echo" in bodies[f"/task/{echoed}"][1]
        secrets = {SECRET, str(path), *passwords(crew)}
        assert {(page, one) for page, (_, body) in bodies.items() for one in secrets if one in body} == set()
        path.touch()


def test_a_plain_task_shows_no_payload_either(crew: Crew, flower: Flower) -> None:
    with crew.working("plain", "-E"):
        crew.ask(
            f"app.send_task('onbeat.echo', args=[{SECRET!r}], task_id='plain-{crew.platform.name}', "
            f"queue='{crew.platform.name}.default').id"
        )
        shown = wait_until(
            lambda: (
                (task := flower.shows("/api/tasks").get(f"plain-{crew.platform.name}"))
                and task["state"] == "SUCCESS"
                and task
            ),
            what="the task is shown",
        )
    assert (shown["args"], shown["kwargs"], shown["result"]) == ("…", "…", "…")


def test_workers_answer_whoever_asks_without_payload_and_without_passwords(
    crew: Crew, flower: Flower, tmp_path: Path
) -> None:
    path = tmp_path / "go-on"
    with crew.working("asked", "-E"):
        waiting = crew.run("crew.wait_for", str(path))
        wait_until(lambda: crew.state(waiting) == "RUNNING", what="it runs")
        commands = ["conf", "report", "active", "query_task", "stats"]
        to = f"timeout=10, destination=['asked-{crew.platform.name}@' + __import__('socket').gethostname()]"
        words = {"conf": "with_defaults=True", "query_task": repr(waiting)}
        answers = {name: crew.ask(f"app.control.inspect({to}).{name}({words.get(name, '')})") for name in commands}
        path.touch()
    said = {name: json.dumps(answer) for name, answer in answers.items()}
    assert "task_acks_late" in said["conf"]
    assert "kombu:" in said["report"]
    assert "crew.wait_for" in said["active"]
    assert "crew.wait_for" in said["query_task"]
    secrets = {str(path), *passwords(crew)}
    assert {(name, one) for name, answer in said.items() for one in secrets if one in answer} == set()


def test_it_does_not_start_without_a_password(crew: Crew) -> None:
    program = launcher_platform.flower(free_port(set()), {})
    for given, said in (({}, "there is no password"), ({"FLOWER_BASIC_AUTH": "no-colon"}, "must be name:password")):
        done = subprocess.run(
            program.command,
            cwd=ROOT,
            env={**crew.platform.environment, **given},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr


OPTIONS = """
import os, sys
sys.path.insert(0, os.getcwd())
from flower.command import apply_env_options, apply_options
from tornado.options import options
apply_env_options()
apply_options("celery", sys.argv[1:])
print(options.address, options.max_tasks, options.max_workers, options.purge_offline_workers, options.persistent)
"""


@pytest.mark.parametrize(
    ("words", "environment", "expected"),
    [
        ([], {}, "127.0.0.1 10000 1000 3600 False"),
        (["--address=0.0.0.0", "--max_tasks=500"], {}, "0.0.0.0 500 1000 3600 False"),
        ([], {"FLOWER_ADDRESS": "0.0.0.0", "FLOWER_MAX_TASKS": "7"}, "0.0.0.0 7 1000 3600 False"),
    ],
)
def test_its_memory_has_an_end_and_other_values_are_heeded(
    words: list[str], environment: dict[str, str], expected: str, tmp_path: Path
) -> None:
    """Started in the checkout without any option, as by hand or in a container."""
    done = subprocess.run(
        [sys.executable, "-c", OPTIONS, *words],
        cwd=ROOT,
        env={"FLOWER_BASIC_AUTH": "somebody:something", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected.split()
