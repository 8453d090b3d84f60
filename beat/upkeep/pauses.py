"""Resume jobs whose pause was set to end by now."""

from datetime import timedelta

from beat.upkeep.duty import Duty
from jobs import definitions

DUTY = Duty(
    name="pauses",
    does="resumes jobs whose pause was set to end",
    every=timedelta(seconds=1),  # a fire right after the pause is late by no more
    run=definitions.resume_due,
)
