"""Forget results of Celery that are past their time, as Celery's own beat would."""

from datetime import datetime, timedelta

from celery import current_app

from beat.upkeep.duty import Duty


def forget_results(now: datetime) -> int:  # noqa: ARG001 - Celery looks at its own clock
    current_app.backend.cleanup()
    return 0  # it does not say how many


DUTY = Duty(
    name="results",
    does="forgets results of Celery that are older than its result_expires, a day by default",
    every=timedelta(hours=1),
    run=forget_results,
)
