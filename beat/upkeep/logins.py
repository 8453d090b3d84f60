"""Forget how often people tried to log in, once that counts no more, and sessions that have ended."""

from datetime import timedelta

from access import logins
from beat.upkeep.duty import Duty

DUTY = Duty(
    name="logins",
    does="forgets sessions that have ended, and tries to log in that count no more",
    every=timedelta(minutes=10),
    run=logins.forget_old,
)
