"""Receivers for tests, what a beat makes for them, and a worker that delivers it."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from executions import lifecycle
from executions.models import Execution
from jobs.models import Job
from notifications import lookout, receivers
from notifications.kinds import EVENTS
from notifications.models import Notice, Receiver
from tests.delivering import deliver
from tests.making import claimed, planned, seconds

ROUTING_KEY = "R0UT1NGKEYR0UT1NGKEYR0UT1NGKEY99"


def a_receiver(name: str = "ops", *, now: datetime, **fields: Any) -> Receiver:
    """Who wants to know everything."""
    said = {"url": "https://hooks.example.com/T0P/S3CRETPATH", "events": EVENTS, "now": now}
    return receivers.create(name, **{**said, **fields}).receiver


def fails(job: Job, at: datetime, *, error: str = "ValueError: no such row") -> Execution:
    """One attempt of it."""
    row = planned(job, at)
    lifecycle.fail(claimed(row, now=at), error=error, now=at + seconds(0.5))
    return Execution.objects.get(pk=row.pk)


def fails_again(execution: Execution, at: datetime) -> Execution:
    execution.refresh_from_db()
    lifecycle.fail(claimed(execution, now=at), error="ValueError: again", now=at + seconds(0.5))
    execution.refresh_from_db()
    return execution


def look(now: datetime) -> list[Notice]:
    """A beat looks; the notices that it made, in their order."""
    last = Notice.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    lookout.look(now)
    return list(Notice.objects.filter(pk__gt=last).select_related("receiver").order_by("pk"))


def kinds(notices: Sequence[Notice]) -> list[str]:
    return [notice.kind for notice in notices]


def delivery_of(notice: Notice) -> Execution:
    assert notice.execution_id is not None
    return Execution.objects.get(pk=notice.execution_id)


def delivered(notice: Notice) -> Execution:
    execution = delivery_of(notice)
    deliver(execution)
    return execution


def body(sent: Any) -> Any:
    return json.loads(sent.body)
