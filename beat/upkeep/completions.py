"""Complete jobs that have no fire left and nothing open: their keys are free again."""

from datetime import timedelta

from beat.upkeep.duty import Duty
from jobs import definitions

DUTY = Duty(
    name="completions",
    does="completes jobs that have no fire left",
    every=timedelta(seconds=5),
    run=definitions.complete_ended,
)
