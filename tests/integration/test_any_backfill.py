"""Whatever was planned, skipped, paused, edited, backfilled: each fire is told once, by its own row or by one stretch.

The fires are walked independently of the product: the job fires every minute, so they are whole numbers.
"""

from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from executions import lifecycle
from executions.states import State, Trigger
from jobs import definitions
from jobs.backfill import backfill, preview
from jobs.models import Job
from jobs.refusals import InvalidRun
from tests import firing, rows
from tests.integration.minutely import a_minutely_job, minutes

pytestmark = pytest.mark.django_db

WAIT = st.tuples(st.just("wait"), st.sampled_from([1, 2, 5, 17, 40]))
ASK = st.tuples(st.just("backfill"), st.integers(-3, 45), st.integers(0, 30))
OTHERS = st.sampled_from([("beat",), ("pause",), ("pause_a_while",), ("resume",), ("change",)])
SKIP = st.tuples(st.just("skip"), st.integers(0, 7))
Step = tuple[Any, ...]


class Life:
    """One job, in minutes since it was made."""

    def __init__(self, job: Job, noon: datetime) -> None:
        self.job, self.noon, self.minute = job, noon, 0.5
        self.asked_for: set[int] = set()

    @property
    def now(self) -> datetime:
        return self.noon + minutes(self.minute)

    def wait(self, count: int) -> None:
        self.minute += count

    def beat(self) -> None:
        definitions.resume_due(self.now)
        firing.plan(self.now)

    def pause(self) -> None:
        definitions.pause(self.job, reason="maintenance", now=self.now)

    def pause_a_while(self) -> None:
        definitions.pause(self.job, reason="a while", until=self.now + minutes(4), now=self.now)

    def resume(self) -> None:
        definitions.resume(self.job, now=self.now)

    def change(self) -> None:
        self.job.refresh_from_db()
        definitions.change(self.job, version=self.job.version, kwargs={"at": self.minute}, now=self.now)

    def skip(self, which: int) -> None:
        waiting = rows.of(self.job, state=State.SCHEDULED)
        lifecycle.skip([row.pk for row in waiting[which::3]], reason="expired", now=self.now)

    def backfill(self, ago: int, length: int) -> None:
        start = self.now - minutes(ago)
        asked = {"start": start, "end": start + minutes(length), "now": self.now}
        try:
            seen = preview(self.job, **asked)
        except InvalidRun:
            return
        before = {row.fire_time: row.state for row in rows.of(self.job)}
        assert backfill(self.job, **asked) == seen
        after = {row.fire_time: row for row in rows.of(self.job)}
        for fire in seen.fires:
            row = after[fire.fire_time]
            assert row.skipped_until is None
            if fire.available_at is None:
                assert row.state == before[fire.fire_time] != State.SKIPPED
            else:
                assert (row.state, row.trigger, row.available_at) == (
                    State.SCHEDULED,
                    Trigger.BACKFILL,
                    fire.available_at,
                )
        self.asked_for |= {self._minute(fire.fire_time) for fire in seen.fires}

    def check(self) -> None:
        covered: Counter[int] = Counter()
        for row in rows.of(self.job):
            first, last = self._minute(row.fire_time), self._minute(row.skipped_until or row.fire_time)
            covered.update(range(first, last + 1))
            if row.skipped_until is not None:
                assert (row.state, row.skipped_count) == (State.SKIPPED, last - first + 1)
        next_fire_at = rows.schedule_of(self.job).next_fire_at
        assert next_fire_at is not None
        expected = {*range(1, self._minute(next_fire_at)), *(each for each in self.asked_for if each < 1)}
        assert covered == dict.fromkeys(expected, 1)

    def _minute(self, moment: datetime) -> int:
        minute, rest = divmod(moment - self.noon, minutes(1))
        assert not rest
        return minute


@examples(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(WAIT, ASK, ASK, OTHERS, SKIP), min_size=3, max_size=12))
@example([("wait", 40), ("beat",), ("backfill", 30, 9), ("backfill", 40, 30), ("beat",)])
@example([("pause",), ("wait", 17), ("backfill", 9, 3), ("backfill", 13, 3), ("wait", 5), ("resume",), ("beat",)])
@example([("pause_a_while",), ("wait", 17), ("backfill", 17, 30), ("beat",), ("backfill", 17, 30)])
@example([("wait", 5), ("pause",), ("wait", 5), ("backfill", 3, 0), ("change",), ("backfill", 9, 9), ("resume",)])
def test_every_fire_is_told_once(noon: datetime, steps: list[Step]) -> None:
    with transaction.atomic():
        life = Life(a_minutely_job(noon), noon)
        for name, *given_to_it in steps:
            getattr(life, name)(*given_to_it)
            life.check()
        transaction.set_rollback(True)
