"""The web process while its servers are away: it says so, loses nothing it promised, and comes back by itself."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from django.conf import settings

from chaos.proxy import Proxy
from tests.platform import Platform
from tests.waiting import wait_until

pytestmark = pytest.mark.full


class Web:
    """The web process, with a line of its own to each server."""

    def __init__(self, platform: Platform) -> None:
        self.lines = ExitStack()
        self.database, self.broker, self.redis = (
            self.lines.enter_context(Proxy(url))
            for url in (platform.environment["DATABASE_URL"], settings.CELERY_BROKER_URL, settings.REDIS_URL)
        )
        platform.migrate()
        made = platform.manage("api_keys", "create", "--name", "outages", "--role", "admin", "--json")
        self._secret = json.loads(made)["secret"]
        self._address = platform.web(
            DATABASE_URL=self.database.url, CELERY_BROKER_URL=self.broker.url, REDIS_URL=self.redis.url
        )

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"Authorization": f"Bearer {self._secret}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._address}/api/v1{path}", data, named, method=method)
        try:
            with urlopen(request, timeout=30) as response:
                return response.status, json.load(response), dict(response.headers)
        except HTTPError as refused:
            return refused.code, json.load(refused), dict(refused.headers)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One for all of these: it takes long to start, and each of them leaves it whole."""
    with Platform(tmp_path_factory.mktemp("platform"), is_full=True) as started:
        yield started


@pytest.fixture(scope="module")
def web(platform: Platform) -> Iterator[Web]:
    started = Web(platform)
    with started.lines:
        started.call("POST", "/jobs", {"key": "job", "target": {"task": "onbeat.echo"}})
        yield started


def test_without_the_database_it_says_so_and_what_was_asked_is_done_once_when_it_is_back(
    web: Web, platform: Platform
) -> None:
    web.database.cut()
    status, problem, headers = web.call("POST", "/jobs/job/runs", {"delay": 600}, Idempotency_Key="k")
    assert (status, headers["Content-Type"]) == (503, "application/problem+json")
    assert "The database does not answer" in problem["detail"]
    assert int(headers["Retry-After"]) > 0
    web.database.mend()
    answers = [
        wait_until(
            lambda: (
                (answer := web.call("POST", "/jobs/job/runs", {"delay": 600}, Idempotency_Key="k"))[0] < 400 and answer
            ),
            what="the web process is back",
        )
        for _ in range(2)
    ]
    assert [status for status, _, _ in answers] == [201, 201]
    assert platform.count("SELECT count(*) FROM onbeat_execution WHERE trigger = 'DELAYED'") == 1


def test_without_the_broker_a_run_is_accepted_at_once_and_left_to_the_beats(web: Web, platform: Platform) -> None:
    assert web.call("POST", "/jobs/job/runs")[0] == 201  # opens the line
    for fail in (web.broker.cut, web.broker.freeze):
        fail()
        began = time.monotonic()
        answers = [web.call("POST", "/jobs/job/runs") for _ in range(3)]
        assert [status for status, _, _ in answers] == [201] * 3
        assert time.monotonic() - began < 15  # the first one finds out; nobody waits after that
        web.broker.mend()
    states = {state for (state,) in platform.rows("SELECT state FROM onbeat_execution WHERE trigger = 'MANUAL'")}
    assert states == {"QUEUED", "SCHEDULED"}
    platform.beat()
    wait_until(
        lambda: platform.count("SELECT count(*) FROM onbeat_execution WHERE state = 'QUEUED'") == 7,
        what="a beat publishes what the web process could not",
    )


def test_without_redis_requests_are_limited_by_the_process(web: Web) -> None:
    web.redis.cut()
    assert web.call("GET", "/caller")[0] == 200
    web.redis.freeze()
    assert web.call("GET", "/jobs")[0] == 200
    web.redis.mend()
    assert web.call("GET", "/caller")[0] == 200
