"""A real RabbitMQ that is short of memory: it takes connections, blocks whoever publishes, and confirms nothing.

On a server of its own, since the alarm would stop everybody else's work; that takes half a minute, so only `make
test-long` does it. Otherwise a frozen line stands for it (`test_beat_outages.py`).
"""

import os
from collections.abc import Iterator

import pytest

from tests.acceptance.own_rabbitmq import Broker, own_rabbitmq
from tests.platform import Platform
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="starts a RabbitMQ of its own: see `make test-long`"),
]

DEFINE = """
from executions.clock import database_now
from jobs import definitions
from jobs.recurrence import Cron
definitions.create(key="pulse", task="onbeat.echo", schedule=Cron("* * * * * *"), now=database_now())
"""
AWAY = "the broker is away: executions wait in the database"
BACK = "the broker is back: waiting executions are published"
PUBLISHED = "SELECT count(*) FROM onbeat_execution WHERE state = 'QUEUED'"
OVERDUE = """
SELECT count(*) FROM onbeat_execution
WHERE state = 'SCHEDULED' AND fire_time < clock_timestamp() - interval '1 second'
"""
# Each second since the first has its row.
GAPS = "SELECT extract(epoch FROM max(fire_time) - min(fire_time))::bigint + 1 - count(*) FROM onbeat_execution"


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with own_rabbitmq() as broker:
        yield broker


def test_a_broker_short_of_memory_holds_up_publishing_and_nothing_else(platform: Platform, own_broker: Broker) -> None:
    platform.environment |= {
        "CELERY_BROKER_URL": own_broker.url,
        "ONBEAT_EXECUTIONS_CONFIRM_SECONDS": "30",  # `connection.blocked` tells it long before
    }
    platform.migrate()
    platform.manage("shell", "-c", DEFINE)
    beat = platform.beat()
    wait_until(lambda: platform.count(PUBLISHED) > 1, what="executions are published")

    own_broker.allow_memory("absolute 1")
    wait_until(lambda: AWAY in beat.output(), what="the beat says that the broker takes no messages", seconds=15)
    assert "it is short of memory or disk" in beat.output()
    published, ticked = platform.count(PUBLISHED), platform.rows("SELECT ticked_at FROM onbeat_beat")
    wait_until(lambda: platform.count(OVERDUE) > 2, what="fires are planned on, and wait")
    assert platform.count(PUBLISHED) == published
    assert platform.rows("SELECT ticked_at FROM onbeat_beat") > ticked
    assert BACK not in beat.output()

    own_broker.allow_memory("0.4")
    wait_until(lambda: platform.count(OVERDUE) == 0, what="everything that waited is published")
    assert platform.count(PUBLISHED) > published
    assert platform.count(GAPS) == 0
    assert (beat.output().count(AWAY), beat.output().count(BACK)) == (1, 1)
    assert beat.terminate() == 0
