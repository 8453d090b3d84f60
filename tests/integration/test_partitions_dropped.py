"""Old months are dropped whole, and never one in which something has to stay."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction
from django.db.models import Q

from executions import lifecycle, partitions
from executions.models import Attempt, Execution
from executions.partitions import Month
from executions.states import OPEN, State
from jobs.models import Job
from tests.making import a_job, claimed, planned

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
STAYS = {"open": Q(state__in=OPEN), "dead": Q(state=State.DEAD, handled_at=None)}


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def month_with(job: Job, state: State, moment: datetime) -> Month:
    """A month with one attempt that succeeded and one execution of this state."""
    done = planned(job, moment)
    lifecycle.succeed(claimed(done, now=moment), result=None, now=moment)
    row = planned(job, moment.replace(day=2))
    Execution.objects.filter(pk=row.pk).update(state=state)
    return Month.of(moment)


def drop_before(moment: datetime) -> dict[Month, str]:
    """Each month that was over by then, and why it was not dropped; nothing: it was."""
    return {month: partitions.drop(month, unless=STAYS) for month in partitions.ended_before(moment)}


def tables(month: Month) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE %s", [f"onbeat_%{month}"])
        return int(cursor.fetchone()[0])


@contextmanager
def held_elsewhere(statement: str) -> Iterator[None]:
    """Somebody else's transaction that did something and has not ended."""
    other = connection.copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute(statement)
        yield
        other.rollback()
    finally:
        other.close()


def test_months_go_or_stay_by_what_is_in_them(noon: datetime) -> None:
    job = a_job(now=noon)
    states = dict(enumerate(State, start=1))
    for month, state in states.items():
        month_with(job, state, utc(1990, month, 1))
    handled = month_with(job, State.DEAD, utc(1991, 1, 1))
    Execution.objects.filter(fire_time__gte=utc(1991, 1, 1)).update(handled_at=noon)
    why_kept = drop_before(utc(1992, 1, 1))
    stay = {
        Month(1990, month) for month, state in states.items() if state in ("SCHEDULED", "QUEUED", "RUNNING", "DEAD")
    }
    go = {Month(1990, month) for month in states} - stay | {handled}
    assert {month for month, why in why_kept.items() if why} == stay
    assert go <= set(why_kept)
    assert {tables(month) for month in go} == {0}
    assert {tables(month) for month in stay} == {2}
    assert Execution.objects.count() == Attempt.objects.count() + len(stay) == 2 * len(stay)
    dead = next(Month(1990, month) for month, state in states.items() if state == State.DEAD)
    assert (why_kept[dead], why_kept[Month(1990, 1)]) == ("dead", "open")


def test_the_month_in_which_the_moment_lies_stays_to_its_last_instant(noon: datetime) -> None:
    partitions.make([Month(1993, 5), Month(1993, 6), Month(1993, 7)])
    assert Month(1993, 6) not in drop_before(utc(1993, 6, 30, 23, 59, 59, 999999))
    assert tables(Month(1993, 5)) == 0
    assert drop_before(utc(1993, 7, 1))[Month(1993, 6)] == ""
    assert tables(Month(1993, 7)) == 2


def test_a_month_that_was_dropped_comes_back_when_something_falls_into_it(noon: datetime) -> None:
    job = a_job(now=noon)
    month_with(job, State.SUCCEEDED, utc(1994, 1, 1))
    drop_before(utc(1994, 2, 1))
    planned(job, utc(1994, 1, 5))
    assert Execution.objects.get().fire_time == utc(1994, 1, 5)


USES = {
    "a writer": "UPDATE onbeat_execution SET reason = 'x' WHERE fire_time = '1995-01-01+00'",
    "a reader of the month": "SELECT count(*) FROM onbeat_execution_1995_01",
    "a reader of its attempts": "SELECT count(*) FROM onbeat_attempt WHERE fire_time < '1995-01-02'",
    "a reader of another month": "SELECT count(*) FROM onbeat_execution WHERE fire_time > '2026-01-01'",
    "who makes months": f"SELECT pg_advisory_xact_lock({partitions._LOCK})",
}


def test_a_month_that_somebody_uses_stays_until_the_next_time(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_DROPPER_PATIENCE_MS", 50)
    month = month_with(a_job(now=noon), State.SUCCEEDED, utc(1995, 1, 1))
    for who, statement in USES.items():
        with held_elsewhere(statement):
            assert drop_before(utc(1995, 2, 1))[month] == partitions.IN_USE, who
        assert tables(month) == 2
    assert (Execution.objects.count(), Attempt.objects.count()) == (2, 1)
    assert drop_before(utc(1995, 2, 1))[month] == ""


def test_one_month_that_is_kept_does_not_keep_the_others(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_DROPPER_PATIENCE_MS", 50)
    job = a_job(now=noon)
    is_open = month_with(job, State.SCHEDULED, utc(1996, 1, 1))
    done = month_with(job, State.SUCCEEDED, utc(1996, 2, 1))
    why_kept = drop_before(utc(1996, 3, 1))
    assert (why_kept[is_open], why_kept[done]) == ("open", "")


def test_a_month_that_somebody_else_has_just_dropped_is_no_trouble(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two beats may do this duty at once."""
    first, second = Month(1997, 1), Month(1997, 2)
    partitions.make([first, second])
    listed = partitions.existing()
    drop_before(utc(1997, 2, 1))
    monkeypatch.setattr(partitions, "existing", lambda: listed)
    why_kept = drop_before(utc(1997, 3, 1))
    assert (why_kept[first], why_kept[second]) == ("", "")


def test_what_was_decided_within_a_transaction_of_the_caller_is_not_dropped_from_under_it(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "_DROPPER_PATIENCE_MS", 50)
    job = a_job(now=noon)
    with transaction.atomic():
        month = month_with(job, State.SUCCEEDED, utc(1998, 1, 1))
        assert drop_before(utc(1998, 2, 1))[month] == partitions.IN_USE
    assert Execution.objects.count() == 2
