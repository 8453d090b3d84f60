"""Resume jobs whose pause was set to end by now."""

import time
from datetime import datetime, timedelta

from beat.upkeep.duty import Duty
from jobs import definitions

_AT_ONCE = 100
# Many may end together, as after a maintenance; but other duties must not wait for long.
_PATIENCE_SECONDS = 2.0


def end_pauses(now: datetime) -> int:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    total = resumed = definitions.resume_due(now, limit=_AT_ONCE)
    while resumed == _AT_ONCE and time.monotonic() < deadline:
        resumed = definitions.resume_due(now, limit=_AT_ONCE)
        total += resumed
    return total


DUTY = Duty(
    name="pauses",
    does="resumes jobs whose pause was set to end",
    every=timedelta(seconds=1),  # a fire right after the pause is late by no more
    run=end_pauses,
)
