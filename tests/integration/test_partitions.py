"""Monthly partitions on PostgreSQL: made ahead and on demand, of the same make as their parent, looked at one by one.

Each test has years of its own, since a month stays when the test's transaction is rolled back.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from executions import lifecycle, partitions
from executions.models import Attempt, Execution
from executions.partitions import Month
from executions.states import State, Trigger
from jobs import definitions, runs
from jobs.models import Job
from jobs.recurrence import Every
from tests import rows
from tests.making import a_job, claimed, every_minute, planned, seconds

pytestmark = pytest.mark.django_db
TABLE = re.compile(r"onbeat_(?:execution|attempt)_(\d{4}_\d{2})")


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def answer(query: str, *values: object) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())


def tables_of(model: type[Execution] | type[Attempt]) -> list[str]:
    """In which table each row lies, by fire time."""
    found = answer(f"SELECT tableoid::regclass::text FROM {model._meta.db_table} ORDER BY fire_time")
    return [str(name) for (name,) in found]


# ── Months ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_december_is_followed_by_january() -> None:
    assert Month(2026, 12).following == Month(2027, 1)
    assert Month(2026, 11).following == Month(2026, 12)


def test_a_moment_belongs_to_its_month_in_utc() -> None:
    assert Month.of(datetime.fromisoformat("2027-01-01T00:30:00+01:00")) == Month(2026, 12)
    assert Month.of(utc(2028, 2, 29, 23, 59, 59, 999999)) == Month(2028, 2)


def test_months_between_two_moments_include_both_ends() -> None:
    assert partitions.months_between(utc(2026, 11, 30), utc(2027, 2, 1)) == [
        *(Month(2026, 11), Month(2026, 12), Month(2027, 1), Month(2027, 2))
    ]
    assert partitions.months_between(utc(2026, 11, 1), utc(2026, 11, 30, 23)) == [Month(2026, 11)]


@pytest.mark.embedded
def test_without_partitions_every_function_does_nothing(noon: datetime) -> None:
    job = a_job(now=noon)
    planned(job, utc(1999, 12, 31))
    before = rows.everything()
    assert not partitions.are_used()
    assert partitions.make_ahead(noon) == partitions.make([Month(2040, 1)]) == partitions.existing() == []
    assert partitions.ended_before(noon + timedelta(days=999)) == []
    assert rows.everything() == before


# ── Made ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.full
def test_this_month_and_the_next_ones_are_made_ahead_once() -> None:
    now = utc(2061, 11, 30, 23, 59, 59)
    months = [Month(2061, 11), Month(2061, 12), Month(2062, 1), Month(2062, 2)]
    assert partitions.make_ahead(now) == months
    assert partitions.make_ahead(now) == []
    assert partitions.make_ahead(utc(2061, 12, 1)) == [Month(2062, 3)]
    assert set(months) < set(partitions.existing())


@pytest.mark.full
def test_a_far_run_and_a_long_past_fire_make_their_months(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Every(86400, utc(2003, 1, 31)))
    runs.run(job, run_at=utc(2036, 2, 29, 23), now=noon)
    rows.schedule_of(job).__class__.objects.update(next_fire_at=utc(2003, 1, 31))
    definitions.change(job, version=1, priority=9, now=noon)
    assert tables_of(Execution) == ["onbeat_execution_2003_01", "onbeat_execution_2036_02"]
    assert {Month(2003, 1), Month(2036, 2)} < set(partitions.existing())


@pytest.mark.full
def test_a_batch_that_spans_existing_and_missing_months_is_stored_whole(noon: datetime) -> None:
    job = a_job(now=noon)
    partitions.make([Month(2063, 2)])
    moments = [utc(2063, month, 1) for month in (1, 2, 3, 4)]
    lifecycle.plan([job.new_execution(moment, trigger=Trigger.SCHEDULE, now=noon) for moment in moments])
    assert [row.fire_time for row in rows.of(job)] == moments


BOUNDARIES = {
    utc(2064, 2, 29, 23, 59, 59, 999999): "2064_02",
    utc(2064, 3, 1): "2064_03",
    utc(2064, 12, 31, 23, 59, 59, 999999): "2064_12",
    utc(2065, 1, 1): "2065_01",
}


@pytest.mark.full
def test_the_last_microsecond_of_a_month_is_still_in_it_with_its_attempts(noon: datetime) -> None:
    job = a_job(now=noon)
    for moment in BOUNDARIES:
        lifecycle.succeed(claimed(planned(job, moment), now=moment), result=None, now=moment)
    assert tables_of(Execution) == [f"onbeat_execution_{month}" for month in BOUNDARIES.values()]
    assert tables_of(Attempt) == [f"onbeat_attempt_{month}" for month in BOUNDARIES.values()]


def test_a_row_on_the_edge_of_a_month_is_found_by_its_id(noon: datetime) -> None:
    job = a_job(now=noon)
    for moment in BOUNDARIES:
        row = planned(job, moment)
        assert Execution.objects.with_id(row.pk).get().fire_time == moment
    ids = [row.pk for row in rows.of(job)]
    assert Execution.objects.with_ids(ids).count() == len(BOUNDARIES)
    assert Execution.objects.with_ids(ids[:1] + ids[-1:]).count() == 2


@pytest.mark.full
@pytest.mark.django_db(transaction=True)
def test_a_month_made_within_a_transaction_stays_when_that_is_rolled_back(noon: datetime) -> None:
    job = a_job(now=noon)
    with transaction.atomic():
        planned(job, noon)  # the transaction holds locks on the parents already
        planned(job, utc(2066, 1, 1))
        transaction.set_rollback(True)
    assert Month(2066, 1) in partitions.existing()
    assert rows.of(job) == []


# ── Of the same make ─────────────────────────────────────────────────────────────────────────────────────────────


def index_shapes(table: str) -> list[str]:
    """What the indexes of a table are, without the names of index and table."""
    found = answer("SELECT indexdef FROM pg_indexes WHERE tablename = %s", table)
    return sorted(re.sub(r"INDEX \S+ ON (ONLY )?\S+ ", "INDEX ", str(text)) for (text,) in found)


def check_shapes(table: str) -> list[object]:
    query = (
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c'"
    )
    return sorted(answer(query, table))


def column_shapes(table: str) -> list[object]:
    return answer(
        "SELECT column_name, data_type, is_nullable, character_maximum_length FROM information_schema.columns "
        "WHERE table_name = %s ORDER BY ordinal_position",
        table,
    )


@pytest.mark.full
@pytest.mark.parametrize("parent", partitions.PARENTS)
def test_a_new_month_has_the_indexes_checks_and_columns_of_its_parent_and_room_for_updates(parent: str) -> None:
    partitions.make([Month(2067, 1)])
    table = f"{parent}_2067_01"
    assert index_shapes(table) == index_shapes(parent)
    assert check_shapes(table) == check_shapes(parent)
    assert column_shapes(table) == column_shapes(parent)
    ((options,),) = answer("SELECT reloptions FROM pg_class WHERE relname = %s", table)
    assert set(options) == {  # type: ignore[call-overload]
        "fillfactor=70",
        "autovacuum_vacuum_scale_factor=0.05",
        "autovacuum_vacuum_insert_scale_factor=0.1",
    }


@pytest.mark.full
def test_the_parents_have_an_index_for_every_hot_question() -> None:
    wanted = {index.name for index in Execution._meta.indexes} | {"onbeat_execution_once_per_fire"}
    found = {name for (name,) in answer("SELECT indexname FROM pg_indexes WHERE tablename = 'onbeat_execution'")}
    assert found == wanted | {"onbeat_execution_pkey", "onbeat_execution_ended"}


def test_what_is_queued_since_a_moment_has_an_index_in_every_month(is_full: bool) -> None:
    """Also in one that was made later."""
    later = utc(2059, 1, 1)
    partitions.make([Month.of(later)])
    if is_full:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")  # a table of nothing is read whole otherwise
    queued = Execution.objects.filter(state=State.QUEUED, queued_at__lt=later, fire_time__gte=later)
    assert ("onbeat_execution_2059_01_queued_at_idx" if is_full else "onbeat_execution_queued") in queued.explain()


@pytest.mark.full
def test_each_fire_exists_once_and_asked_for_runs_may_share_an_instant(noon: datetime) -> None:
    job, other = a_job(now=noon), a_job(now=noon)
    moment = utc(2068, 1, 1)
    first = planned(job, moment)
    again = job.new_execution(moment, trigger=Trigger.SCHEDULE, now=noon)
    lifecycle.plan([again, job.new_execution(moment + seconds(1), trigger=Trigger.SCHEDULE, now=noon)])
    assert len(rows.of(job)) == 2
    assert rows.of(job)[0].pk == first.pk
    for trigger in (Trigger.SCHEDULE, Trigger.BACKFILL):
        with pytest.raises(IntegrityError, match="duplicate key"), transaction.atomic():
            job.new_execution(moment, trigger=trigger, now=noon).save(force_insert=True)
    planned(other, moment)
    for trigger in (Trigger.DELAYED, Trigger.DELAYED, Trigger.MANUAL, Trigger.REPLAY):
        job.new_execution(moment, trigger=trigger, now=noon).save(force_insert=True)
    assert len(rows.of(job)) == 6


# ── What is no missing month ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.full  # SQLite's way to ignore conflicts ignores these, too
@pytest.mark.parametrize("wrong", [{"state": "WRONG"}, {"attempt": 0}, {"priority": 10}], ids=str)
def test_a_row_that_breaks_another_rule_is_not_taken_for_one_without_a_month(
    wrong: dict[str, object], noon: datetime
) -> None:
    job = a_job(now=noon)
    planned(job, noon)
    row = job.new_execution(noon + seconds(1), trigger=Trigger.SCHEDULE, now=noon)
    for name, value in wrong.items():
        setattr(row, name, value)
    months = partitions.existing()
    with pytest.raises(IntegrityError) as error, transaction.atomic():
        lifecycle.plan([row])
    assert not partitions.is_missing(error.value)
    assert partitions.existing() == months


@pytest.mark.full
def test_a_row_without_a_month_is_known_as_such(noon: datetime) -> None:
    row = a_job(now=noon).new_execution(utc(2069, 1, 1), trigger=Trigger.MANUAL, now=noon)
    with pytest.raises(IntegrityError) as error, transaction.atomic():
        row.save(force_insert=True)
    assert partitions.is_missing(error.value)


def test_any_other_error_is_no_missing_month() -> None:
    assert not partitions.is_missing(IntegrityError("no cause"))
    assert not partitions.is_missing(ValueError())


# ── Looked at one by one ─────────────────────────────────────────────────────────────────────────────────────────


def months_in(plan: str) -> set[str]:
    return set(TABLE.findall(plan))


@pytest.mark.full
def test_each_verb_that_names_an_execution_looks_at_one_month(noon: datetime) -> None:
    job: Job = a_job(now=noon)
    row = planned(job, noon)
    partitions.make_ahead(noon)
    with CaptureQueriesContext(connection) as asked:
        lifecycle.mark_queued([row], now=noon)
        lifecycle.hold([row], reason="x", until=noon)
        claim = claimed(row, now=noon)
        lifecycle.heartbeat([(row.pk, 1)], worker="worker@here", now=noon)
        lifecycle.fail(claim, error="x", now=noon)
        lifecycle.move(row.pk, to=noon, now=noon)
        lifecycle.cancel([row.pk], reason="x", now=noon)
        lifecycle.revive([row])
        lifecycle.skip([row.pk], reason="x", now=noon)
    named = [
        query["sql"]
        for query in asked
        if re.match(r"\s*(SELECT|UPDATE|WITH)", query["sql"]) and "onbeat_exec" in query["sql"]
    ]
    assert len(named) >= 9
    for statement in named:
        plan = "\n".join(str(line) for (line,) in answer(f"EXPLAIN {statement}"))
        assert months_in(plan) == {"2026_06"}, statement


@pytest.mark.full
def test_ids_of_one_month_are_looked_up_in_that_month(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    partitions.make_ahead(noon)
    ids = [planned(job, noon + timedelta(days=n)).pk for n in range(3)]
    assert months_in(Execution.objects.with_ids(ids).explain()) == {"2026_06"}
    assert len(months_in(Execution.objects.filter(pk__in=ids).explain())) > 1
    assert Execution.objects.with_ids([]).count() == 0


@pytest.mark.full
@pytest.mark.django_db(transaction=True)
def test_two_that_miss_the_same_month_at_once_both_get_on(noon: datetime) -> None:
    from tests.races.connections import at_once

    jobs = [a_job(now=noon) for _ in range(2)]
    for year in range(2070, 2075):
        at_once(*(partial(planned, job, utc(year, 1, 1)) for job in jobs))
    assert Execution.objects.filter(state=State.SCHEDULED).count() == 10
