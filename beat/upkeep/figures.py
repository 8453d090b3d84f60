"""Take the figures that are dear to take, for whoever scrapes."""

from datetime import timedelta

from beat.upkeep.duty import Duty
from jobs import figures

DUTY = Duty(
    name="figures",
    does="counts schedules, what waits in queues, and dead letters, for metrics",
    every=timedelta(seconds=10),
    run=figures.take,
    rests_times=20,  # counting a million schedules takes a while
)
