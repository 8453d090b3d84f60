"""Jobs that two change together: those that name the same ones in another order wait in a line, never in a ring."""

from datetime import datetime
from functools import partial

import pytest

from access.models import AuditEntry
from api.jobs import deeds
from jobs.models import Job, JobVersion
from tests.making import a_job, every_minute
from tests.races.connections import several

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
ROUNDS = 20


def test_two_that_name_the_same_jobs_in_another_order_both_get_their_turn(noon: datetime) -> None:
    jobs = [a_job(now=noon, key=f"job-{number}", schedule=every_minute(noon)) for number in range(6)]
    signature = {"through": "command", "now": noon}
    with several(2) as start_both:
        for _ in range(ROUNDS):
            start_both(
                partial(deeds.pause_all, jobs, reason="closed", by="anna", **signature),
                partial(deeds.resume_all, list(reversed(jobs)), by="bert", **signature),
            )
    assert len(set(Job.objects.values_list("state", "version"))) == 1  # each round was done to all of them
    versions = JobVersion.objects.exclude(version=1)
    assert AuditEntry.objects.filter(who="bert").count() == versions.filter(changed_by="bert").count()
    assert versions.filter(changed_by="anna").count() == 6 * ROUNDS
