"""Look at what went wrong, and make notifications of it."""

from datetime import timedelta

from beat.upkeep.duty import Duty
from notifications import lookout

DUTY = Duty(
    name="notifications",
    does="tells receivers what failed, is late or is well again",
    every=timedelta(seconds=2),
    run=lookout.look,
    rests_times=3,  # where much goes wrong at once, other duties have their time as well
)
