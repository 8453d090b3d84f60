"""An app that keeps its transaction open: beats neither wait for it, nor flood the broker, nor forget the others."""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from django.db import transaction

from beat.tick import Ticker
from beat.upkeep import rescue
from executions import lifecycle
from executions.confirms import Report
from executions.models import Execution
from executions.outgoing import Outgoing
from executions.states import State
from jobs import definitions, runs
from jobs.models import Job, JobState, Schedule
from tests.making import AnsweringPublisher, a_job, a_ticker, asked_for, claimed, every_minute, seconds
from tests.races.connections import elsewhere

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]


class CountingPublisher(AnsweringPublisher):
    """Confirms everything at once and keeps count."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[uuid.UUID] = []

    def answer(self, executions: Sequence[Outgoing]) -> Report:
        self.sent += [execution.pk for execution in executions]
        return super().answer(executions)


def counting_ticker(*, batch_size: int) -> tuple[Ticker, CountingPublisher]:
    publisher = CountingPublisher()
    return a_ticker(publisher, batch_size=batch_size), publisher


def test_a_run_that_an_app_holds_is_not_published_again_and_again(noon: datetime) -> None:
    job = a_job(now=noon)
    runs.run(job, run_key="order-7", now=noon)
    ticker, publisher = counting_ticker(batch_size=100)
    with transaction.atomic():
        runs.cancel(job, "order-7", now=noon)
        for second in range(10):
            elsewhere(lambda second=second: ticker.tick(noon + seconds(second)))
    assert publisher.sent == []


def test_runs_that_an_app_holds_do_not_keep_others_from_being_published(noon: datetime) -> None:
    held = asked_for(a_job(now=noon), 2, now=noon)
    (other,) = asked_for(a_job(now=noon), 1, now=noon + seconds(1))
    ticker, publisher = counting_ticker(batch_size=2)
    with transaction.atomic():
        lifecycle.cancel([row.pk for row in held], reason="not wanted", now=noon)
        report = elsewhere(lambda: ticker.tick(noon + seconds(2)))
    assert publisher.sent == [other.pk]
    assert not report.has_more
    other.refresh_from_db()
    assert other.state == State.QUEUED


def test_schedules_that_an_app_holds_do_not_keep_others_from_being_planned(noon: datetime) -> None:
    jobs = [a_job(now=noon, schedule=every_minute(noon)) for _ in range(3)]
    Schedule.objects.filter(job=jobs[2]).update(next_fire_at=noon + seconds(61))
    with transaction.atomic():
        for job in jobs[:2]:
            definitions.change(job, version=1, owner="me", now=noon)
        ticker, _ = counting_ticker(batch_size=2)
        elsewhere(lambda: ticker.tick(noon + seconds(60)))
    assert Execution.objects.filter(job=jobs[2]).exists()


def test_a_rescue_does_not_wait_for_an_app_that_holds_a_limited_job(noon: datetime) -> None:
    job = a_job(now=noon, max_concurrency=1)
    first, second = asked_for(job, 2, now=noon)
    claimed(first, now=noon)
    late = noon + timedelta(minutes=5)
    with transaction.atomic():
        lifecycle.cancel([second.pk], reason="not wanted", now=noon)
        assert elsewhere(lambda: rescue.rescue_lost_workers(late)) == 0
    assert elsewhere(lambda: rescue.rescue_lost_workers(late)) == 1


def test_the_end_of_a_pause_does_not_wait_for_an_app_that_prolongs_it(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    definitions.pause(job, reason="quiet", until=noon + seconds(30), now=noon)
    with transaction.atomic():
        definitions.pause(job, reason="quieter", until=noon + timedelta(days=1), now=noon)
        assert elsewhere(lambda: definitions.resume_due(noon + seconds(60))) == 0
    assert elsewhere(lambda: definitions.resume_due(noon + seconds(60))) == 0
    assert Job.objects.get().state == JobState.PAUSED
