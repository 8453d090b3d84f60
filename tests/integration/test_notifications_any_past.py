"""Whatever happens, and however often and late somebody looks: each fact is counted once, and told in order."""

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from executions.models import Execution
from notifications.kinds import TASK, Kind
from notifications.models import Notice, Sighting, Trouble
from tests.making import a_job, seconds, succeeded
from tests.notifying import a_receiver, fails, look
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
NOON = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
EXAMPLES = int(os.environ.get("TEST_EXAMPLES", "40"))

# What happens: a job fails or succeeds so many seconds before it is committed, somebody looks, or time passes.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fails"), st.integers(0, 2), st.integers(0, 12)),
        st.tuples(st.just("succeeds"), st.integers(0, 2), st.integers(0, 12)),
        st.tuples(st.just("look"), st.just(0), st.just(0)),
        st.tuples(st.just("later"), st.integers(1, 40), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=EXAMPLES)
@given(steps=STEPS, most=st.sampled_from([1, 2, 1000]), kind=st.sampled_from(["failure", "dead_letter"]))
def test_each_fact_is_counted_once_and_told_in_order(steps: list[Any], most: int, kind: str) -> None:
    with transaction.atomic():
        check(steps, most, kind)
        transaction.set_rollback(True)


def check(steps: list[Any], most: int, kind: str) -> None:
    jobs = [a_job(key=f"job-{n}", now=NOON, max_attempts=1) for n in range(3)]
    receiver = a_receiver(now=NOON, events=[kind, "recovery"], most_per_hour=most)
    now, failures = NOON + timedelta(minutes=1), Counter[str]()
    for what, which, ago in steps:
        now += seconds(0.1)  # no two things at one moment
        match what:
            case "fails":
                fails(jobs[which], now - seconds(ago))
                failures[jobs[which].key] += 1
            case "succeeds":
                succeeded(jobs[which], now - seconds(ago))
            case "look":
                look(now)
            case "later":
                now += seconds(which * 60)
    now += timedelta(minutes=2)
    look(now)
    look(now + seconds(2))
    assert Sighting.objects.count() == sum(failures.values()) or now - NOON > timedelta(minutes=25)
    told = list(Notice.objects.order_by("pk"))
    counted = Counter[str]()
    for notice in told:
        counted[notice.job_key] += notice.said["count"]
    for trouble in Trouble.objects.select_related("job"):
        counted[trouble.job.key] += trouble.untold
    receiver.refresh_from_db()
    if most == 1000:
        assert counted == +failures
        assert receiver.passed_over == 0
    assert all(counted[key] <= count for key, count in failures.items())
    for job in jobs:
        kinds = [notice.kind for notice in told if notice.job_key == job.key]
        assert kinds[:1] in ([], [kind])
        assert (Kind.RECOVERY, Kind.RECOVERY) not in list(pairwise(kinds))
    assert Execution.objects.filter(task=TASK).count() == len(told)
    assert len({(notice.kind, notice.subject) for notice in told}) == len(told)
    made_at = [notice.made_at for notice in told if notice.kind != Kind.RECOVERY]
    for moment in made_at:
        assert sum(moment - timedelta(hours=1) < other <= moment for other in made_at) <= most
