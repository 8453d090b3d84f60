"""What these tests commit is deleted row by row: truncating every table, as Django does, takes a second each time."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.models import Model
from django.test import TransactionTestCase

from access.models import ApiKey, AuditEntry, IdempotentAnswer, LoginBucket
from callbacks.models import Host, HostCall
from executions.models import Attempt, DeadMessage, Execution, HourlyCount, HourlyTotal, QueueSample, RunKey
from jobs.models import Job, JobVersion, Schedule, Secret, SecretPart, StoredForecast
from notifications.models import Lookout, Notice, Receiver, Sighting, Trouble

# From the ones that point to the ones pointed at.
_TABLES: list[type[Model]] = [Notice, Trouble, Sighting, Lookout, Receiver]
_TABLES += [DeadMessage, HourlyCount, HourlyTotal, QueueSample, Attempt, Execution, RunKey, JobVersion, Schedule, Job]
_TABLES += [ApiKey, AuditEntry, IdempotentAnswer, LoginBucket, HostCall, Host, SecretPart, Secret, StoredForecast]


@pytest.fixture(autouse=True, scope="package")
def _quick_clearing() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", _clear)
        yield


def _clear(_test_case: TransactionTestCase) -> None:
    with connection.cursor() as cursor:
        for model in _TABLES:
            cursor.execute(f"DELETE FROM {model._meta.db_table}")
