"""Queues of a test's own on the tier's real broker."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from celery import current_app
from django.conf import settings as project_settings
from django.db import transaction
from kombu import Connection
from pytest_django import DjangoDbBlocker, Settings

from access.rate_limit import RateLimit
from executions import partitions, queues
from executions.clock import database_now
from executions.dispatch import Publisher
from executions.models import Execution
from tests.furnished import Furniture, furnish
from tests.making import a_job, a_ticker, planned

if TYPE_CHECKING:
    from tests.integration.rejecting import Rejecting


class Queues:
    """The test's own view of the broker: RabbitMQ in the full tier, a folder in the embedded one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.channel = connection.channel()

    def take(self, name: str = "default") -> Any:
        """The next message of a queue, acknowledged; None if there is none."""
        message = queues.work_queue(name).bind(self.channel).get()
        if message is not None:
            message.ack()
        return message

    def take_all(self, name: str = "default") -> list[Any]:
        return list(iter(lambda: self.take(name), None))

    def delete(self, name: str = "default") -> None:
        self.channel.queue_delete(queues.work_queue(name).name)


@pytest.fixture(autouse=True)
def _fresh_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests to the API: a user of a test has the number of the user of the test before it, and not its limit."""
    monkeypatch.setattr("api.callers._limit", RateLimit())


@pytest.fixture(scope="module")
def furniture(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Furniture]:
    """Something of everything that the admin shows, made once: what a test of the module does to it is taken back."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield furnish(database_now())
        transaction.set_rollback(True)


@pytest.fixture
def no_old_months(db: None) -> None:
    """Those that other tests left on PostgreSQL are dropped: a rollback does not take them back."""
    if not partitions.are_used():
        return
    lately = partitions.Month.of(database_now() - timedelta(days=project_settings.ONBEAT_EXECUTIONS_RETENTION_DAYS))
    # Not by the transaction of the test: to look at the months would hold them.
    with partitions._own_connection(5000) as own, own.cursor() as cursor:
        for parent in partitions.PARENTS:
            for month in partitions._months_of(cursor, parent):
                if month < lately:
                    cursor.execute(f'DROP TABLE "{parent}_{month}"')


@pytest.fixture
def broker(settings: Settings) -> Iterator[Queues]:
    settings.ONBEAT_EXECUTIONS_PREFIX = f"t{uuid.uuid4().hex[:10]}."
    with current_app.connection_for_read() as connection:
        view = Queues(connection)
        yield view
        view.delete()
        view.channel.queue_delete(queues.dead_letter_queue().name)
        for exchange in (queues.exchange(), queues.dead_letter_exchange()):
            view.channel.exchange_delete(exchange.name)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    one = Publisher()
    yield one
    one.close()


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's address at which nobody listens, on this machine."""
    monkeypatch.setitem(current_app.conf, "broker_write_url", "amqp://127.0.0.1:1//")


@pytest.fixture
def rejecting(broker: Queues) -> "Rejecting":
    from tests.integration.rejecting import Rejecting  # it looks at the broker through the class above

    return Rejecting(broker)


@pytest.fixture
def published(noon: datetime, publisher: Publisher, rejecting: "Rejecting") -> Execution:
    """QUEUED at noon, with its message in the queue; given up after two attempts."""
    execution = planned(a_job(now=noon, max_attempts=2), noon)
    assert a_ticker(publisher).tick(noon).published == 1
    return execution
