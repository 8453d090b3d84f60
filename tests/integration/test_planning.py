"""The plan step: which schedules become executions, and what is written."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from beat import shards
from beat.planning import Planned
from beat.shards import ALL
from executions.models import Execution
from executions.states import State, Trigger
from jobs.models import Schedule
from jobs.recurrence import Cron, Once
from tests.firing import plan
from tests.making import a_job, a_planner, every_minute, planned, seconds

pytestmark = pytest.mark.django_db


def test_a_fire_within_the_look_ahead_becomes_an_execution(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("*/10 * * * *"), kwargs={"tenant": "acme"}, queue="batch-etl", priority=8)
    assert plan(noon + timedelta(minutes=9, seconds=57)) == 1
    execution = Execution.objects.get()
    assert (execution.job, execution.trigger, execution.state) == (job, Trigger.SCHEDULE, State.SCHEDULED)
    assert execution.fire_time == execution.available_at == noon + timedelta(minutes=10)
    assert (execution.kwargs, execution.queue, execution.priority) == ({"tenant": "acme"}, "batch-etl", 8)
    schedule = Schedule.objects.get()
    assert (schedule.next_fire_at, schedule.version) == (noon + timedelta(minutes=20), 2)


def test_a_fire_beyond_the_look_ahead_waits(noon: datetime) -> None:
    a_job(now=noon, schedule=Cron("*/10 * * * *"))
    assert plan(noon + timedelta(minutes=9, seconds=54)) == 0
    assert not Execution.objects.exists()


def test_a_second_look_plans_nothing_new(noon: datetime) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    now = noon + seconds(58)
    assert plan(now) == 1
    assert plan(now) == 0
    assert Execution.objects.count() == 1


def test_a_one_off_fires_once_and_never_again(noon: datetime) -> None:
    a_job(now=noon, schedule=Once(noon + seconds(3)))
    assert plan(noon) == 1
    assert plan(noon + timedelta(days=1)) == 0
    assert Schedule.objects.get().next_fire_at is None


def test_an_inactive_schedule_is_left_alone(noon: datetime) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    Schedule.objects.update(is_active=False)
    assert plan(noon + timedelta(hours=1)) == 0


@pytest.mark.parametrize("edit", [{"version": 99}, {}], ids=["an edit of ours", "plain SQL"])
def test_a_schedule_that_changed_after_it_was_read_is_not_planned(
    noon: datetime, monkeypatch: pytest.MonkeyPatch, edit: dict[str, int]
) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    from beat import planning

    original = planning.plan_fires

    def edit_meanwhile(*args: object, **kwargs: object) -> object:
        Schedule.objects.update(next_fire_at=noon + timedelta(days=1), **edit)
        return original(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(planning, "plan_fires", edit_meanwhile)
    assert plan(noon + seconds(58)) == 0
    assert Schedule.objects.get().next_fire_at == noon + timedelta(days=1)


def test_fires_missed_within_the_grace_all_run(noon: datetime) -> None:
    a_job(now=noon, schedule=Cron("*/10 * * * * *"))
    plan(noon + seconds(41))
    assert Execution.objects.filter(state=State.SCHEDULED).count() == 4


def test_of_older_missed_fires_the_latest_runs_and_the_others_are_one_row(noon: datetime) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    now = noon + timedelta(hours=4, seconds=30)
    plan(now)
    run = Execution.objects.filter(state=State.SCHEDULED).order_by("fire_time")
    assert [row.fire_time for row in run] == [noon + timedelta(minutes=239), noon + timedelta(minutes=240)]
    skipped = Execution.objects.get(state=State.SKIPPED)
    assert (skipped.fire_time, skipped.skipped_until) == (noon + timedelta(minutes=1), noon + timedelta(minutes=238))
    assert skipped.skipped_count == 238
    assert skipped.reason.startswith("misfire")


@pytest.mark.parametrize("breakage", [{"timezone": "Mars/Olympus"}, {"kind": "EVERY"}, {"kind": "NEVER"}])
def test_a_schedule_broken_behind_our_back_does_not_stop_the_others_and_can_be_mended(
    noon: datetime, breakage: dict[str, str]
) -> None:
    broken = a_job(now=noon, schedule=Cron("* * * * *"))
    Schedule.objects.filter(job=broken).update(**breakage)
    a_job(now=noon, schedule=every_minute(noon))
    one = a_planner()
    assert one.plan_due(now=noon + seconds(58)).fires == 1
    assert one.plan_due(now=noon + seconds(58)).fires == 0
    assert Execution.objects.exclude(job=broken).count() == 1
    Schedule.objects.filter(job=broken).update(timezone="UTC", kind="CRON")
    one.plan_due(now=noon + seconds(119))
    assert Execution.objects.filter(job=broken).count() == 2


def test_a_beat_plans_the_jobs_of_its_shards_and_leaves_the_others(noon: datetime) -> None:
    jobs = [a_job(now=noon, schedule=every_minute(noon)) for _ in range(5)]
    mine = frozenset(job.pk % 64 for job in jobs[:2])
    now = noon + seconds(58)
    assert a_planner("one").plan_due(now=now, among=mine).fires == 2
    assert set(Execution.objects.values_list("job_id", flat=True)) == {job.pk for job in jobs[:2]}
    assert a_planner("other").plan_due(now=now, among=ALL - mine).fires == 3
    assert a_planner("late").plan_due(now=now).fires == 0


@pytest.mark.parametrize("moved", [-20, 45], ids=["sooner", "later"])
def test_a_fire_that_was_moved_by_sql_comes_when_the_sql_says(noon: datetime, moved: int) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    moment = noon + seconds(60 + moved)
    beat = a_planner()
    assert beat.plan_due(now=noon).fires == 0  # it has looked at the schedule before
    with connection.cursor() as cursor:
        stored = connection.ops.adapt_datetimefield_value(moment)
        cursor.execute("UPDATE onbeat_schedule SET next_fire_at = %s", [stored])
    assert beat.plan_due(now=moment - seconds(6)).fires == 0
    assert beat.plan_due(now=moment).fires == 1
    assert Execution.objects.get().fire_time == moment


def test_a_clock_that_is_set_an_hour_forward_and_back_neither_stops_the_beat_nor_makes_it_loop(noon: datetime) -> None:
    a_job(now=noon, schedule=every_minute(noon))
    beat, ahead = a_planner(), timedelta(hours=1)
    assert beat.plan_due(now=noon + seconds(58)).fires == 1
    assert beat.plan_due(now=noon + ahead).fires == 3  # two within the grace, and the latest before it
    assert beat.plan_due(now=noon + ahead).fires == 0
    for minute in range(2, 60):
        assert beat.plan_due(now=noon + timedelta(minutes=minute)).fires == 0  # back again: these have their row
    for minute in range(61, 64):
        assert beat.plan_due(now=noon + timedelta(minutes=minute)).fires == 1
    fires = sorted(
        fire + timedelta(minutes=n)
        for fire, count in Execution.objects.values_list("fire_time", "skipped_count")
        for n in range(count or 1)
    )
    assert fires == [noon + timedelta(minutes=minute) for minute in range(1, 64)]


@pytest.mark.full  # SQLite's limit on variables makes Django split long statements
def test_the_number_of_queries_does_not_grow_with_what_is_due(
    noon: datetime, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        a_job(now=noon, schedule=every_minute(noon))
    planned(a_job(now=noon), noon)  # the month's partition is there from now on
    with django_assert_num_queries(QUERIES):
        plan(noon + seconds(58))
    for _ in range(50):
        a_job(now=noon, schedule=every_minute(noon))
    with django_assert_num_queries(QUERIES):
        assert plan(noon + seconds(118)) == 50 + 53


# Read the schedules that are on time, and those that were missed; then, within a savepoint, advance, and insert within
# one more. (In earnest: begin and commit instead of the outer one.)
QUERIES = 8


def test_what_is_on_time_is_planned_before_what_was_missed(noon: datetime) -> None:
    missed = [a_job(now=noon, schedule=every_minute(noon)) for _ in range(3)]
    now = noon + timedelta(hours=2)
    Schedule.objects.filter(job__in=missed).update(next_fire_at=noon)
    on_time = a_job(now=now - seconds(1), schedule=Once(now))
    assert a_planner(batch_size=2).plan_due(now=now).has_more
    assert Execution.objects.filter(job=on_time).exists()


def test_schedules_that_say_the_same_are_worked_out_once(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        a_job(now=noon, schedule=Cron("* * * * *"))
    a_job(now=noon, schedule=Cron("* * * * *"), misfire_grace_seconds=5)
    from beat import planning

    asked = []
    original = planning.plan_fires
    monkeypatch.setattr(planning, "plan_fires", lambda *a, **k: asked.append(a) or original(*a, **k))
    assert plan(noon + seconds(58)) == 6
    assert len(asked) == 2


def test_what_other_beats_should_have_planned_is_planned_when_it_is_overdue(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    not_ours = shards.ALL - {job.pk % shards.COUNT}
    assert a_planner().plan_due(now=noon + seconds(62), among=not_ours).fires == 0
    assert a_planner().plan_due(now=noon + seconds(63), among=not_ours).fires == 1


def test_a_schedule_whose_next_fire_is_before_1970_does_not_stop_the_others(
    noon: datetime, caplog: pytest.LogCaptureFixture
) -> None:
    broken, good = (a_job(now=noon, schedule=every_minute(noon)) for _ in range(2))
    Schedule.objects.filter(job=broken).update(next_fire_at=datetime(1969, 12, 31, tzinfo=UTC))
    one = a_planner()
    for minute in (1, 2, 3):
        one.plan_due(now=noon + timedelta(minutes=minute))
    assert Execution.objects.filter(job=good).count() == 3
    assert caplog.text.count("a schedule cannot be read") == 1


def test_many_fires_of_many_schedules_are_planned_in_parts(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beat.planning._FIRES_PER_BATCH", 50)
    for _ in range(4):
        a_job(now=noon, schedule=every_minute(noon), misfire="FIRE_ALL", misfire_limit=30)
    one, now = a_planner(), noon + timedelta(hours=2)
    first = one.plan_due(now=now)
    assert (first.fires, first.has_more) == (64, True)
    assert one.plan_due(now=now) == Planned(64, has_more=False)
