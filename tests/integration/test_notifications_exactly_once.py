"""A look of the beats tells each thing once: late commits, beats that die, receivers that rest, and what it costs."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from executions.models import Execution
from executions.states import State
from jobs import definitions
from notifications import facts, lookout, notices, receivers
from notifications.kinds import TASK, Kind
from notifications.models import Lookout, Notice, Sighting, Trouble
from tests.making import a_job, given_up, seconds, succeeded
from tests.notifying import a_receiver, delivery_of, fails, kinds, look

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


# ── Exactly once ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_commits_late_is_told(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    look(noon + MINUTE)
    fails(job, noon + MINUTE - seconds(10))  # its moment was before the look, its commit after
    assert len(look(noon + MINUTE + seconds(2))) == 1


def test_what_commits_minutes_late_is_told_within_a_minute(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    look(noon + 9 * MINUTE)
    fails(job, noon + MINUTE)
    made = [look(noon + 9 * MINUTE + seconds(2 * n)) for n in range(40)]
    assert sum(map(len, made)) == 1


def test_what_becomes_known_late_is_counted_when_it_is_told_again(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon + seconds(20))
    assert len(look(noon + seconds(25))) == 1
    fails(job, noon + seconds(15))  # older than what was told
    look(noon + seconds(27))
    (again,) = look(noon + 61 * MINUTE)
    assert again.said["count"] == 1


def test_a_success_ends_also_what_became_known_after_it(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon)
    succeeded(job, noon + seconds(20))
    assert kinds(look(noon + seconds(25))) == [Kind.DEAD_LETTER, Kind.RECOVERY]
    fails(job, noon + seconds(12))
    assert kinds(look(noon + seconds(27))) == [Kind.DEAD_LETTER, Kind.RECOVERY]


@pytest.mark.parametrize(
    "step", ["troubles.add", "notices.tell_troubles", "notices.make", "lookout._tell_what_is_over"]
)
def test_a_beat_that_dies_between_two_steps_leaves_all_to_the_next(
    noon: datetime, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon)
    succeeded(job, noon + seconds(5))
    module, name = step.split(".")
    owner: Any = {"troubles": lookout.troubles, "notices": notices, "lookout": lookout}[module]
    real = getattr(owner, name)

    def dies(*args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        raise DatabaseError("the server went away")

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dies)
        with pytest.raises(DatabaseError):
            look(noon + MINUTE)
    assert not Notice.objects.exists()
    assert not Sighting.objects.exists()
    assert not Execution.objects.filter(task=TASK).exists()
    assert kinds(look(noon + MINUTE)) == [Kind.DEAD_LETTER, Kind.RECOVERY]
    assert Execution.objects.filter(task=TASK).count() == 2


def test_more_than_one_look_can_bear_is_told_by_the_next_ones(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "AT_ONCE", 10)
    a_receiver(now=noon)
    jobs = [a_job(now=noon, max_attempts=1) for _ in range(4)]
    for n in range(35):
        fails(jobs[n % 4], noon + seconds(n))
    made = [len(look(noon + MINUTE + seconds(2 * n))) for n in range(6)]
    assert sum(made) == 4
    assert Sighting.objects.count() == 35
    assert (
        sum(Notice.objects.values_list("said__count", flat=True))
        + sum(Trouble.objects.values_list("untold", flat=True))
        == 35
    )


def test_what_was_seen_is_forgotten_when_nobody_looks_back_so_far(noon: datetime) -> None:
    a_receiver(now=noon)
    fails(a_job(now=noon, max_attempts=1), noon)
    look(noon + MINUTE)
    assert Sighting.objects.count() == 1
    look(noon + 60 * MINUTE)
    assert not Sighting.objects.exists()
    assert look(noon + 61 * MINUTE) == []


def test_notices_go_with_the_days_of_executions(noon: datetime, settings: Any) -> None:
    settings.ONBEAT_EXECUTIONS_RETENTION_DAYS = 2
    a_receiver(now=noon)
    fails(a_job(now=noon, max_attempts=1), noon)
    look(noon + MINUTE)
    look(noon + timedelta(days=3))
    assert not Notice.objects.exists()
    assert not Trouble.objects.exists()


# ── Paused ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_while_its_job_is_paused_a_receiver_hears_nothing_and_later_nothing_of_that_time(noon: datetime) -> None:
    receiver = a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    definitions.pause(receiver.job, reason="quiet, please", now=noon + MINUTE)
    fails(job, noon + 2 * MINUTE)
    assert look(noon + 3 * MINUTE) == []
    definitions.resume(receiver.job, now=noon + 4 * MINUTE)
    assert look(noon + 5 * MINUTE) == []
    fails(job, noon + 6 * MINUTE)
    assert len(look(noon + 7 * MINUTE)) == 1


def test_a_recovery_during_the_pause_is_told_after_it(noon: datetime) -> None:
    receiver = a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon)
    look(noon + MINUTE)
    definitions.pause(receiver.job, reason="", now=noon + 2 * MINUTE)
    succeeded(job, noon + 3 * MINUTE)
    assert look(noon + 4 * MINUTE) == []
    definitions.resume(receiver.job, now=noon + 5 * MINUTE)
    assert kinds(look(noon + 6 * MINUTE)) == [Kind.RECOVERY]


def test_an_archived_job_of_a_receiver_stops_nobody_else(noon: datetime) -> None:
    archived, _ = a_receiver("first", now=noon), a_receiver("second", now=noon)
    definitions.archive(archived.job, now=noon)
    fails(a_job(now=noon, max_attempts=1), noon + MINUTE)
    assert [notice.receiver.name for notice in look(noon + 2 * MINUTE)] == ["second"]


# ── What it costs ────────────────────────────────────────────────────────────────────────────────────────────────


def statements(now: datetime) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        lookout.look(now)
    return len([q for q in captured.captured_queries if "SAVEPOINT" not in q["sql"]])


def test_without_a_receiver_a_look_is_one_question(noon: datetime) -> None:
    given_up(a_job(now=noon), noon, error="x")
    assert statements(noon + MINUTE) == 1
    assert not Lookout.objects.exists()


def test_a_look_takes_as_many_statements_for_a_hundred_jobs_as_for_one(noon: datetime, is_full: bool) -> None:
    a_receiver(now=noon, most_per_hour=1000)
    look(noon)
    assert statements(noon + seconds(1)) <= 11  # quiet; on SQLite its BEGIN is one
    counts = []
    for number, many in enumerate((1, 100)):
        moment = noon + timedelta(hours=2 * number)
        look(moment)
        jobs = [a_job(now=noon, max_attempts=1) for _ in range(many)]
        for job in jobs:
            fails(job, moment + seconds(1))
        told = statements(moment + MINUTE)
        for job in jobs:
            succeeded(job, moment + 2 * MINUTE)
        counts.append((statements(moment + 1.5 * MINUTE), told, statements(moment + 3 * MINUTE)))
    more = [many - one for one, many in zip(*counts, strict=True)]
    assert more == [0, 0, 0] or (not is_full and max(more) <= 2)  # SQLite takes so many values in one
    assert Notice.objects.count() == 202


def test_a_receiver_is_gone_with_what_it_was_to_be_told(noon: datetime) -> None:
    a_receiver(now=noon)
    fails(a_job(now=noon, max_attempts=1), noon)
    (notice,) = look(noon + MINUTE)
    receivers.remove("ops", now=noon + 2 * MINUTE)
    assert delivery_of(notice).state == State.CANCELLED
    assert not Notice.objects.exists()
    assert statements(noon + 3 * MINUTE) == 1
