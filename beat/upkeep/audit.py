"""Forget entries of the audit trail that are past their days."""

from datetime import timedelta

from access import audit
from beat.upkeep.duty import Duty

DUTY = Duty(
    name="audit",
    does="forgets entries of the audit trail that are past their days",
    every=timedelta(hours=1),
    run=audit.forget_older,
)
