"""Make the forecast of the next day's fires."""

from datetime import timedelta

from beat.upkeep.duty import Duty
from jobs import forecasting

DUTY = Duty(
    name="forecast",
    does="counts the fires of the next day, for charts",
    every=timedelta(minutes=1),  # rarer where it takes long
    run=forecasting.refresh,
)
