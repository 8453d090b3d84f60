"""Collect what no worker could take.

So what lies in the dead-letter queue is never published again for being lost: its execution is tried again as its job's
policy says, and given up at the end, long before its message would count as lost.
"""

from datetime import datetime, timedelta

from beat.upkeep.duty import Duty
from executions import dead_letters


def collect(now: datetime) -> int:
    return dead_letters.collect(now).total


DUTY = Duty(
    name="dead-letters",
    does="collects what no worker could take into the database",
    every=timedelta(seconds=5),
    run=collect,
)
