"""Questions why a fire did or did not run, asked as if all around were well."""

from datetime import datetime
from typing import Any

from executions import queues
from jobs.explaining import explain
from jobs.models import Job, Schedule
from jobs.verdicts import Around, Explained, Explanation
from tests import rows

WELL = Around(frozenset({queues.work_queue("default").name}), "1 ticking")


def asked(job: Job, at: datetime | None = None, *, now: datetime, around: Around = WELL, **more: Any) -> Explanation:
    before = rows.everything()
    told = explain(job, start=at, end=at, now=now, around=around, **more)
    assert rows.everything() == before  # it only looks
    return told


def answer(job: Job, at: datetime | None = None, *, now: datetime, around: Around = WELL) -> Explained:
    (one,) = asked(job, at, now=now, around=around).fires
    return one


def stands_at(job: Job, moment: datetime) -> None:
    """As if a beat had planned up to then."""
    Schedule.objects.filter(job=job).update(next_fire_at=moment)
