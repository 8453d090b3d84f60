"""The doctor looks at schedules, jobs, executions and upkeep: rows that were broken behind our back, or left lying."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from access.models import AuditEntry, IdempotentAnswer
from beat.models import Beat
from executions import depths, lifecycle, partitions, queues
from executions.clock import database_now
from executions.models import DeadMessage, Execution, HourlyTotal, RunKey
from executions.states import State
from jobs import definitions, kept_secrets, ledger, runs
from jobs.http_target import HttpTarget
from jobs.models import Job, Schedule, Secret, SecretUse, StoredForecast
from jobs.recurrence import Cron, Once
from terminal.doctor import executions as area_of_executions
from terminal.doctor import schedules as area_of_schedules
from tests.doctoring import a_worker, all_is_well, doctor
from tests.inhabited import dead_messages
from tests.integration.conftest import Queues
from tests.making import a_job, asked_for, claimed, every_minute, planned
from workers.models import Worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_old_months")]
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def now() -> datetime:
    moment = database_now()
    all_is_well(moment)
    return moment


def break_schedule(job: Job, **columns: Any) -> None:
    """By SQL, past all that refuses it."""
    assert Schedule.objects.filter(job=job).update(**columns) == 1


def daily(now: datetime, key: str = "daily", **more: Any) -> Job:
    return a_job(now=now, key=key, schedule=Cron("0 7 * * *"), **more)


# ── Schedules ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fire_that_was_lost_is_an_error_with_its_moment(now: datetime) -> None:
    begin = now.replace(second=0, microsecond=0) - 10 * MINUTE
    ledger.go_on(begin)
    job = a_job(now=begin, key="payroll", schedule=every_minute(begin))
    planned(job, begin + MINUTE)
    Schedule.objects.filter(job=job).update(next_fire_at=now + HOUR)
    ledger.go_on(begin + 3.5 * MINUTE)
    says = doctor("schedules").only("schedules.E04")["says"]
    assert says.startswith("1 fire lost: payroll at ")
    assert f"{begin + 2 * MINUTE:%H:%M}" in says


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"expression": "0 25 * * *"}, "25"),
        ({"timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"kind": "EVERY", "expression": "often", "anchor_at": None}, "often"),
        ({"kind": "EVERY", "expression": "60", "anchor_at": None}, "an interval without an anchor"),
        ({"kind": "ONCE", "expression": "tomorrow"}, "tomorrow"),
        ({"kind": "NEVER"}, "NEVER"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_an_error(columns: dict[str, Any], why: str, now: datetime) -> None:
    daily(now, "sound")
    break_schedule(daily(now, "broken"), **columns)
    told = doctor("schedules")
    assert told.ids == ["schedules.E01"]
    assert told.findings[0]["says"].startswith("1 schedule cannot be read (broken): ")
    assert why in told.findings[0]["says"]


def test_each_pattern_is_read_once_and_only_for_a_while(now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        daily(now, f"job-{number}")
    a_job(now=now, schedule=every_minute(now))
    assert doctor("schedules").says("schedules") == "5 active schedules, 2 patterns read"
    monkeypatch.setattr(area_of_schedules, "READING_SECONDS", -1)
    assert doctor("schedules").says("schedules") == "5 active schedules, 0 patterns read (there are more)"


def test_a_fire_that_passed_though_beats_tick_is_an_error(now: datetime) -> None:
    break_schedule(daily(now), next_fire_at=now - HOUR)
    assert doctor("schedules").only("schedules.E02")["says"] == (
        "1 schedule late (daily); the oldest was to fire 1 h ago."
    )


def test_that_no_beat_plans_is_told_once_by_the_beats(now: datetime) -> None:
    break_schedule(daily(now), next_fire_at=now - HOUR)
    Beat.objects.all().delete()
    assert doctor("schedules").ids == []
    Beat.objects.create(name="new", host="h", pid=1, started_at=now, ticked_at=now, seen_at=now)
    assert doctor("schedules").ids == []  # it has only just begun


def test_a_schedule_without_a_next_fire_that_could_fire_is_an_error(now: datetime) -> None:
    job = daily(now)
    break_schedule(job, next_fire_at=None)
    assert doctor("schedules").ids == []  # upkeep has a moment to see to it
    Job.objects.filter(pk=job.pk).update(changed_at=now - HOUR)
    told = doctor("schedules")
    assert (told.ids, told.findings[0]["facts"]) == (["schedules.E03"], {"jobs": ["daily"]})


def test_a_schedule_that_never_fires_again_and_is_not_completed_is_a_warning(now: datetime) -> None:
    job = a_job(now=now, key="once", schedule=Once(now + HOUR))
    break_schedule(job, expression=(now - DAY).isoformat(), next_fire_at=None)
    never = daily(now, "never")
    break_schedule(never, expression="0 0 30 2 *", next_fire_at=None)
    Job.objects.update(changed_at=now - HOUR)
    assert doctor("schedules").only("schedules.W01")["facts"] == {"jobs": ["once", "never"]}


def test_one_that_still_has_a_run_to_come_is_left_alone(now: datetime) -> None:
    job = a_job(now=now, key="once", schedule=Once(now + HOUR))
    break_schedule(job, next_fire_at=None)
    Job.objects.update(changed_at=now - HOUR)
    runs.run(job, delay=HOUR, now=now)
    assert doctor("schedules").ids == []


def test_a_pause_that_did_not_end_is_a_warning(now: datetime) -> None:
    job = daily(now)
    definitions.pause(job, reason="x", until=now + HOUR, now=now)
    assert doctor("schedules").ids == []
    Job.objects.update(paused_until=now - HOUR)
    assert doctor("schedules").only("schedules.W02")["says"] == "1 pause past their end: daily."


# ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_that_no_worker_knows_is_an_error(now: datetime) -> None:
    for number in range(7):
        a_job(now=now, key=f"their-{number}", task="their.task", task_lives_elsewhere=True)
    daily(now)
    told = doctor("jobs")
    assert told.ids == ["jobs.E01"]
    assert told.findings[0]["says"] == (
        "No worker of its queue knows the task 'their.task' of 7 jobs: "
        "their-0, their-1, their-2, their-3, their-4 and 2 more."
    )
    a_worker(now, name="theirs@here", queues=["other"], tasks=["their.task"])
    assert doctor("jobs").ids == ["jobs.E01"]  # it knows the task, and takes from elsewhere


def test_a_task_that_only_some_workers_know_is_a_warning(now: datetime) -> None:
    daily(now)
    a_worker(now, name="old@here", tasks=[])
    assert doctor("jobs").only("jobs.W01")["facts"]["task"] == "onbeat.echo"


def test_a_queue_that_nobody_takes_from_is_an_error(now: datetime) -> None:
    daily(now, "nightly", queue="batch")
    daily(now, "other")
    told = doctor("jobs")
    assert told.ids == ["jobs.E02"]
    assert told.findings[0]["says"] == "Nobody takes from the queue 'batch' of 1 job: nightly."
    assert told.findings[0]["facts"]["broker_queue"] == queues.work_queue("batch").name


def test_a_worker_that_is_silent_takes_nothing(now: datetime) -> None:
    daily(now)
    a_worker(now, name="alive@here", queues=["elsewhere"])
    Worker.objects.filter(name="worker@here").update(heartbeat_at=now - HOUR)
    assert doctor("jobs").ids == ["jobs.E02"]


def test_without_any_worker_the_workers_tell_it(now: datetime) -> None:
    daily(now)
    Worker.objects.all().delete()
    told = doctor("jobs")
    assert told.ids == []
    assert told.says("jobs").endswith("; no worker to compare them with")


def test_a_job_that_calls_a_url_needs_a_worker_for_callbacks(now: datetime) -> None:
    definitions.create(key="call", http=HttpTarget("https://example.com/hook"), now=now)
    assert doctor("jobs").ids == []
    Worker.objects.update(queues=[queues.work_queue("default").name])
    assert doctor("jobs").only("jobs.E02")["facts"]["queue"] == "http"


def test_jobs_that_are_over_need_nobody(now: datetime) -> None:
    definitions.archive(daily(now, queue="batch"), now=now)
    assert doctor("jobs").ids == []


def test_a_secret_that_is_missing_is_an_error(now: datetime) -> None:
    kept_secrets.keep("hooks", SecretUse.SIGNING, now=now)
    target = HttpTarget("https://example.com/hook", secret="hooks")
    definitions.create(key="call", http=target, now=now)
    assert doctor("jobs").ids == []
    Secret.objects.all().delete()
    assert doctor("jobs").only("jobs.E03")["says"] == "There is no secret 'hooks'; 1 job names it: call."


def test_a_secret_that_was_sealed_with_another_key_is_an_error(now: datetime, settings: Any) -> None:
    kept_secrets.keep("hooks", SecretUse.HEADER, value="hunter2", now=now)
    settings.SECRET_KEY = "another one, as after a move without the file"
    told = doctor("jobs")
    assert told.only("jobs.E04")["facts"] == {"secrets": ["hooks"]}
    assert "hunter2" not in str(told.document)


# ── Executions ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_due_for_long_though_beats_tick_is_an_error(now: datetime) -> None:
    planned(a_job(now=now), now - HOUR)
    planned(a_job(now=now), now - timedelta(minutes=1))
    told = doctor("executions")
    assert told.only("executions.E01")["says"] == "1 execution due and not published, the oldest for 1 h."
    assert told.says("executions") == "2 executions due, 0 queued, 0 running"


def test_what_is_many_is_not_counted_to_its_end(now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(area_of_executions, "MOST", 3)
    asked_for(a_job(now=now), 5, now=now - HOUR)
    assert doctor("executions").only("executions.E01")["says"].startswith("More than 3 executions due")


def test_without_a_beat_the_beats_tell_it(now: datetime) -> None:
    planned(a_job(now=now), now - HOUR)
    Beat.objects.all().delete()
    assert doctor("executions").ids == []


def test_what_is_queued_for_long_while_its_queue_is_empty_is_an_error(now: datetime, broker: Queues) -> None:
    row = planned(a_job(now=now), now - HOUR)
    queues.work_queue("default").bind(broker.channel).declare()
    lifecycle.mark_queued([row], now=now - HOUR)
    assert doctor("executions").only("executions.E02")["facts"] == {"count": 1, "queues": ["default"]}


def test_what_is_queued_for_long_behind_others_is_a_line_and_no_loss(
    now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle.mark_queued([planned(a_job(now=now), now - HOUR)], now=now - HOUR)
    monkeypatch.setattr(depths, "_ready", lambda _line, _name: 7)
    assert doctor("executions").ids == []


def test_an_attempt_that_nobody_rescued_is_an_error(now: datetime) -> None:
    claimed(planned(a_job(now=now), now - HOUR), now=now - HOUR)
    assert doctor("executions").only("executions.E03")["says"] == (
        "1 attempt running without a heartbeat for more than 5 min."
    )


def test_dead_letters_that_wait_are_a_warning(now: datetime) -> None:
    job = a_job(now=now, max_attempts=1)
    lifecycle.fail(claimed(planned(job, now), now=now), error="boom", kinds=("ValueError",), now=now)
    dead_messages(2, now)
    told = doctor("executions")
    assert told.only("executions.W02")["says"] == "1 dead letter and 2 dead messages wait for a person."
    Execution.objects.update(handled_at=now)
    DeadMessage.objects.update(handled_at=now)
    assert doctor("executions").ids == []


def test_run_keys_that_nobody_freed_are_a_warning(now: datetime) -> None:
    runs.run(a_job(now=now), run_key="user-7", delay=HOUR, now=now)
    assert doctor("executions").ids == []
    RunKey.objects.update(look_at=now - HOUR)
    assert doctor("executions").only("executions.W01")["says"] == "1 run key not looked at in time."


def test_an_end_that_was_not_told_in_time_is_a_warning(now: datetime) -> None:
    claim = claimed(planned(a_job(now=now), now - HOUR), now=now - HOUR)
    lifecycle.await_end(claim, until=now - timedelta(minutes=10), now=now - HOUR)
    assert doctor("executions").only("executions.W03")["facts"] == {"count": 1}


# ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────────────────────


def an_old_end(job: Job, moment: datetime) -> Execution:
    row = planned(job, moment)
    lifecycle.succeed(claimed(row, now=moment), result=None, now=moment)
    return row


@pytest.mark.embedded
def test_executions_past_their_days_are_a_warning(now: datetime) -> None:
    job = a_job(now=now)
    an_old_end(job, now - 30.5 * DAY)
    assert doctor("upkeep").ids == []  # within the slack
    an_old_end(job, now - 40 * DAY)
    assert doctor("upkeep").only("upkeep.W02")["says"] == "Past their days: 1 executions."


@pytest.mark.full
def test_months_past_their_days_are_a_warning_unless_something_has_to_stay(now: datetime) -> None:
    job, then = a_job(now=now), datetime(2021, 3, 5, tzinfo=UTC)
    partitions.make_on(connection, [partitions.Month.of(then)])
    an_old_end(job, then)
    assert doctor("upkeep").only("upkeep.W01")["facts"] == {"months": ["2021-03"]}
    planned(job, then + HOUR)
    told = doctor("upkeep")
    assert told.only("upkeep.W02")["facts"] == {"rows": {"executions": 1}}
    assert told.says("upkeep") == "behind; 1 month kept for what is in it"


def test_small_rows_past_their_days_are_a_warning(now: datetime) -> None:
    AuditEntry.objects.create(at=now - 367 * DAY, who="ada", through="rest", action="job.run", subject="job:x")
    IdempotentAnswer.objects.create(owner="o", key="k", fingerprint="f", status=200, body="", created_at=now - 3 * DAY)
    HourlyTotal.objects.create(
        hour=now - 400 * DAY,
        queue="default",
        state=State.SUCCEEDED,
        count=1,
        started=1,
        run_seconds=0,
        delay_seconds=0,
        longest_delay_seconds=0,
    )
    dead_messages(1, now - 95 * DAY)
    told = doctor("upkeep")
    assert told.only("upkeep.W02")["facts"]["rows"] == {
        "dead letters": 1,
        "statistics": 1,
        "audit trail": 1,
        "idempotent answers": 1,
    }


def test_a_duty_that_leaves_no_trace_is_a_warning(now: datetime) -> None:
    assert doctor("upkeep").ids == []
    StoredForecast.objects.update(made_at=now - HOUR)
    assert doctor("upkeep").only("upkeep.W03")["says"] == "The forecast of the next day was made 1 h ago."
    StoredForecast.objects.update(took_seconds=60)
    assert doctor("upkeep").ids == []  # it takes long, and is made rarely for that
    StoredForecast.objects.all().delete()
    assert doctor("upkeep").only("upkeep.W03")["says"] == "The forecast of the next day was never made."
    Beat.objects.update(started_at=now)
    assert doctor("upkeep").ids == []
