"""The doctor before a RabbitMQ of its own: one that is short of memory, and one whose management API is asked."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import kombu
import pytest

from tests.acceptance.own_rabbitmq import Broker, own_rabbitmq
from tests.platform import ROOT, Platform
from tests.waiting import wait_until

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    with own_rabbitmq() as broker:
        yield broker


@pytest.fixture
def installation(platform: Platform, own_broker: Broker) -> Platform:
    platform.environment["CELERY_BROKER_URL"] = own_broker.url
    platform.migrate()
    return platform


@pytest.fixture(scope="module")
def api_url(own_broker: Broker) -> str:
    return own_broker.serve_its_api()


def findings(platform: Platform, api_url: str = "") -> dict[str, dict[str, Any]]:
    """What the doctor finds, by id."""
    environment = {**platform.environment, "ONBEAT_EXECUTIONS_RABBITMQ_API_URL": api_url}
    command = [sys.executable, "manage.py", "doctor", "--only", "rabbitmq", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    assert done.returncode == (1 if document["errors"] else 0)
    return {finding["id"]: finding for area in document["areas"] for finding in area["findings"]}


def test_a_queue_that_nobody_can_name_is_seen_by_the_api(
    installation: Platform, own_broker: Broker, api_url: str
) -> None:
    forgotten = f"{installation.name}.forgotten"
    with kombu.Connection(own_broker.url) as line:
        channel: Any = line.channel()
        channel.queue_declare(forgotten, durable=True, auto_delete=False)
        channel.queue_declare("somebody-elses", durable=True, auto_delete=False)
    assert set(findings(installation)) == {"rabbitmq.N01"}
    found = findings(installation, api_url)
    assert set(found) == {"rabbitmq.N01", "rabbitmq.W01"}
    assert found["rabbitmq.W01"]["facts"]["queue"] == forgotten
    wrong = api_url.replace(own_broker.record.rabbitmq_password, "wrong")
    assert "it refuses the user or the password" in findings(installation, wrong)["rabbitmq.W02"]["says"]


def test_a_broker_that_is_short_of_memory_is_told(installation: Platform, own_broker: Broker, api_url: str) -> None:
    own_broker.allow_memory("absolute 1")
    try:
        found = wait_until(
            lambda: alarmed if "rabbitmq.E08" in (alarmed := findings(installation, api_url)) else None,
            what="the API tells of the alarm",
        )
    finally:
        own_broker.allow_memory("0.4")
    assert {name: finding["says"] for name, finding in found.items()} == {
        "rabbitmq.E06": "The broker answers, and takes no messages: it is short of memory or disk.",
        "rabbitmq.E08": f"{own_broker.record.node} is short of memory.",
    }
