"""End executions whose receiver promised to tell their end and did not, or that somebody asked to stop meanwhile."""

from datetime import datetime, timedelta

from beat.upkeep.duty import Duty
from executions import events, lifecycle
from executions.outcomes import Finish


def end_unheard(now: datetime) -> int:
    ended = 0
    for execution_id, attempt in lifecycle.unheard(now):
        finish = lifecycle.end_unheard(execution_id, attempt, now=now)
        if finish is not Finish.REFUSED:
            events.warn("no end was told", execution=execution_id, attempt=attempt, then=finish)
            ended += 1
    return ended


DUTY = Duty(
    name="unheard",
    does="ends what a receiver accepted and told no end of in time",
    every=timedelta(seconds=2),
    run=end_unheard,
    trusts_silence=True,
)
