"""End attempts whose worker went silent: they run again, or are given up after too many losses."""

from datetime import datetime, timedelta

from django.conf import settings

from beat.upkeep.duty import Duty
from executions import events, lifecycle


def rescue_lost_workers(now: datetime) -> int:
    silent_since = now - timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
    rescued = lifecycle.rescue(silent_since=silent_since, now=now)
    for row in rescued:
        events.warn(
            "a worker was lost", execution=row.execution_id, attempt=row.attempt, worker=row.worker, state=row.state
        )
    return len(rescued)


DUTY = Duty(
    name="rescue",
    does="ends attempts whose worker went silent; they run again",
    every=timedelta(seconds=5),
    run=rescue_lost_workers,
    trusts_silence=True,
)
