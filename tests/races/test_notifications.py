"""Several beats that look at once, and facts that commit while they look: each is told once."""

from datetime import datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from executions.models import Execution
from notifications import lookout, receivers
from notifications.kinds import TASK, Kind
from notifications.models import Lookout, Notice, Sighting
from tests.making import a_job, seconds, succeeded
from tests.notifying import a_receiver, fails
from tests.races.connections import elsewhere, several, waits_for_us

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]

ROUNDS = 10
MINUTE = timedelta(minutes=1)


def deliveries() -> int:
    return Execution.objects.filter(task=TASK).count()


def test_three_beats_at_once_tell_each_fact_once(noon: datetime) -> None:
    a_receiver(now=noon, most_per_hour=1000)
    with several(3) as start_all:
        start_all(*[partial(lookout.look, noon)] * 3)
        for number in range(ROUNDS):
            moment = noon + number * MINUTE
            for _ in range(5):
                fails(a_job(now=noon, max_attempts=1), moment)
            made = start_all(*[partial(lookout.look, moment + seconds(10))] * 3)
            assert sum(made) == 5
            assert sorted(made) == [0, 0, 5]
    assert (Notice.objects.count(), deliveries(), Lookout.objects.count()) == (5 * ROUNDS, 5 * ROUNDS, 1)


def test_who_finds_another_at_it_leaves_it_at_that(noon: datetime) -> None:
    a_receiver(now=noon)
    lookout.look(noon)
    fails(a_job(now=noon, max_attempts=1), noon)
    with transaction.atomic():
        assert lookout.look(noon + MINUTE) == 1
        assert elsewhere(partial(lookout.look, noon + MINUTE)) == 0
        assert elsewhere(Notice.objects.count) == 0
    assert elsewhere(partial(lookout.look, noon + MINUTE)) == 0
    assert (Notice.objects.count(), deliveries()) == (1, 1)


def test_beats_that_come_to_an_empty_table_at_once_share_one_row(noon: datetime) -> None:
    a_receiver(now=noon)
    fails(a_job(now=noon, max_attempts=1), noon)
    with several(3) as start_all:
        start_all(*[partial(lookout.look, noon + MINUTE)] * 3)
    assert (Lookout.objects.count(), Notice.objects.count()) == (1, 1)


def test_a_beat_that_is_broken_off_leaves_its_facts_to_another(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon)
    with transaction.atomic():
        assert lookout.look(noon + MINUTE) == 1
        transaction.set_rollback(True)  # as when its process was killed
    assert (Sighting.objects.count(), deliveries()) == (0, 0)
    assert elsewhere(partial(lookout.look, noon + MINUTE)) == 1
    assert (Notice.objects.count(), deliveries()) == (1, 1)


def test_a_failure_that_commits_after_a_look_at_its_moment_is_told(noon: datetime) -> None:
    a_receiver(now=noon)
    job, other = (a_job(now=noon, max_attempts=1) for _ in range(2))
    lookout.look(noon)
    with transaction.atomic():
        fails(job, noon + MINUTE)
        fails_elsewhere = partial(fails, other, noon + MINUTE + seconds(5))
        elsewhere(fails_elsewhere)
        assert elsewhere(partial(lookout.look, noon + MINUTE + seconds(10))) == 1  # of the other
    assert lookout.look(noon + MINUTE + seconds(12)) == 1
    assert set(Notice.objects.values_list("job_key", flat=True)) == {job.key, other.key}


def test_a_recovery_is_told_once_by_beats_at_once(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    with several(2) as start_both:
        for number in range(ROUNDS):
            moment = noon + 3 * number * MINUTE
            fails(job, moment)
            start_both(*[partial(lookout.look, moment + seconds(30))] * 2)
            succeeded(job, moment + MINUTE)
            start_both(*[partial(lookout.look, moment + 2 * MINUTE)] * 2)
    kinds = list(Notice.objects.order_by("pk").values_list("kind", flat=True))
    assert kinds == [Kind.DEAD_LETTER, Kind.RECOVERY] * ROUNDS


def test_a_receiver_that_is_removed_while_somebody_looks_is_gone_afterwards(noon: datetime) -> None:
    a_receiver(now=noon)
    lookout.look(noon)
    fails(a_job(now=noon, max_attempts=1), noon)
    with transaction.atomic():
        assert lookout.look(noon + MINUTE) == 1
        removal = waits_for_us(partial(receivers.remove, "ops"))
    removal.result(timeout=60)
    assert Notice.objects.count() == 0
    assert set(Execution.objects.filter(task=TASK).values_list("state", flat=True)) == {"CANCELLED"}
    assert lookout.look(noon + 2 * MINUTE) == 0
