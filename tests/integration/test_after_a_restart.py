"""A beat that starts, and what happened while none ran: nothing is moved silently, sent again, or run unasked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import current_app

from executions import lifecycle
from executions.dispatch import Publisher
from executions.models import Execution
from executions.outcomes import Claim
from executions.states import State
from jobs import definitions, runs
from jobs.models import Job
from jobs.recurrence import Cron, Once
from tests import rows
from tests.integration.conftest import Queues
from tests.making import a_job, a_ticker, every_minute, seconds
from tests.rows import schedule_of

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


@pytest.fixture
def midnight() -> datetime:
    return datetime(2026, 6, 16, tzinfo=UTC)


def a_nightly_job(midnight: datetime, **more: Any) -> Job:
    return a_job(now=midnight - timedelta(hours=12), schedule=Cron("0 0 * * *"), **more)


def sent(broker: Queues) -> list[str]:
    """The executions whose messages are in the queue, in their order."""
    return [message.headers["id"] for message in broker.take_all()]


# ── Fires that were due while no beat ran ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("late", [seconds(40), minutes(61), timedelta(hours=23)], ids=str)
def test_a_fire_missed_while_no_beat_ran_is_not_moved_to_the_next_time_but_runs_when_one_starts(
    late: timedelta, midnight: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_nightly_job(midnight)
    beat = a_ticker(publisher)
    assert beat.tick(midnight + late).published == 1
    assert beat.tick(midnight + late + seconds(1)).published == 0
    (row,) = rows.of(job)
    assert (row.fire_time, row.state) == (midnight, State.QUEUED)
    assert schedule_of(job).next_fire_at == midnight + DAY
    assert sent(broker) == [str(row.pk)]


def test_saying_a_definition_again_when_an_app_starts_does_not_move_its_missed_fire(
    midnight: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_nightly_job(midnight)
    now = midnight + minutes(5)
    definitions.change(job, version=1, schedule=Cron("0 0 * * *"), priority=5, now=now)
    assert a_ticker(publisher).tick(now).published == 1
    assert [row.fire_time for row in rows.of(job)] == [midnight]


def test_with_the_policy_to_skip_a_start_runs_nothing_of_the_past_and_each_job_says_so(
    midnight: datetime, publisher: Publisher, broker: Queues
) -> None:
    to_skip: dict[str, Any] = {"misfire": "SKIP", "misfire_grace_seconds": 0}
    before = midnight - minutes(300)
    jobs = [
        a_job(now=before, schedule=schedule, **to_skip)
        for schedule in (Cron("0 0 * * *"), Cron("0 * * * *"), every_minute(before), Once(midnight - minutes(1)))
    ]
    beat, now = a_ticker(publisher), midnight + seconds(30)
    for second in range(3):
        report = beat.tick(now + seconds(second))
        assert (report.planned, report.published) == (0, 0)
    assert [(row.state, row.skipped_count) for job in jobs for row in rows.of(job)] == [
        *((State.SKIPPED, 1), (State.SKIPPED, 5), (State.SKIPPED, 300), (State.SKIPPED, 1))
    ]
    assert {row.reason for row in Execution.objects.all()} == {
        "misfire: no beat could plan these in time; the policy is to skip them"
    }


@pytest.mark.parametrize(("late", "runs_after_all"), [(minutes(59), True), (minutes(61), False)], ids=str)
def test_how_late_a_nightly_job_may_still_start_is_for_its_schedule_to_say(
    late: timedelta, runs_after_all: bool, midnight: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_nightly_job(midnight, misfire="SKIP", misfire_grace_seconds=3600)
    assert a_ticker(publisher).tick(midnight + late).published == runs_after_all
    assert [row.state for row in rows.of(job)] == [State.QUEUED if runs_after_all else State.SKIPPED]


# ── What was sent, or nearly ─────────────────────────────────────────────────────────────────────────────────────


def test_a_broker_that_is_away_at_midnight_gets_the_nightly_message_when_it_is_back(
    midnight: datetime, publisher: Publisher, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_nightly_job(midnight)
    beat = a_ticker(publisher)
    with monkeypatch.context() as away:
        away.setitem(current_app.conf, "broker_write_url", "amqp://127.0.0.1:1//")
        for second in (-2, 0, 1):
            assert beat.tick(midnight + seconds(second)).published == 0
        assert [row.state for row in rows.of(job)] == [State.SCHEDULED]
    assert beat.tick(midnight + seconds(7)).published == 1
    assert beat.tick(midnight + seconds(8)).published == 0
    (row,) = rows.of(job)
    assert (row.fire_time, row.state, row.attempt) == (midnight, State.QUEUED, 1)
    assert sent(broker) == [str(row.pk)]


def test_a_beat_that_dies_between_sending_and_noting_it_sends_twice_and_one_of_the_two_runs(
    noon: datetime, publisher: Publisher, broker: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(now=noon, schedule=Once(noon + seconds(1)))
    with monkeypatch.context() as dying:
        dying.setattr(
            "beat.tick.lifecycle.mark_queued", lambda *_rows, **_now: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            a_ticker(publisher).tick(noon + seconds(1))
    assert a_ticker(publisher).tick(noon + seconds(3)).published == 1
    (row,) = rows.of(job)
    assert sent(broker) == [str(row.pk)] * 2
    claims = [lifecycle.claim(row.pk, 1, worker=worker, now=noon + seconds(4)) for worker in ("first", "second")]
    assert [isinstance(claim, Claim) for claim in claims] == [True, False]


def test_what_was_cancelled_stays_cancelled_for_a_beat_that_starts_later(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_job(now=noon)
    runs.run(job, run_at=noon + minutes(5), run_key="reminder", now=noon)
    assert a_ticker(publisher).tick(noon + seconds(1)).published == 0
    runs.cancel(job, "reminder", now=noon + minutes(1))
    for minute in (5, 6, 60):
        assert a_ticker(publisher).tick(noon + minutes(minute)).published == 0
    assert [row.state for row in rows.of(job)] == [State.CANCELLED]
