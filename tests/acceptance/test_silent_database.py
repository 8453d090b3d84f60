"""A PostgreSQL, or a pooler before it, that takes questions and never answers: who asked does not hang for ever.

There is no error to notice, and no keepalive fails. The only beat, or the only web process, has to help itself.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from chaos.proxy import Proxy
from tests.platform import Platform
from tests.waiting import wait_until

pytestmark = pytest.mark.full

DEFINE = """
from executions.clock import database_now
from jobs import definitions
from jobs.recurrence import Cron
definitions.create(key="pulse", task="onbeat.echo", schedule=Cron("* * * * * *"), now=database_now())
"""
PUBLISHED = "SELECT count(*) FROM onbeat_execution WHERE state = 'QUEUED'"
MISSING = "SELECT extract(epoch FROM max(fire_time) - min(fire_time))::bigint + 1 - count(*) FROM onbeat_execution"
HURRIED = {"DATABASE_ANSWER_SECONDS": "2"}


@pytest.fixture
def line(platform: Platform) -> Iterator[Proxy]:
    platform.migrate()
    with Proxy(platform.environment["DATABASE_URL"]) as proxy:
        yield proxy


def test_the_only_beat_fires_on_when_its_connections_are_never_answered_again(platform: Platform, line: Proxy) -> None:
    platform.manage("shell", "-c", DEFINE)
    platform.beat(**HURRIED, DATABASE_URL=line.url)
    wait_until(lambda: platform.count(PUBLISHED) > 1, what="the beat fires")
    line.tear(gone="server")
    published = platform.count(PUBLISHED)
    wait_until(lambda: platform.count(PUBLISHED) > published + 3, what="the beat fires again")
    assert platform.count(MISSING) == 0


def test_the_web_process_answers_when_its_connections_are_never_answered_again(platform: Platform, line: Proxy) -> None:
    address = platform.web(**HURRIED, DATABASE_URL=line.url)

    def checks() -> dict[str, Any]:
        with pytest.raises(HTTPError) as answer:  # there is no beat, and that is what it says
            urlopen(f"{address}/health/ready", timeout=30)
        said: dict[str, Any] = json.loads(answer.value.read())["checks"]
        return said

    assert checks()["database"]["ok"]
    line.tear(gone="server")
    assert checks()["database"]["ok"]
