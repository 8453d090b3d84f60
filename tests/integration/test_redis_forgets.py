"""A Redis that was flushed, restarted, or evicts: no schedule is in it, and a lease that is gone ends nothing."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest
import redis
from django.conf import settings

from beat import planning
from beat.lease import Leases, execution_key
from beat.members import Members
from beat.planning import Planner
from beat.tick import Ticker
from executions import lifecycle
from executions.dispatch import Publisher
from executions.models import Execution
from executions.outgoing import Outgoing
from executions.redis_link import RedisLink
from executions.states import State
from jobs.misfires import plan_fires
from jobs.recurrence import Cron, Once
from tests import rows
from tests.integration.conftest import Queues
from tests.making import a_job, a_ticker, every_minute, seconds
from tests.rows import everything

pytestmark = [pytest.mark.django_db, pytest.mark.full]


class Forgetful:
    """Redis, as the beats of one test see it."""

    def __init__(self) -> None:
        self.prefix = f"t{uuid.uuid4().hex[:10]}."
        self.link = RedisLink(settings.REDIS_URL, prefix=self.prefix)
        self.client = redis.Redis.from_url(settings.REDIS_URL)

    def names(self) -> set[str]:
        return {key.decode().removeprefix(self.prefix) for key in self.client.scan_iter(f"{self.prefix}*", count=1000)}

    def forget_all(self) -> None:
        """As after FLUSHALL or a restart without a snapshot, for this test alone."""
        for key in self.names():
            self.client.delete(self.prefix + key)

    def a_beat(self, name: str, publisher: Publisher) -> Ticker:
        """One that takes real leases."""
        Members(self.link, beat=name).renew()
        one = a_ticker(publisher)
        one.leases = Leases(self.link, holder=name, life=seconds(10))
        one.planner = Planner(one.leases, look_ahead=seconds(5), batch_size=100)
        return one


@pytest.fixture
def forgetful() -> Iterator[Forgetful]:
    one = Forgetful()
    yield one
    one.forget_all()
    one.client.close()


def test_a_redis_that_forgets_everything_loses_no_schedule(
    noon: datetime, publisher: Publisher, broker: Queues, forgetful: Forgetful
) -> None:
    minutely = a_job(now=noon, schedule=every_minute(noon))
    nightly, once = a_job(now=noon, schedule=Cron("0 3 * * *")), a_job(now=noon, schedule=Once(noon + seconds(150)))
    before = everything()
    forgetful.forget_all()
    assert everything() == before
    beat = forgetful.a_beat("me", publisher)
    for second in range(55, 181, 5):
        beat.tick(noon + seconds(second))
        forgetful.forget_all()
    assert [row.fire_time for row in rows.of(minutely)] == [noon + seconds(n) for n in (60, 120, 180)]
    assert [row.fire_time for row in rows.of(once)] == [noon + seconds(150)]
    assert rows.of(nightly) == []
    assert set(Execution.objects.values_list("state", flat=True)) == {State.QUEUED}
    assert len(broker.take_all()) == 4


def test_nothing_but_leases_and_names_of_members_is_kept_in_redis(
    noon: datetime, publisher: Publisher, broker: Queues, forgetful: Forgetful
) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    beat = forgetful.a_beat("me", publisher)
    beat.tick(noon + seconds(57))
    (row,) = Execution.objects.all()
    assert forgetful.names() == {"members", execution_key(row)}
    assert all(forgetful.client.pttl(forgetful.prefix + key) > 0 for key in forgetful.names())
    beat.tick(noon + seconds(60))
    assert forgetful.names() == {"members"}


@pytest.mark.parametrize("is_taken", [False, True], ids=["gone", "taken by another"])
def test_a_lease_that_is_lost_between_plan_and_publish_ends_no_beat_and_sends_nothing_twice(
    is_taken: bool, noon: datetime, publisher: Publisher, broker: Queues, forgetful: Forgetful
) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    me = forgetful.a_beat("me", publisher)
    assert me.tick(noon + seconds(57)).planned == 1
    forgetful.forget_all()
    other = forgetful.a_beat("other", publisher)
    (row,) = Execution.objects.all()
    if is_taken:
        assert other.leases.take([execution_key(row)]) == [True]
    assert me.tick(noon + seconds(60)).published == (0 if is_taken else 1)
    assert other.tick(noon + seconds(60)).published == (1 if is_taken else 0)
    assert (me.tick(noon + seconds(61)).published, other.tick(noon + seconds(61)).published) == (0, 0)
    assert [message.headers["id"] for message in broker.take_all()] == [str(row.pk)]
    assert me.tick(noon + seconds(117)).planned == 1  # and it lives on


@pytest.mark.parametrize("is_taken", [False, True], ids=["gone", "taken by another"])
def test_a_lease_that_is_lost_while_its_message_is_being_sent_ends_no_beat_and_stays_with_who_took_it(
    is_taken: bool,
    noon: datetime,
    publisher: Publisher,
    broker: Queues,
    forgetful: Forgetful,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    me = forgetful.a_beat("me", publisher)
    other = Leases(forgetful.link, holder="other", life=seconds(10))
    mark = lifecycle.mark_queued

    def lose_the_lease_and_mark(confirmed: Sequence[Outgoing], **moments: datetime) -> int:
        forgetful.forget_all()
        if is_taken:
            Members(forgetful.link, beat="other").renew()
            other.take([execution_key(row) for row in Execution.objects.all()])
        return mark(confirmed, **moments)

    monkeypatch.setattr(lifecycle, "mark_queued", lose_the_lease_and_mark)
    assert me.tick(noon + seconds(60)).published == 1
    (row,) = Execution.objects.all()
    assert row.state == State.QUEUED
    assert forgetful.names() == ({"members", execution_key(row)} if is_taken else set())
    assert me.tick(noon + seconds(120)).published == 1  # and it lives on


def test_two_beats_that_both_believe_to_hold_the_lease_make_one_row(
    noon: datetime, publisher: Publisher, broker: Queues, forgetful: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a fail-over to a replica that never heard of the lease."""
    job = a_job(now=noon, schedule=every_minute(noon))
    me, other = (forgetful.a_beat(name, publisher) for name in ("me", "other"))
    work_out = plan_fires

    def while_the_other_does_the_same(*args: Any, **kwargs: Any) -> object:
        monkeypatch.setattr(planning, "plan_fires", work_out)
        forgetful.forget_all()
        assert other.tick(noon + seconds(60)).planned == 1
        return work_out(*args, **kwargs)

    monkeypatch.setattr(planning, "plan_fires", while_the_other_does_the_same)
    report = me.tick(noon + seconds(60))
    assert (report.planned, report.published) == (0, 0)
    assert [row.fire_time for row in rows.of(job)] == [noon + seconds(60)]
    assert len(broker.take_all()) == 1
