"""Who follows a request finds its name in the log of the worker that did what was asked, even in a handler's lines."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.acceptance.crew import Crew, a_crew
from tests.waiting import wait_until

ASKED = "followed-1"


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory) as started:
        yield started


def test_a_request_is_followed_from_its_answer_to_a_line_of_its_handler(crew: Crew) -> None:
    platform = crew.platform
    secret = json.loads(platform.manage("api_keys", "create", "--name", "it", "--role", "admin", "--json"))["secret"]
    address = f"{platform.web()}/api/v1"

    def call(method: str, path: str) -> tuple[Any, str]:
        headers = {"Authorization": f"Bearer {secret}", "X-Request-Id": ASKED}
        with urlopen(Request(f"{address}{path}", None, headers, method=method), timeout=30) as answer:
            return json.load(answer), str(answer.headers["X-Request-Id"])

    crew.ask("str(definitions.create(key='say', task='crew.say', args=['paid in full']))")
    with crew.working("sayer", ONBEAT_EXECUTIONS_LOG_FORMAT="json") as worker:
        run, sent_back = call("POST", "/jobs/say/runs")
        crew.reaches(run["id"], "SUCCEEDED")
        said = [json.loads(line) for line in worker.process.output().splitlines() if line.startswith("{")]
    assert sent_back == ASKED
    names = {"execution": run["id"], "job": "say", "attempt": 1, "request": ASKED}
    (own,) = [line for line in said if line["event"] == "paid in full"]
    (ours,) = [line for line in said if line["event"] == "succeeded"]
    assert own | names == own, own
    assert (own["level"], own["logger"]) == ("warning", "billing")
    assert ours | names == ours, ours
    found, _ = call("GET", f"/executions/{run['id']}")
    assert (found["request_id"], found["result"]) == (ASKED, ASKED)  # the handler returned what it knows of it


def test_each_line_that_processes_write_as_json_is_json(crew: Crew) -> None:
    """Whoever writes it: we, Django, Celery, gunicorn."""
    as_json = {"ONBEAT_EXECUTIONS_LOG_FORMAT": "auto"}  # and their output is no terminal
    crew.platform.web("jsonweb", **as_json)
    beat = crew.platform.beat("jsonbeat", **as_json)
    wait_until(lambda: "beat started" in beat.output(), what="the beat says that it started")
    assert beat.terminate() == 0
    (web,) = [process for process in crew.platform.processes if process.name == "jsonweb"]
    assert web.terminate() == 0
    lines = [line for process in (beat, web) for line in process.output().splitlines()]
    assert len(lines) > 4
    assert [line for line in lines if not isinstance(json.loads(line), dict)] == []
