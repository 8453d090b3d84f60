"""All of it, in the order in which it came to be."""

from datetime import datetime

from django.db import transaction

from examples.lively_demo import deeds, history, present
from executions import statistics
from executions.clock import database_now
from executions.models import Execution
from jobs import forecasting
from jobs.models import Job

_HOURS = 50  # are counted: as many as there is history of, and the current one


class HasJobs(Exception):
    """The database is in use."""


def fill(now: datetime | None = None) -> str:
    """Into a database that has no job; what is there then, in a sentence."""
    now = now or database_now()
    if Job.objects.exists():
        raise HasJobs("This database has jobs already and is left as it is: name an empty one in DATA_DIR.")
    with transaction.atomic():
        deeds.hire()
        jobs = deeds.make_jobs(now)
        deeds.change_jobs(now)
        deeds.make_keys(now)
        jobs = [(work, Job.objects.get(pk=job.pk)) for work, job in jobs]  # as they were changed
        history.store(jobs, now=now)
        deeds.pause_one(now)
        deeds.tell_of_today(now)
        present.move_schedules_on(now)
        present.begin(now)
        statistics.roll_up(now, hours=_HOURS)
        forecasting.refresh(now)
    return f"Made {Job.objects.count()} jobs with {Execution.objects.count():,} executions of two days."
