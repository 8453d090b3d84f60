"""Jobs that call a receiver on this machine, and what a worker does with them."""

from datetime import datetime
from typing import Any

from executions.models import Execution
from jobs import definitions
from jobs.http_target import HttpTarget
from jobs.models import Job
from tests.delivering import deliver
from tests.making import planned
from tests.receiver import Act, Receiver, receiving


def a_callback(receiver: Receiver, *, now: datetime, **fields: Any) -> Job:
    """Fields of the target and of the job. Both have a time limit: `limit` is that of the job."""
    of_target = {name: fields.pop(name) for name in list(fields) if name in HttpTarget.__dataclass_fields__}
    target = HttpTarget(**{"url": receiver.url(), **of_target})
    if "limit" in fields:
        fields["timeout_seconds"] = fields.pop("limit")
    return definitions.create(key=fields.pop("key", "callback"), http=target, now=now, **fields)


def called(*acts: Act, noon: datetime, **fields: Any) -> tuple[Receiver, Execution]:
    with receiving(*acts) as receiver:
        execution = planned(a_callback(receiver, now=noon, **fields), noon)
        deliver(execution)
    return receiver, execution
