"""Change a job: from the version that was read, all of it or nothing, and coming fires run as the job says now."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from beat import planning
from executions import lifecycle
from executions.models import Execution
from executions.retry import Backoff, RetryPolicy
from executions.states import Overlap, State, Trigger
from jobs import definitions, runs
from jobs.misfires import Misfire
from jobs.models import Change, Job, JobState, JobVersion, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidDefinition, Refused, StaleVersion
from jobs.specification import Specification
from tests import rows
from tests.firing import plan
from tests.making import a_job, claimed, every_minute, planned, seconds
from tests.rows import everything, schedule_of

pytestmark = pytest.mark.django_db


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def said_by(job: Job) -> Specification:
    return Specification.of(Job.objects.get(pk=job.pk), Schedule.objects.filter(job_id=job.pk).first())


# ── What changes ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "given",
    [
        {"task": "onbeat.sleep"},
        {"args": (1, [2], None)},
        {"kwargs": {"tenant": "acme"}},
        {"queue": "batch-etl"},
        {"priority": 9},
        {"retry": RetryPolicy(max_attempts=7, backoff=Backoff.FIXED, jitter=0.5, give_up_on=("KeyError",))},
        {"max_lost": 5},
        {"overlap": Overlap.QUEUE, "max_concurrency": 2},
        {"max_concurrency": 4},
        {"max_fires": 3},
        {"misfire_grace_seconds": 5},
        {"misfire": Misfire.SKIP},
        {"misfire": Misfire.FIRE_ALL, "misfire_limit": 1000},
        {"jitter_seconds": 30},
        {"owner": "payments"},
        {"tags": ("a", "b")},
    ],
    ids=lambda given: next(iter(given)),
)
def test_one_field_changes_and_the_others_stay(given: dict[str, Any], noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), args=[0], kwargs={"old": 1}, tags=["old"], owner="old")
    before = said_by(job)
    changed = definitions.change(
        job, version=1, now=noon + seconds(1), by="ada", through="admin", task_lives_elsewhere=True, **given
    )
    assert (changed.version, changed.changed_at, changed.created_at) == (2, noon + seconds(1), noon)
    assert said_by(job) == replace(before, **given)
    last = JobVersion.objects.first()
    assert last is not None
    assert (last.version, last.change, last.changed_by, last.through) == (2, Change.CHANGED, "ada", "admin")
    assert schedule_of(job).next_fire_at == noon + minutes(1)


def test_a_stale_edit_is_refused_and_told_the_current_version(noon: datetime) -> None:
    job = a_job(now=noon, key="report", schedule=every_minute(noon))
    definitions.change(job, version=1, priority=9, now=noon)
    before = everything()
    with pytest.raises(StaleVersion) as refusal:
        definitions.change(job, version=1, priority=1, now=noon)
    assert (refusal.value.field, refusal.value.current) == ("version", 2)
    assert "began from version 1 and the job is at version 2" in str(refusal.value)
    assert everything() == before


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"priorty": 3}, "priorty", "did you mean 'priority'"),
        ({"misfire_grace": 3}, "misfire_grace", "did you mean 'misfire_grace_seconds'"),
        ({"xyzzy": 3}, "xyzzy", "there are key, task, http, schedule"),
        ({"key": "other"}, "key", "cannot be changed; create another job"),
        ({"schedule": None, "max_fires": 3}, "max_fires", "needs a schedule"),
        ({"schedule": None, "misfire": Misfire.SKIP}, "misfire", "needs a schedule"),
        ({"misfire": "FIRE_NONE"}, "misfire", "must be one of SKIP, FIRE_ONCE, FIRE_ALL"),
        ({"jitter": 3}, "jitter", "use jitter_seconds=… for fires, or retry=RetryPolicy(jitter=…) for retries"),
        ({"schedule": Once(datetime.fromisoformat("2020-01-01T00:00Z"))}, "schedule", "never fires after now"),
        ({"task": "onbeat.ecko"}, "task", "'onbeat.echo'"),
        ({"kwargs": {"a": {1}}}, "kwargs", "plain JSON"),
        ({"priority": 3, "queue": "a b"}, "queue", "must be 1 to 100"),
    ],
    ids=lambda given: str(given)[:30],
)
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(
    given: dict[str, Any], field: str, words: str, noon: datetime
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), kwargs={"a": 1})
    assert plan(noon + seconds(58)) == 1
    before = everything()
    with pytest.raises(Refused) as refusal:
        definitions.change(job, version=1, now=noon + seconds(59), **given)
    assert refusal.value.field == field
    assert words in str(refusal.value)
    assert everything() == before


@pytest.mark.parametrize(
    "given",
    [{}, {"priority": 5}, {"args": [1]}, {"args": (1,)}, {"tags": ["a", "a"]}, {"schedule": Cron("H * * * *")}],
    ids=str,
)
def test_saying_what_the_job_says_already_makes_no_version(given: dict[str, Any], noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("H * * * *"), args=[1], tags=["a"])
    before = everything()
    assert definitions.change(job, version=1, now=noon + minutes(59), **given).version == 1
    assert everything() == before


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), ({"a": [0]}, {"a": [False]})])
def test_a_value_that_python_holds_equal_but_json_does_not_is_a_change(
    old: object, new: object, noon: datetime
) -> None:
    job = a_job(now=noon, kwargs={"value": old})
    assert definitions.change(job, version=1, kwargs={"value": new}, now=noon).version == 2
    assert repr(said_by(job).kwargs["value"]) == repr(new)


def test_names_of_errors_given_as_a_list_are_no_change(noon: datetime) -> None:
    job = a_job(now=noon, retry=RetryPolicy(retry_on=("ValueError",)))
    listed: Any = ["ValueError"]
    assert definitions.change(job, version=1, retry=RetryPolicy(retry_on=listed), now=noon).version == 1


# ── The schedule ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_schedule_is_added_replaced_and_removed(noon: datetime) -> None:
    job = a_job(now=noon)
    definitions.change(job, version=1, schedule=every_minute(noon), max_fires=9, now=noon)
    assert (schedule_of(job).next_fire_at, schedule_of(job).fires_left) == (noon + minutes(1), 9)
    bounded = Within(Cron("0 * * * *", "Europe/Berlin"), start=noon + timedelta(days=1), end=noon + timedelta(days=2))
    definitions.change(job, version=2, schedule=bounded, max_fires=None, now=noon)
    assert (schedule_of(job).next_fire_at, schedule_of(job).fires_left) == (noon + timedelta(days=1), None)
    assert said_by(job).schedule == bounded
    definitions.change(job, version=3, schedule=None, now=noon)
    assert not Schedule.objects.exists()
    assert said_by(job).schedule is None
    assert [version.definition["schedule"] is None for version in job.versions.order_by("version")] == [
        *(True, False, False, True)
    ]


def test_a_schedule_that_is_removed_takes_its_coming_fires_along(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    plan(noon + seconds(58))
    definitions.change(job, version=1, schedule=None, now=noon + seconds(59))
    assert rows.of(job) == []
    assert plan(noon + minutes(9)) == 0


def test_another_schedule_never_fires_the_past(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Cron("0 3 * * *"))
    now = noon + seconds(30)
    definitions.change(job, version=1, schedule=Every(60, noon - timedelta(days=9)), now=now)
    assert plan(now) == 0
    assert schedule_of(job).next_fire_at == noon + minutes(1)


def test_a_plan_made_from_a_schedule_that_was_removed_and_added_again_is_not_carried_out(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    original = planning.plan_fires
    yearly = Cron("0 0 1 1 *")

    def edit_meanwhile(*args: Any, **kwargs: Any) -> object:
        definitions.change(job, version=1, schedule=None, now=noon + seconds(58))
        definitions.change(job, version=2, schedule=yearly, now=noon + seconds(58))
        return original(*args, **kwargs)

    monkeypatch.setattr(planning, "plan_fires", edit_meanwhile)
    assert plan(noon + seconds(58)) == 0
    assert rows.of(job) == []
    assert schedule_of(job).next_fire_at == yearly.next_after(noon)


# ── What was planned already ─────────────────────────────────────────────────────────────────────────────────────


def test_a_new_payload_reaches_a_fire_that_was_planned_already_and_it_fires_once(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon), kwargs={"price": 1})
    plan(noon + seconds(57))
    (old,) = rows.of(job)
    now = noon + seconds(58)
    definitions.change(job, version=1, kwargs={"price": 2}, queue="batch", priority=8, now=now)
    assert rows.of(job) == []
    assert plan(now) == 1
    assert plan(now) == 0
    (new,) = rows.of(job)
    assert (new.fire_time, new.available_at, new.trigger) == (old.fire_time, old.fire_time, Trigger.SCHEDULE)
    assert (new.kwargs, new.queue, new.priority) == ({"price": 2}, "batch", 8)
    assert new.pk != old.pk


def test_several_planned_fires_are_all_planned_again_from_the_earliest(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Every(1, noon), max_fires=10)
    assert plan(noon) == 5
    lifecycle.mark_queued(rows.of(job)[:2], now=noon + seconds(2))
    definitions.change(job, version=1, kwargs={"a": 1}, now=noon + seconds(2.5))
    assert schedule_of(job).next_fire_at == noon + seconds(3)
    assert plan(noon + seconds(2.5)) == 5
    assert [row.fire_time for row in rows.of(job, state=State.SCHEDULED)] == [noon + seconds(n) for n in range(3, 8)]
    assert schedule_of(job).fires_left == 3


@pytest.mark.parametrize("late", [0, 1])
def test_a_planned_fire_whose_time_has_come_is_skipped_and_says_why(late: int, noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    plan(noon + seconds(58))
    now = noon + seconds(60 + late)
    definitions.change(job, version=1, priority=9, now=now)
    (row,) = rows.of(job)
    assert (row.state, row.finished_at, row.fire_time) == (State.SKIPPED, now, noon + minutes(1))
    assert row.reason == "the job was changed before this was published"
    assert schedule_of(job).next_fire_at == noon + minutes(2)
    assert plan(now) == 0


def accepted_work(job: Job, noon: datetime) -> list[Execution]:
    """One row of each kind that an edit must not touch."""
    delayed = runs.run(job, run_at=noon + minutes(5), now=noon)
    manual = runs.run(job, now=noon)
    retried = planned(job, noon - minutes(3))
    lifecycle.fail(claimed(retried, now=noon), error="x", now=noon)
    held = planned(job, noon - minutes(2))
    lifecycle.hold([held], reason="its queue does not take it", until=noon + minutes(1))
    queued = planned(job, noon - minutes(1))
    lifecycle.mark_queued([queued], now=noon)
    waiting = planned(job, noon - minutes(4))
    Execution.objects.filter(pk=waiting.pk).update(is_waiting=True, reason="waits")
    running = planned(job, noon - minutes(5))
    claimed(running, now=noon)
    ids = [delayed.execution_id, manual.execution_id, *(one.pk for one in (retried, held, queued, waiting, running))]
    return list(Execution.objects.filter(pk__in=ids).order_by("pk"))


def facts(executions: list[Execution]) -> list[dict[str, object]]:
    found = Execution.objects.filter(pk__in=[one.pk for one in executions]).order_by("pk")
    return list(found.values())


@pytest.mark.parametrize("verb", ["change", "pause", "archive"])
def test_accepted_work_is_not_touched(verb: str, noon: datetime) -> None:
    job = a_job(now=noon, schedule=Every(3600, noon), kwargs={"old": 1})
    work = accepted_work(job, noon)
    before = facts(work)
    assert len(before) == 7
    now = noon + seconds(1)
    match verb:
        case "change":
            definitions.change(job, version=1, kwargs={"new": 1}, queue="other", now=now)
        case "pause":
            definitions.pause(job, reason="quiet", now=now)
        case "archive":
            definitions.archive(job, now=now)
    assert facts(work) == before


def test_another_jobs_planned_fires_are_not_touched(noon: datetime) -> None:
    job, other = a_job(now=noon, schedule=every_minute(noon)), a_job(now=noon, schedule=every_minute(noon))
    plan(noon + seconds(58))
    before = facts(rows.of(other))
    definitions.change(job, version=1, priority=9, now=noon + seconds(59))
    assert facts(rows.of(other)) == before


# ── Fires that were missed, and a paused job ─────────────────────────────────────────────────────────────────────


def test_editing_when_fires_were_missed_leaves_one_row_that_says_so(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    now = noon + minutes(10.5)
    definitions.change(job, version=1, priority=9, now=now)
    (row,) = rows.of(job)
    assert (row.state, row.trigger, row.finished_at) == (State.SKIPPED, Trigger.SCHEDULE, now)
    assert (row.fire_time, row.skipped_until, row.skipped_count) == (noon + minutes(1), noon + minutes(10), 10)
    assert row.reason == "misfire: no beat could plan these in time, and then the job was changed"
    assert schedule_of(job).next_fire_at == noon + minutes(11)
    assert plan(now) == 0


def test_the_missed_fires_of_a_schedule_that_is_replaced_are_told_by_the_old_one(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    definitions.change(job, version=1, schedule=Cron("0 0 * * *"), now=noon + minutes(3))
    (row,) = rows.of(job)
    assert (row.fire_time, row.skipped_until, row.skipped_count) == (noon + minutes(1), noon + minutes(3), 3)
    assert schedule_of(job).next_fire_at == noon + timedelta(hours=12)


def test_editing_a_paused_job_does_not_wake_it(noon: datetime) -> None:
    job = definitions.pause(a_job(now=noon, schedule=every_minute(noon)), reason="quiet", by="ada", now=noon)
    changed = definitions.change(job, version=2, schedule=Every(30, noon), now=noon + minutes(3))
    assert (changed.state, changed.paused_reason, changed.paused_by) == (JobState.PAUSED, "quiet", "ada")
    assert not schedule_of(job).is_active
    assert plan(noon + minutes(9)) == 0
    (row,) = rows.of(job)
    assert (row.reason, row.skipped_count) == ("paused: quiet", 3)


def test_a_schedule_added_to_a_paused_job_waits_for_the_resumption(noon: datetime) -> None:
    job = definitions.pause(a_job(now=noon), reason="quiet", now=noon)
    definitions.change(job, version=2, schedule=every_minute(noon), now=noon)
    assert plan(noon + minutes(9)) == 0
    definitions.resume(job, now=noon + minutes(9.5))
    assert plan(noon + minutes(9.95)) == 1


@pytest.mark.parametrize("state", ["archived", "completed"])
def test_a_job_that_is_over_cannot_be_changed(state: str, noon: datetime) -> None:
    job = a_job(now=noon, key="report", schedule=Once(noon + seconds(1)))
    if state == "archived":
        definitions.archive(job, now=noon)
    else:
        definitions.change(job, version=1, schedule=Once(noon + seconds(1)), now=noon)
        plan(noon)
        lifecycle.cancel([rows.of(job)[0].pk], reason="x", now=noon)
        assert definitions.complete_ended(noon) == 1
    before = everything()
    with pytest.raises(InvalidDefinition, match="no longer be changed; create it anew"):
        definitions.change(job, version=2, priority=9, now=noon)
    with pytest.raises(InvalidDefinition):
        definitions.pause(job, reason="x", now=noon)
    with pytest.raises(InvalidDefinition):
        definitions.resume(job, now=noon)
    with pytest.raises(Refused, match="The job 'report' is over; create it anew"):
        definitions.change("report", version=2, priority=9, now=noon)
    assert everything() == before


@pytest.mark.parametrize("label", [{"owner": "payments"}, {"tags": ["nightly"]}])
def test_another_label_touches_no_fire(noon: datetime, label: dict[str, Any]) -> None:
    """Neither one that is coming, nor one that is late or waits for the broker."""
    job = a_job(now=noon, schedule=every_minute(noon))
    plan(noon + seconds(58))
    before = (rows.of(job), schedule_of(job).version, schedule_of(job).next_fire_at)
    changed = definitions.change(job, version=1, now=noon + seconds(90), **label)
    assert (changed.version, changed.versions.count()) == (2, 2)
    assert (rows.of(job), schedule_of(job).version, schedule_of(job).next_fire_at) == before
    assert rows.of(job)[0].state == State.SCHEDULED
