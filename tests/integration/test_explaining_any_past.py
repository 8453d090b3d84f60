"""Whatever was done to a job, each of its fires has an answer, and none is called a fault."""

import random
from collections import Counter
from datetime import datetime, timedelta

import pytest

from executions import lifecycle
from executions.models import Execution
from jobs import definitions
from jobs.explaining import MOST_FIRES, explain
from jobs.models import Job, JobState
from jobs.recurrence import Cron, Every, Within
from jobs.verdicts import Around, Verdict
from tests import rows
from tests.firing import plan
from tests.making import a_job, claimed
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
MINUTE = timedelta(minutes=1)


def any_schedule(chance: random.Random, now: datetime) -> Cron | Every | Within:
    pattern = chance.choice([Cron("* * * * *"), Cron("*/5 * * * *"), Every(90, now), Cron("H/7 * * * *")])
    return Within(pattern, now + 2 * MINUTE, now + 40 * MINUTE) if chance.random() < 0.2 else pattern


def something(chance: random.Random, job: Job, now: datetime) -> None:
    """One of the things that happen to jobs."""
    job = Job.objects.get(pk=job.pk)
    match chance.randrange(8):
        case 0:
            until = now + chance.randrange(1, 9) * MINUTE if chance.random() < 0.5 else None
            definitions.pause(job, reason="why not", by="anna", until=until, now=now)
        case 1:
            definitions.resume(job, by="ben", now=now)
        case 2:
            more = {"max_fires": chance.randrange(1, 6)} if chance.random() < 0.5 else {"max_fires": None}
            definitions.change(job, version=job.version, schedule=any_schedule(chance, now), now=now, **more)
        case 3:
            definitions.change(job, version=job.version, priority=chance.randrange(10), now=now)
        case _:
            definitions.resume_due(now)
            plan(now)
            for row in Execution.objects.due(now):
                lifecycle.succeed(claimed(row, now=now), result=None, now=now)


@pytest.mark.parametrize("seed", range(15, 40))
def test_no_fire_of_any_past_is_called_a_fault(seed: int, noon: datetime) -> None:
    chance = random.Random(seed)
    job = a_job(now=noon, schedule=any_schedule(chance, noon))
    now = noon
    for _ in range(40):
        now += timedelta(seconds=chance.choice([1, 7, 30, 60, 90, 200, 600]))
        something(chance, job, now)
    if chance.random() < 0.3:
        definitions.archive(Job.objects.get(pk=job.pk), now=now)
    now += chance.randrange(20) * MINUTE
    end = now + 5 * MINUTE
    told = explain(job, start=noon - 3 * MINUTE, end=end, now=now, around=Around(beats="1 ticking"))
    counted = Counter(one.verdict for one in told.fires) + Counter(told.left_out)
    assert sum(counted.values()) < MOST_FIRES
    assert not counted[Verdict.MISSING]
    ran = sum(row.state == "SUCCEEDED" for row in rows.of(job))
    assert counted[Verdict.RAN] == ran
    if Job.objects.get(pk=job.pk).state == JobState.ARCHIVED:
        assert not counted[Verdict.NOT_YET] + counted[Verdict.UNPLANNED]
