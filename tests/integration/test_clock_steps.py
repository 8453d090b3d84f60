"""A clock that is set forward or back between two ticks: nothing loops, nothing stalls, every fire has its row once."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from executions.dispatch import Publisher
from executions.messages import delivery
from executions.models import Execution
from executions.states import State
from jobs.models import Job
from jobs.recurrence import Cron, Every, Once
from tests import rows
from tests.integration.conftest import Queues
from tests.making import a_job, a_ticker, every_minute, seconds

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def told(job: Job) -> list[datetime]:
    """All fires of a job that have a row, alone or within a stretch of those that are ten minutes apart."""
    return [row.fire_time + minutes(10 * n) for row in rows.of(job) for n in range(row.skipped_count or 1)]


def messages(broker: Queues) -> Counter[str]:
    """How often each execution was sent."""
    found = [delivery(message.headers) for message in broker.take_all()]
    return Counter(str(each.execution_id) for each in found if each is not None)


def jobs_that_fire_every_ten_minutes(noon: datetime) -> list[Job]:
    return [
        a_job(now=noon, schedule=Cron("*/10 * * * *")),
        a_job(now=noon, schedule=Cron("*/10 * * * *", "America/New_York"), misfire="FIRE_ALL"),
        a_job(now=noon, schedule=Every(600, noon), misfire="SKIP", misfire_grace_seconds=0),
    ]


def assert_each_was_sent_once(broker: Queues) -> None:
    queued = Execution.objects.filter(state=State.QUEUED).values_list("pk", flat=True)
    assert messages(broker) == Counter(str(pk) for pk in queued)
    assert not Execution.objects.filter(state=State.SCHEDULED).exists()


def test_after_an_hour_forward_and_back_between_two_ticks_every_fire_has_one_row_and_one_message_at_most(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    jobs = jobs_that_fire_every_ten_minutes(noon)
    once = a_job(now=noon, schedule=Once(noon + minutes(30)))
    beat = a_ticker(publisher)
    for step in (9, 10, 12):
        beat.tick(noon + minutes(step))
    assert beat.tick(noon + minutes(12) + HOUR).planned == 1 + 6 + 0 + 1  # the latest; all; none; the one-off
    for step in range(12, 70):
        report = beat.tick(noon + minutes(step))  # back again: what lies ahead by this clock has its row
        assert (report.planned, report.published, report.has_more) == (0, 0, False)
    for step in range(70, 101, 5):
        beat.tick(noon + minutes(step))
    for job in jobs:
        assert told(job) == [noon + minutes(10 * n) for n in range(1, 11)]
    assert [row.fire_time for row in rows.of(once)] == [noon + minutes(30)]
    assert_each_was_sent_once(broker)


def test_after_an_hour_back_a_beat_waits_for_the_time_that_it_had_and_sends_nothing_again(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    jobs = jobs_that_fire_every_ten_minutes(noon)
    once = a_job(now=noon, schedule=Once(noon + minutes(15)))
    beat = a_ticker(publisher)
    for step in range(5, 21, 5):
        beat.tick(noon + minutes(step))
    before = Execution.objects.count()
    for step in range(-40, 30, 2):
        report = beat.tick(noon + minutes(step))
        assert (report.planned, report.published, report.has_more) == (0, 0, False)
    assert Execution.objects.count() == before == 3 * 2 + 1
    for step in range(30, 41, 5):
        beat.tick(noon + minutes(step))
    for job in jobs:
        assert told(job) == [noon + minutes(10 * n) for n in range(1, 5)]
    assert len(rows.of(once)) == 1
    assert_each_was_sent_once(broker)


def test_a_beat_that_starts_after_the_clock_was_set_back_does_not_fire_again_either(
    noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    first = a_ticker(publisher)
    for step in (1, 2, 3):
        first.tick(noon + minutes(step))
    second = a_ticker(publisher)
    for step in (-57, 1, 2, 3):
        assert second.tick(noon + minutes(step)).published == 0
    assert second.tick(noon + minutes(4)).published == 1
    assert [row.fire_time for row in rows.of(job)] == [noon + minutes(n) for n in (1, 2, 3, 4)]
    assert_each_was_sent_once(broker)


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["forward", "back"])
def test_what_waited_for_the_broker_while_the_clock_was_stepped_is_sent_once_when_its_time_has_come(
    step: timedelta, noon: datetime, publisher: Publisher, broker: Queues
) -> None:
    job = a_job(now=noon, schedule=Once(noon + seconds(3)))
    beat = a_ticker(publisher)
    assert (beat.tick(noon).planned, len(rows.of(job, state=State.SCHEDULED))) == (1, 1)
    assert beat.tick(noon + step).published == (1 if step > timedelta(0) else 0)
    beat.tick(noon + seconds(4))
    beat.tick(noon + seconds(5))
    assert len(rows.of(job)) == 1
    assert_each_was_sent_once(broker)
