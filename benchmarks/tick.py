"""How many fires per second one beat plans and publishes, counted when the broker has confirmed and the row is QUEUED.

Runs on what the environment names (embedded without any), in a database and with queues of its own.
"""

import logging
import time
import uuid
from datetime import timedelta
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import connection

from beat.heartbeat import Progress
from beat.lease import Leases
from beat.planning import Planner
from beat.redis_link import RedisLink
from beat.shards import Shards
from beat.tick import Ticker
from executions import queues, surroundings
from executions.clock import database_now
from executions.dispatch import Publisher
from executions.models import Execution
from executions.states import State
from jobs.models import Job, Kind, Schedule


def measure(fires: int) -> dict[str, Any]:
    logging.disable(logging.INFO)
    own_name = f"bench_{uuid.uuid4().hex[:8]}"
    settings.ONBEAT_EXECUTIONS_PREFIX = f"{own_name}."
    name = connection.settings_dict["NAME"]
    if connection.vendor == "postgresql":
        connection.settings_dict["TEST"]["NAME"] = own_name
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    publisher = Publisher()
    try:
        _store(fires)
        seconds = _fire_all(publisher, fires)
    finally:
        publisher.close()
        _delete_queues()
        connection.creation.destroy_test_db(name, verbosity=0)
    where = surroundings.in_words()
    return {
        "fires": fires,
        "seconds": round(seconds, 3),
        "fires_per_s": round(fires / seconds),
        "database": connection.vendor,
        "broker": where["broker"].split(":")[0],
        "redis": where["redis"] != "none",
    }


def _store(count: int) -> None:
    now = database_now()
    jobs = Job.objects.bulk_create(
        Job(key=f"bench-{number}", task="onbeat.echo", created_at=now, changed_at=now) for number in range(count)
    )
    Schedule.objects.bulk_create(
        Schedule(job=job, kind=Kind.CRON, expression="0 3 * * *", next_fire_at=now) for job in jobs
    )


def _fire_all(publisher: Publisher, fires: int) -> float:
    batch_size = settings.ONBEAT_BEAT_BATCH_SIZE
    link = RedisLink(settings.REDIS_URL, prefix=settings.ONBEAT_EXECUTIONS_PREFIX)
    leases = Leases(link, holder="benchmark", life=timedelta(seconds=settings.ONBEAT_BEAT_LEASE_SECONDS))
    planner = Planner(leases, look_ahead=timedelta(seconds=5), batch_size=batch_size)
    ticker = Ticker(
        planner=planner,
        leases=leases,
        publisher=publisher,
        batch_size=batch_size,
        shards=Shards("benchmark", linger=timedelta(0)),
        progress=Progress(stuck_after_seconds=10),
    )
    started = time.monotonic()
    while ticker.tick(database_now()).has_more:
        pass
    seconds = time.monotonic() - started
    queued = Execution.objects.filter(state=State.QUEUED).count()
    assert queued == fires, f"{queued} of {fires} fires were queued"
    return seconds


def _delete_queues() -> None:
    with current_app.connection_for_write() as broker:
        for queue in (queues.work_queue("default"), queues.dead_letter_queue()):
            queue.bind(broker.channel()).delete()
            queue.exchange.bind(broker.channel()).delete()
