"""What the verbs count: what was committed, each once, under the label that its row says."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks

from executions import lifecycle, metrics
from executions.lifecycle import tally
from executions.messages import Delivery
from executions.models import Execution
from executions.outcomes import Finish, Held
from executions.retry import RetryPolicy
from executions.states import State
from jobs import definitions
from jobs.misfires import Misfire
from jobs.models import Overlap
from jobs.recurrence import Every
from tests.firing import plan
from tests.making import a_job, asked_for, claimed, every_minute, planned, seconds
from tests.tiers import once_embedded
from workers import runner

pytestmark = [pytest.mark.django_db, once_embedded]

Counted = Callable[[], dict[str, float]]


def all_counts() -> dict[str, float]:
    return {
        " ".join((sample.name.removeprefix("onbeat_").removesuffix("_total"), *sample.labels.values())): sample.value
        for family in metrics.families()
        for sample in family.samples
        if sample.name.endswith(("_total", "_seconds_count"))
    }


@pytest.fixture
def counted() -> Counted:
    """What was counted since the test began, warnings apart."""
    metrics.begin_at_zero()
    before = all_counts()

    def since() -> dict[str, float]:
        found = {name: value - before.get(name, 0.0) for name, value in all_counts().items()}
        return {name: value for name, value in found.items() if value and not name.startswith("warnings")}

    return since


@pytest.fixture
def committed(django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> Any:
    """As if what is done within were committed."""
    return lambda: django_capture_on_commit_callbacks(execute=True)


@pytest.fixture
def row(noon: datetime) -> Execution:
    return planned(a_job(now=noon, retry=RetryPolicy(max_attempts=2)), noon)


def test_a_success_is_an_attempt_and_an_execution(
    row: Execution, counted: Counted, committed: Any, noon: datetime
) -> None:
    with committed():
        lifecycle.succeed(claimed(row, now=noon), result=None, now=noon + seconds(7))
    assert counted() == {"attempts SUCCEEDED": 1, "executions SUCCEEDED": 1, "attempt_seconds_count": 1}


def test_a_failure_is_a_retry_and_the_last_one_a_dead_letter(
    row: Execution, counted: Counted, committed: Any, noon: datetime
) -> None:
    with committed():
        lifecycle.fail(claimed(row, now=noon), error="no", now=noon)
    assert counted() == {"attempts FAILED": 1, "retries": 1, "attempt_seconds_count": 1}
    row.refresh_from_db()
    with committed():
        lifecycle.fail(claimed(row, now=noon), error="no", now=noon)
    assert counted() == {
        "attempts FAILED": 2,
        "retries": 1,
        "dead_letters": 1,
        "executions DEAD": 1,
        "attempt_seconds_count": 2,
    }


def test_an_end_that_is_refused_counts_nothing(
    row: Execution, counted: Counted, committed: Any, noon: datetime
) -> None:
    claim = claimed(row, now=noon)
    with committed():
        lifecycle.succeed(claim, result=None, now=noon)
    before = counted()
    with committed():
        lifecycle.succeed(claim, result=None, now=noon)
        lifecycle.fail(claim, error="no", now=noon)
    assert counted() == before


def test_what_was_cancelled_before_it_ran_is_no_attempt(counted: Counted, committed: Any, noon: datetime) -> None:
    rows = asked_for(a_job(now=noon), 3, now=noon)
    with committed():
        lifecycle.cancel([row.pk for row in rows], reason="by test", now=noon)
        lifecycle.cancel([row.pk for row in rows], reason="by test", now=noon)
    assert counted() == {"executions CANCELLED": 3}


def test_a_worker_that_was_lost_is_an_attempt_that_was_lost(
    row: Execution, counted: Counted, committed: Any, noon: datetime
) -> None:
    claimed(row, now=noon)
    with committed():
        lifecycle.rescue(silent_since=noon + seconds(20), now=noon + seconds(3600))
    assert counted() == {"attempts WORKER_LOST": 1, "retries": 1, "attempt_seconds_count": 1}


def test_what_is_rolled_back_counts_nothing(row: Execution, counted: Counted, committed: Any, noon: datetime) -> None:
    claim = claimed(row, now=noon)

    def half() -> None:
        lifecycle.succeed(claim, result=None, now=noon)
        tally.planned(5)
        tally.skipped([("paused", 2)])
        raise ZeroDivisionError

    with committed(), pytest.raises(ZeroDivisionError), transaction.atomic():
        half()
    assert counted() == {}


def test_fires_are_counted_as_they_are_planned_and_those_that_nobody_could_plan_in_time_as_misfires(
    counted: Counted, committed: Any, noon: datetime
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), misfire=Misfire.FIRE_ONCE)
    with committed():
        while plan(noon + seconds(630)):
            pass
    rows = Execution.objects.filter(job_id=job.pk)
    stretch = rows.get(state=State.SKIPPED)
    assert counted() == {
        "fires_planned": rows.exclude(state=State.SKIPPED).count(),
        "fires_skipped misfire": stretch.skipped_count,
    }


def test_what_finds_no_room_is_left_out_for_its_overlap(counted: Counted, committed: Any, noon: datetime) -> None:
    first, second = asked_for(a_job(now=noon, overlap=Overlap.SKIP, max_concurrency=1), 2, now=noon)
    claimed(first, now=noon)
    with committed():
        held = lifecycle.claim(second.pk, 1, worker="w", now=noon + seconds(1))
    assert isinstance(held, Held)
    assert (held.state, counted()) == (State.SKIPPED, {"fires_skipped overlap": 1})


def test_fires_of_a_pause_are_left_out_for_it_and_others_for_other_reasons(
    counted: Counted, committed: Any, noon: datetime
) -> None:
    job = a_job(now=noon, schedule=Every(1, noon))
    assert plan(noon) == 5
    with committed():
        definitions.pause(job, reason="quiet", now=noon + seconds(2))
    assert counted() == {"fires_skipped paused": 2}
    with committed():
        definitions.resume(job, now=noon + seconds(10))
    skipped = Execution.objects.filter(state=State.SKIPPED)
    assert counted() == {"fires_skipped paused": sum(row.skipped_count or 1 for row in skipped)}
    with committed():
        tally.skipped([("the job was archived before this was published", 2), ("", 1)])
    assert counted()["fires_skipped other"] == 3


def test_nothing_that_was_left_out_or_planned_is_no_count(counted: Counted, committed: Any) -> None:
    with committed() as callbacks:
        tally.skipped([])
        tally.skipped([("paused", 0)])
        tally.planned(0)
    assert (callbacks, counted()) == ([], {})


@pytest.mark.embedded  # PostgreSQL ends an attempt in one statement, which commits by itself
def test_a_finish_whose_answer_was_lost_counts_once(
    transactional_db: None, counted: Counted, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was committed, and nobody heard: who looks what became of it finds it, and counts it."""
    for name in ("SHORT_SECONDS", "LONG_SECONDS"):
        monkeypatch.setattr(runner, name, (0, 0, 0))
    row = planned(a_job(now=noon), noon)
    backend, is_first = type(connections["default"]), iter([True])
    commit = backend._commit

    def unheard(line: Any) -> None:
        commit(line)
        if next(is_first, False):
            raise OperationalError("the line was cut")

    real = lifecycle.succeed

    def succeed(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(backend, "_commit", unheard)
        return real(*args, **options)

    monkeypatch.setattr(lifecycle, "succeed", succeed)
    ended = runner.run(Delivery(row.pk, 1, row.fire_time, row.job.key), worker="w", call=lambda: None)
    assert next(is_first, None) is None  # the answer was lost indeed
    assert ended.finish is Finish.SUCCEEDED
    assert counted() == {"attempts SUCCEEDED": 1, "executions SUCCEEDED": 1, "attempt_seconds_count": 1}
