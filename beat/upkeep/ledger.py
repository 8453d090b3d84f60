"""Walk over all schedules, and count the fires that there should be and those that have a row."""

from datetime import timedelta

from beat.upkeep.duty import Duty
from jobs import ledger

DUTY = Duty(
    name="ledger",
    does="compares the fires that there should be with those that have a row",
    every=timedelta(seconds=2),
    run=ledger.go_on,
    rests_times=20,
)
