"""Have the tables of the coming months ready before the first fire asks for one."""

from datetime import datetime, timedelta

from django.db import OperationalError

from beat.upkeep.duty import Duty
from executions import events, partitions
from executions.storable import in_a_line


def make_partitions_ahead(now: datetime) -> int:
    try:
        made = partitions.make_ahead(now)
    except OperationalError as error:
        # Somebody holds a lock on the table. There are months in hand, and an insert makes what it lacks.
        events.warn("partitions could not be made ahead", error=in_a_line(error))
        return 0
    if made:
        events.emit("partitions are made ahead", months=",".join(map(str, made)))
    return len(made)


DUTY = Duty(
    name="partitions",
    does="makes the tables of the coming months",
    every=timedelta(hours=1),
    run=make_partitions_ahead,
)
