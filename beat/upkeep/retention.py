"""Remove rows that are past their days."""

from datetime import datetime, timedelta

from beat.upkeep.duty import Duty
from executions import events, retention


def prune(now: datetime) -> int:
    pruned = retention.prune(now)
    if pruned.months:
        events.emit("months are dropped: their days are over", months=",".join(map(str, pruned.months)))
    rows = pruned.executions + pruned.attempts + pruned.dead_messages
    return len(pruned.months) + rows + pruned.hourly_counts + pruned.hourly_totals


DUTY = Duty(
    name="retention",
    does="removes executions and dead letters that are past their days, by whole months where it can",
    every=timedelta(minutes=1),  # each call does a limited part
    run=prune,
)
