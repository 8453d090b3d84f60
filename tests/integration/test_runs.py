"""Ask for a run: now, at a moment, after a delay, under a name by which it can be moved and cancelled."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from executions import lifecycle, run_keys
from executions.identity import fire_time_of
from executions.models import Execution, RunKey
from executions.outcomes import Finish
from executions.states import State, Trigger
from jobs import definitions, runs
from jobs.models import Job
from jobs.refusals import InvalidRun, NoSuchJob, Refused
from jobs.runs import Asked, ByKey
from tests.making import a_job, claimed, every_minute, seconds
from tests.rows import everything

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon, key="reminder", args=[1], kwargs={"a": 1}, queue="mail", priority=3, max_attempts=1)


def row_of(asked: Asked) -> Execution:
    return Execution.objects.get(pk=asked.execution_id)


# ── When ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_now_is_due_at_once_and_is_as_the_job_says(job: Job, noon: datetime) -> None:
    asked = runs.run("reminder", now=noon)
    row = row_of(asked)
    assert asked.is_new
    assert (row.job, row.trigger, row.state, row.attempt) == (job, Trigger.MANUAL, State.SCHEDULED, 1)
    assert row.fire_time == row.available_at == row.created_at == fire_time_of(row.pk) == noon
    assert (row.task, row.args, row.kwargs) == ("onbeat.echo", [1], {"a": 1})
    assert (row.queue, row.priority, row.max_attempts, row.max_lost, row.run_key) == ("mail", 3, 1, 3, "")


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(microseconds=1), timedelta(days=400)])
@pytest.mark.parametrize("how", ["run_at", "delay"])
def test_a_delayed_run_waits_for_its_moment(how: str, wait: timedelta, job: Job, noon: datetime) -> None:
    row = row_of(runs.run(job, now=noon, **{how: wait if how == "delay" else noon + wait}))
    assert (row.trigger, row.fire_time, row.available_at) == (Trigger.DELAYED, noon + wait, noon + wait)
    assert list(Execution.objects.due(noon + wait)) == [row]
    assert not Execution.objects.due(noon + wait - timedelta(microseconds=1)).exists()


@pytest.mark.parametrize("late", [1, 59, 60])
def test_a_moment_that_has_just_passed_is_meant_as_now(late: int, job: Job, noon: datetime) -> None:
    assert row_of(runs.run(job, run_at=noon - seconds(late), now=noon)).fire_time == noon


def test_left_out_the_moment_is_the_databases_own(job: Job) -> None:
    row = row_of(runs.run(job))
    assert list(Execution.objects.due(row.created_at)) == [row]


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"delay": timedelta(seconds=-1)}, "delay", "0 or more; leave it out to run now"),
        ({"delay": timedelta.min}, "delay", "0 or more"),
        ({"delay": 5}, "delay", "must be a timedelta"),
        ({"delay": timedelta(days=11)}, "delay", "in 11 days; 10 are the limit (ONBEAT_JOBS_HORIZON_DAYS)"),
        ({"delay": timedelta.max}, "delay", "10 are the limit"),
        ({"run_at": datetime(2026, 6, 15, 13)}, "run_at", "with a time zone, such as +00:00"),  # noqa: DTZ001
        ({"run_at": "2026-06-15T13:00:00Z"}, "run_at", "must be a datetime"),
        ({"run_at": date(2026, 6, 16)}, "run_at", "must be a datetime"),
        ({"run_at": datetime(2026, 6, 15, 11, 58, 59, tzinfo=UTC)}, "run_at", "is past; leave it out to run now"),
        ({"run_at": datetime.min.replace(tzinfo=UTC)}, "run_at", "is past"),
        ({"run_at": datetime.max.replace(tzinfo=UTC)}, "run_at", "10 are the limit"),
        ({"run_at": datetime(2026, 6, 16, tzinfo=UTC), "delay": timedelta(1)}, "delay", "Give run_at or delay"),
        ({"run_key": "x" * 201}, "run_key", "up to 200 printable characters"),
        ({"run_key": "a\0b"}, "run_key", "'a\\x00b'"),
        ({"run_key": "a\nb"}, "run_key", "printable"),
        ({"run_key": "a\ud800"}, "run_key", "printable"),
        ({"run_key": None}, "run_key", "not None"),
        ({"run_key": 5}, "run_key", "not 5"),
        ({"priority": -1}, "priority", "0 (low) to 9 (critical), not -1"),
        ({"priority": 10}, "priority", "not 10"),
        ({"priority": True}, "priority", "not True"),
        ({"priority": "5"}, "priority", "not '5'"),
        ({"args": "abc"}, "args", "must be a list, not str"),
        ({"kwargs": [1]}, "kwargs", "must be a mapping, not list"),
        ({"args": ""}, "args", "must be a list"),
        ({"args": 0}, "args", "must be a list"),
        ({"kwargs": []}, "kwargs", "must be a mapping"),
        ({"kwargs": 0}, "kwargs", "must be a mapping"),
        ({"kwargs": {1: 2}}, "kwargs", "must be text"),
        ({"kwargs": {"a": {1}}}, "kwargs", "plain JSON"),
        ({"args": ["\0"]}, "args", "NUL"),
        ({"kwargs": {"a": "x" * 2000}}, "kwargs", "the limit is 1000; store large data elsewhere"),
    ],
    ids=lambda given: ascii(given)[:40],
)
def test_a_run_that_cannot_be_is_refused_and_nothing_is_stored(
    given: dict[str, Any], field: str, words: str, job: Job, noon: datetime, settings: Settings
) -> None:
    settings.ONBEAT_JOBS_HORIZON_DAYS = 10
    settings.ONBEAT_JOBS_PAYLOAD_BYTES = 1000
    before = everything()
    with pytest.raises(InvalidRun) as refusal:
        runs.run(job, now=noon, **given)
    assert refusal.value.field == field
    assert words in str(refusal.value)
    assert everything() == before


def test_a_run_at_the_end_of_the_horizon_is_taken(job: Job, noon: datetime, settings: Settings) -> None:
    settings.ONBEAT_JOBS_HORIZON_DAYS = 10
    assert row_of(runs.run(job, delay=timedelta(days=10), now=noon)).fire_time == noon + timedelta(days=10)


# ── What ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_payload_that_is_given_replaces_the_jobs_and_leaves_the_job_as_it_is(job: Job, noon: datetime) -> None:
    row = row_of(runs.run(job, args=[2], kwargs={"b": 2}, priority=9, now=noon))
    assert (row.args, row.kwargs, row.priority) == ([2], {"b": 2}, 9)
    row = row_of(runs.run(job, args=[], kwargs={}, priority=0, now=noon))
    assert (row.args, row.kwargs, row.priority) == ([], {}, 0)
    row = row_of(runs.run(job, kwargs={"b": 2}, now=noon))
    assert (row.args, row.kwargs) == ([1], {"b": 2})
    job.refresh_from_db()
    assert (job.args, job.kwargs, job.priority, job.version) == ([1], {"a": 1}, 3, 1)


def test_a_payload_is_measured_with_what_it_leaves_as_the_job_says(noon: datetime, settings: Settings) -> None:
    settings.ONBEAT_JOBS_PAYLOAD_BYTES = 100
    job = a_job(now=noon, kwargs={"a": "x" * 60})
    with pytest.raises(InvalidRun, match="the limit is 100"):
        runs.run(job, args=["x" * 60], now=noon)


def test_a_payload_is_measured_in_bytes_also_where_the_job_says_it(noon: datetime, settings: Settings) -> None:
    job = a_job(now=noon, kwargs={"a": "é" * 40})
    settings.ONBEAT_JOBS_PAYLOAD_BYTES = 100  # 89 of them are the job's
    assert row_of(runs.run(job, args=["1234567"], now=noon)).kwargs == {"a": "é" * 40}
    with pytest.raises(InvalidRun, match="take 101 bytes and the limit is 100"):
        runs.run(job, args=["12345678"], now=noon)


def test_what_was_asked_for_stays_as_it_was_when_the_job_changes(job: Job, noon: datetime) -> None:
    asked = runs.run(job, delay=seconds(60), now=noon)
    definitions.change(job, version=1, kwargs={"a": 2}, queue="other", now=noon)
    assert (row_of(asked).kwargs, row_of(asked).queue) == ({"a": 1}, "mail")


@pytest.mark.parametrize("key", ["remindr", "reminders", "Reminder"])
def test_an_unknown_job_is_refused_with_the_nearest_keys(key: str, job: Job, noon: datetime) -> None:
    for call in (runs.run, definitions.archive):
        with pytest.raises(NoSuchJob, match=f"There is no job '{key}'; did you mean 'reminder'") as refusal:
            call(key, now=noon)
        assert refusal.value.field == "job"


@pytest.mark.parametrize("key", ["", "zzz", "x" * 1000, "a\0b", "half \ud800", "%", "_", "é"], ids=ascii)
def test_an_odd_key_of_a_job_is_just_unknown(key: str, job: Job, noon: datetime) -> None:
    with pytest.raises(NoSuchJob, match="create it first, or look for its key"):
        runs.run(key, now=noon)


# ── By key ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_asking_again_with_a_key_in_use_gives_the_same_run_back(job: Job, noon: datetime) -> None:
    first = runs.run(job, run_key="cart-7", delay=seconds(60), kwargs={"a": 1}, now=noon)
    again = runs.run(job, run_key="cart-7", delay=seconds(10), kwargs={"a": 2}, now=noon)
    assert first.is_new
    assert again == Asked(first.execution_id, is_new=False)
    row = Execution.objects.get()
    assert (row.run_key, row.kwargs, row.available_at) == ("cart-7", {"a": 1}, noon + seconds(60))


def test_a_key_is_a_jobs_own_and_letters_are_told_apart(job: Job, noon: datetime) -> None:
    other = a_job(now=noon)
    asked = [runs.run(one, run_key=key, now=noon) for one in (job, other) for key in ("k", "K", "k ", " k", "ß", "ss")]
    assert all(one.is_new for one in asked)
    assert Execution.objects.count() == 12


def test_runs_without_a_key_never_meet(job: Job, noon: datetime) -> None:
    assert {runs.run(job, run_key="", now=noon).is_new for _ in range(3)} == {True}
    assert not RunKey.objects.exists()
    assert runs.move(job, "", delay=seconds(9), now=noon) == runs.cancel(job, "", now=noon) == ByKey.UNKNOWN


def test_a_key_of_200_characters_of_any_script_is_taken(job: Job, noon: datetime) -> None:
    assert row_of(runs.run(job, run_key="鍵" * 200, now=noon)).run_key == "鍵" * 200


def succeed(row: Execution, now: datetime) -> None:
    assert lifecycle.succeed(claimed(row, now=now), result=1, now=now) == Finish.SUCCEEDED


def die(row: Execution, now: datetime) -> None:
    assert lifecycle.fail(claimed(row, now=now), error="x", now=now) == Finish.DEAD


def cancel(row: Execution, now: datetime) -> None:
    assert runs.cancel("reminder", row.run_key, now=now) == ByKey.DONE


def stop(row: Execution, now: datetime) -> None:
    claim = claimed(row, now=now)
    assert runs.cancel("reminder", row.run_key, now=now) == ByKey.ASKED_TO_STOP
    assert lifecycle.stop(claim, now=now) == Finish.CANCELLED


def skip(row: Execution, now: datetime) -> None:
    assert lifecycle.skip([row.pk], reason="x", now=now) == 1


def drop(row: Execution, now: datetime) -> None:
    row.delete()


@pytest.mark.parametrize("end", [succeed, die, cancel, stop, skip, drop])
def test_a_key_is_free_after_each_kind_of_end_and_taken_over(
    end: Callable[[Execution, datetime], None], job: Job, noon: datetime
) -> None:
    first = runs.run(job, run_key="k", now=noon)
    end(row_of(first), noon)
    assert runs.cancel(job, "k", now=noon) == runs.move(job, "k", delay=seconds(9), now=noon) == ByKey.UNKNOWN
    second = runs.run(job, run_key="k", delay=seconds(60), now=noon)
    assert second.is_new
    assert second.execution_id != first.execution_id
    held = RunKey.objects.get()
    assert (held.execution_id, held.look_at) == (second.execution_id, noon + seconds(60))
    assert not runs.run(job, run_key="k", now=noon).is_new


def test_a_key_is_in_use_while_its_run_is_queued_runs_or_waits_for_a_retry(noon: datetime) -> None:
    job = a_job(now=noon)
    first = runs.run(job, run_key="k", now=noon)
    lifecycle.mark_queued([row_of(first)], now=noon)
    assert not runs.run(job, run_key="k", now=noon).is_new
    claim = claimed(row_of(first), now=noon)
    assert not runs.run(job, run_key="k", now=noon).is_new
    assert lifecycle.fail(claim, error="x", now=noon) == Finish.RETRY
    assert not runs.run(job, run_key="k", now=noon).is_new


def test_a_run_is_moved_before_its_moment_to_a_later_or_an_earlier_one(job: Job, noon: datetime) -> None:
    asked = runs.run(job, run_key="k", delay=timedelta(days=40), now=noon)
    assert runs.move(job, "k", delay=timedelta(days=90), now=noon) == ByKey.DONE
    assert row_of(asked).available_at == RunKey.objects.get().look_at == noon + timedelta(days=90)
    assert runs.move("reminder", "k", run_at=noon + seconds(5), now=noon) == ByKey.DONE
    row = row_of(asked)
    assert row.available_at == noon + seconds(5)
    assert row.fire_time == fire_time_of(row.pk) == noon + timedelta(days=40)  # its name stays what it was
    assert runs.move(job, "k", delay=seconds(0), now=noon) == ByKey.DONE
    assert list(Execution.objects.due(noon)) == [row]


@pytest.mark.parametrize("when", ["due", "about to be due", "queued", "running", "retry"])
def test_a_run_that_comes_now_or_came_is_not_moved(when: str, noon: datetime) -> None:
    job = a_job(now=noon)
    asked = runs.run(job, run_key="k", delay=seconds(1 if when == "about to be due" else 0), now=noon)
    if when == "queued":
        lifecycle.mark_queued([row_of(asked)], now=noon)
    if when in ("running", "retry"):
        claim = claimed(row_of(asked), now=noon)
        if when == "retry":
            lifecycle.fail(claim, error="x", now=noon)
    before = everything()
    assert runs.move(job, "k", delay=seconds(99), now=noon) == ByKey.TOO_LATE
    assert everything() == before


@pytest.mark.parametrize("given", [{"delay": timedelta(-1)}, {"run_at": datetime(2020, 1, 1, tzinfo=UTC)}])
def test_a_run_is_not_moved_to_where_none_could_be(given: dict[str, Any], job: Job, noon: datetime) -> None:
    runs.run(job, run_key="k", delay=seconds(60), now=noon)
    before = everything()
    with pytest.raises(InvalidRun):
        runs.move(job, "k", now=noon, **given)
    assert everything() == before


@pytest.mark.parametrize("key", ["nobody's", "a\0b", "half \ud800", "x" * 1000], ids=ascii)
def test_a_key_that_nobody_has_is_unknown(key: str, job: Job, noon: datetime) -> None:
    assert runs.move(job, key, delay=seconds(9), now=noon) == ByKey.UNKNOWN
    assert runs.cancel(job, key, now=noon) == ByKey.UNKNOWN


def test_a_run_is_cancelled_by_its_key_before_it_runs(job: Job, noon: datetime) -> None:
    asked = runs.run(job, run_key="k", delay=seconds(60), now=noon)
    assert runs.cancel(job, "k", reason="the cart was paid", now=noon) == ByKey.DONE
    row = row_of(asked)
    assert (row.state, row.reason, row.finished_at) == (State.CANCELLED, "the cart was paid", noon)
    assert runs.cancel(job, "k", now=noon) == ByKey.UNKNOWN


def test_a_run_that_ends_just_before_it_is_cancelled_was_not_asked_to_stop(
    job: Job, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claimed(row_of(runs.run(job, run_key="k", now=noon)), now=noon)
    find_holder = run_keys.holder

    def end_meanwhile(*named: Any) -> Any:
        found = find_holder(*named)
        lifecycle.succeed(claim, result=None, now=noon)
        return found

    monkeypatch.setattr(run_keys, "holder", end_meanwhile)
    assert runs.cancel(job, "k", now=noon) == ByKey.UNKNOWN


def test_the_run_of_an_archived_job_can_still_be_cancelled_by_its_key(job: Job, noon: datetime) -> None:
    runs.run(job, run_key="k", delay=seconds(60), now=noon)
    archived = definitions.archive(job, now=noon)
    assert runs.cancel(archived, "k", now=noon) == ByKey.DONE


# ── With an app's own data ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.django_db(transaction=True)
def test_a_run_asked_for_within_an_apps_transaction_is_gone_when_that_is_rolled_back(noon: datetime) -> None:
    job = a_job(now=noon, schedule=every_minute(noon))
    runs.run(job, run_key="old", delay=seconds(60), now=noon)
    before = everything()
    with transaction.atomic():
        runs.run(job, run_key="new", now=noon)
        runs.run(job, delay=timedelta(days=1000), now=noon)  # a month that has no table yet
        runs.move(job, "old", delay=seconds(5), now=noon)
        runs.cancel(job, "old", now=noon)
        with pytest.raises(Refused):
            runs.run(job, priority=77, now=noon)
        assert Execution.objects.count() == 3
        transaction.set_rollback(True)
    assert everything() == before


def test_a_replay_is_a_new_execution_and_its_payload_is_checked(job: Job, noon: datetime) -> None:
    asked = runs.run(job, now=noon)
    lifecycle.cancel([asked.execution_id], reason="not wanted", now=noon)
    with pytest.raises(InvalidRun) as refusal:
        runs.replay([asked.execution_id], args=[float("nan")], now=noon)
    assert refusal.value.field == "args"
    (again,) = runs.replay([asked.execution_id], args=["again"], now=noon)
    row = Execution.objects.get(pk=again)
    assert (row.trigger, row.replay_of, row.args) == (Trigger.REPLAY, asked.execution_id, ["again"])


def test_executions_are_cancelled_by_their_ids_and_what_runs_is_asked_to_stop(job: Job, noon: datetime) -> None:
    waits, works, over = (runs.run(job, now=noon).execution_id for _ in range(3))
    claimed(Execution.objects.get(pk=works), now=noon)
    runs.cancel_executions([over], now=noon)
    cancelled = runs.cancel_executions([waits, works, over], reason="not wanted", now=noon)
    assert (cancelled.before_run, cancelled.asked_to_stop) == ([waits], [works])
    assert Execution.objects.get(pk=waits).reason == "not wanted"
    with pytest.raises(InvalidRun, match="reason must be text, not int"):
        runs.cancel_executions([works], reason=7, now=noon)  # type: ignore[arg-type]


def test_a_retry_that_waits_can_come_now_and_nothing_else_is_hurried(noon: datetime) -> None:
    job = a_job(now=noon, max_attempts=2)
    failed, delayed = runs.run(job, now=noon).execution_id, runs.run(job, delay=seconds(60), now=noon).execution_id
    lifecycle.fail(claimed(Execution.objects.get(pk=failed), now=noon), error="boom", now=noon)
    assert runs.retry_now([failed, delayed], now=noon + seconds(1)) == 1
    row = Execution.objects.get(pk=failed)
    assert (row.attempt, row.available_at) == (2, noon + seconds(1))
    assert Execution.objects.get(pk=delayed).available_at == noon + seconds(60)
    assert runs.retry_now([failed], now=noon + seconds(1)) == 0


@pytest.mark.parametrize("wrong", [{"countdown": 5}, {"run_ta": None}])
def test_a_field_that_a_run_does_not_have_is_refused_with_those_that_it_has(
    wrong: dict[str, Any], job: Job, noon: datetime
) -> None:
    with pytest.raises(InvalidRun, match="there are run_at, delay, args, kwargs, run_key, priority"):
        runs.run(job, now=noon, **wrong)


def test_a_move_without_a_moment_is_refused(job: Job, noon: datetime) -> None:
    with pytest.raises(InvalidRun, match="run_at or delay"):
        runs.move(job, "k", now=noon)
