"""Free the keys of runs that are over."""

from datetime import timedelta

from beat.upkeep.duty import Duty
from executions import run_keys

DUTY = Duty(
    name="run-keys",
    does="frees the keys of runs that are over",
    every=timedelta(seconds=5),
    run=run_keys.forget_ended,
)
