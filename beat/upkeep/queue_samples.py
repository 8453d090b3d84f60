"""Note what waits in each queue, so that it can be told which of them grow."""

from datetime import datetime, timedelta

from beat.upkeep.duty import Duty
from executions import queue_samples


def sample(now: datetime) -> int:
    queue_samples.forget(now)
    return queue_samples.sample(now)


DUTY = Duty(
    name="queue-samples",
    does="notes how many executions wait in each queue, and forgets it after a day",
    every=timedelta(minutes=1),
    run=sample,
)
