"""Count executions by the hour."""

from datetime import timedelta

from beat.upkeep.duty import Duty
from executions import statistics

DUTY = Duty(
    name="statistics",
    does="counts the executions of the last hours, for charts",
    every=timedelta(minutes=1),  # each hour of the last day is looked at once an hour
    run=statistics.roll_up,
    rests_times=20,  # it costs the database what the hours hold, and other duties wait for it
)
