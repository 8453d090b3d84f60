"""End executions whose receiver promised to tell their end and did not, or that somebody asked to stop meanwhile."""

from datetime import datetime, timedelta

from beat.upkeep.duty import Duty
from executions import events, lifecycle


def end_unheard(now: datetime) -> int:
    ended = lifecycle.end_unheard(now)
    for execution_id, attempt, finish in ended:
        events.warn("no end was told", execution=execution_id, attempt=attempt, then=finish)
    return len(ended)


DUTY = Duty(
    name="unheard",
    does="ends what a receiver accepted and told no end of in time",
    every=timedelta(seconds=2),
    run=end_unheard,
)
