"""Why a fire did or did not run: each verdict, made by the functions that make it in earnest."""

from datetime import datetime, timedelta

import pytest
from pytest_django import Settings

from executions import lifecycle, queues, replay, statistics
from executions.models import Execution
from executions.outcomes import Wish
from executions.states import Overlap, State, Trigger
from jobs import definitions
from jobs.backfill import backfill
from jobs.explaining import explain
from jobs.models import Job, JobVersion, Schedule
from jobs.recurrence import Cron, Once, Within
from jobs.verdicts import Around, Verdict
from tests import rows
from tests.explaining import WELL, answer, asked, stands_at
from tests.firing import plan
from tests.making import a_job, claimed, planned, seconds, succeeded

pytestmark = pytest.mark.django_db
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HOURLY = Cron("0 * * * *")


@pytest.fixture
def eight(noon: datetime) -> datetime:
    """When jobs are made: fires come from nine o'clock on."""
    return noon - 4 * HOUR


@pytest.fixture
def job(eight: datetime) -> Job:
    return a_job(now=eight, key="billing", schedule=HOURLY)


def the_command(fire: datetime) -> str:
    at = f"{fire:%Y-%m-%dT%H:%M:%S}Z"
    return f"./onbeat jobs backfill billing --from {at} --to {at}"


# ── What has a row ───────────────────────────────────────────────────────────────────────────────────────────────


def test_it_ran(job: Job, noon: datetime) -> None:
    row = succeeded(job, noon, after=2, ran=30)
    told = asked(job, now=noon + MINUTE)
    (one,) = told.fires
    assert (one.verdict, one.fire_time, one.execution_id, one.remedy) == (Verdict.RAN, noon, row.pk, "")
    assert one.says == "It ran: attempt 1 succeeded at 2026-06-15 12:00:32 UTC."
    facts = dict(one.facts)
    assert facts["started"] == "2026-06-15 12:00:02 UTC, 2.0 s after its time, on worker@here"
    assert facts["ended"] == "2026-06-15 12:00:32 UTC, after 30 s"
    assert facts["attempt 1"] == "SUCCEEDED after 30 s on worker@here"


def test_it_failed_and_can_be_replayed(noon: datetime, eight: datetime) -> None:
    job = a_job(now=eight, key="billing", schedule=HOURLY, max_attempts=1)
    row = planned(job, noon)
    lifecycle.fail(claimed(row, now=noon), error="ValueError: no", now=noon)
    one = answer(job, now=noon + MINUTE)
    assert (one.verdict, one.remedy) == (Verdict.FAILED, f"./onbeat executions replay {row.pk}")
    assert one.says == "It failed: ValueError: no. It was given up after attempt 1. It waits for a person."
    assert dict(one.facts)["attempt 1"].endswith("on worker@here: ValueError: no")
    (again,) = replay.replay([row.pk], now=noon + MINUTE, note="")
    one = answer(job, now=noon + 2 * MINUTE)
    assert (one.verdict, one.remedy) == (Verdict.FAILED, "")
    assert dict(one.facts)["replayed"] == f"{again.pk}, SCHEDULED"


def test_it_runs(job: Job, noon: datetime) -> None:
    claimed(planned(job, noon), now=noon + seconds(1))
    one = answer(job, now=noon + MINUTE)
    assert (one.verdict, one.says) == (
        Verdict.RUNS,
        "It runs: attempt 1 runs on worker@here since 2026-06-15 12:00:01 UTC.",
    )


def test_it_waits_for_its_retry(job: Job, noon: datetime) -> None:
    wish = Wish(retry_in=seconds(30))
    lifecycle.fail(claimed(planned(job, noon), now=noon), error="no", wish=wish, now=noon)
    one = answer(job, now=noon + seconds(1))
    assert (one.verdict, one.says) == (
        Verdict.WAITS,
        "It waits: attempt 2 comes at 2026-06-15 12:00:30 UTC: waits for its retry.",
    )
    assert [name for name, _ in one.facts] == ["planned", "available", "attempt 1"]
    assert answer(job, now=noon + seconds(1), around=Around()) == one  # until then it needs neither worker nor beat


def test_it_waits_in_a_queue_that_no_worker_takes_from(noon: datetime, eight: datetime) -> None:
    job = a_job(now=eight, key="billing", schedule=HOURLY, queue="mail")
    lifecycle.mark_queued([planned(job, noon)], now=noon)
    one = answer(job, now=noon + MINUTE)
    name = queues.work_queue("mail").name
    assert (one.verdict, one.remedy) == (Verdict.WAITS, f"./onbeat worker -Q {name}")
    assert one.says.endswith("no worker has taken it. No worker takes from the queue 'mail'.")
    one = answer(job, now=noon + MINUTE, around=Around(frozenset({name})))
    assert (one.verdict, one.remedy) == (Verdict.WAITS, "")


def test_it_waits_to_be_published_and_what_is_amiss_is_told(job: Job, noon: datetime) -> None:
    planned(job, noon)
    around = Around(WELL.consumed, "1 ticking", ("1 of 1 beats cannot reach the broker: executions wait",))
    one = answer(job, now=noon + MINUTE, around=around)
    assert (one.verdict, one.remedy) == (Verdict.WAITS, "./onbeat doctor")
    assert one.says == (
        "It waits: it is due since 2026-06-15 12:00:00 UTC and waits to be published. "
        "1 of 1 beats cannot reach the broker: executions wait."
    )


def test_it_waits_for_a_place(noon: datetime, eight: datetime) -> None:
    job = a_job(now=eight, key="billing", schedule=HOURLY, max_concurrency=1)
    claimed(planned(job, noon - HOUR), now=noon)
    row = planned(job, noon)
    lifecycle.claim(row.pk, 1, worker="worker@here", now=noon)
    one = answer(job, now=noon + seconds(1))
    assert one.verdict is Verdict.WAITS
    assert one.says.endswith("waits: 1 of this job may run at once.")


def test_it_was_skipped_by_its_overlap_policy(noon: datetime, eight: datetime) -> None:
    job = a_job(now=eight, key="billing", schedule=HOURLY, max_concurrency=1, overlap=Overlap.SKIP)
    claimed(planned(job, noon - HOUR), now=noon)
    lifecycle.claim(planned(job, noon).pk, 1, worker="worker@here", now=noon)
    one = answer(job, now=noon + MINUTE)
    assert (one.verdict, one.says) == (Verdict.SKIPPED, "It did not run: overlap SKIP: the previous one still ran.")
    assert one.remedy == the_command(noon)


def test_it_was_skipped_in_a_stretch(job: Job, noon: datetime, eight: datetime) -> None:
    assert plan(noon + 2 * MINUTE) == 1  # a beat that was down: the latest fire runs instead
    one = answer(job, noon - 2 * HOUR, now=noon + 2 * MINUTE)
    assert (one.verdict, one.remedy) == (Verdict.SKIPPED, the_command(noon - 2 * HOUR))
    assert one.says.startswith("It did not run: misfire: no beat could plan these in time")
    assert dict(one.facts)["skipped with it"] == "3 fires from 2026-06-15 09:00:00 UTC to 2026-06-15 11:00:00 UTC"
    assert one.execution_id == Execution.objects.get(state=State.SKIPPED).pk


def test_the_remedy_of_a_skipped_fire_runs_it(job: Job, noon: datetime) -> None:
    plan(noon + 2 * MINUTE)
    at = noon - 2 * HOUR
    assert answer(job, at, now=noon + MINUTE).remedy
    backfill(job, start=at, end=at, by="ops", now=noon + MINUTE)
    one = answer(job, at, now=noon + MINUTE)
    assert (one.verdict, dict(one.facts)["trigger"]) == (Verdict.WAITS, "backfill")


def test_a_skipped_fire_that_todays_schedule_does_not_name_has_no_remedy(job: Job, noon: datetime) -> None:
    plan(noon + 2 * MINUTE)
    definitions.change(job, version=1, schedule=Cron("30 * * * *"), now=noon + 3 * MINUTE)
    one = answer(job, noon - 2 * HOUR, now=noon + 4 * MINUTE)
    assert (one.verdict, one.remedy) == (Verdict.SKIPPED, "")


def test_it_was_cancelled(job: Job, noon: datetime) -> None:
    row = planned(job, noon)
    lifecycle.cancel([row.pk], reason="not today", now=noon)
    one = answer(job, now=noon + MINUTE)
    assert (one.verdict, one.remedy) == (Verdict.CANCELLED, f"./onbeat executions replay {row.pk}")
    assert one.says == "It was cancelled at 2026-06-15 12:00:00 UTC: not today."


def test_it_is_planned_and_its_time_is_yet_to_come(job: Job, noon: datetime) -> None:
    planned(job, noon)
    one = answer(job, noon, now=noon - seconds(3))
    assert (one.verdict, one.says) == (Verdict.NOT_YET, "Not yet: it comes at 2026-06-15 12:00:00 UTC.")


# ── What has none ────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_still_to_come(job: Job, noon: datetime) -> None:
    stands_at(job, noon + HOUR)
    one = answer(job, noon + 3 * HOUR, now=noon)
    assert (one.verdict, one.says) == (Verdict.NOT_YET, "Not yet: it is due in 3 h.")


def test_it_was_paused_and_still_is(job: Job, noon: datetime) -> None:
    stands_at(job, noon - HOUR)
    definitions.pause(job, reason="month end", by="anna", now=noon - 90 * MINUTE)
    told = asked(job, now=noon + MINUTE)
    (one,) = told.fires
    assert (one.verdict, one.fire_time, one.remedy) == (Verdict.PAUSED, noon, "./onbeat jobs resume billing")
    assert one.says == "It did not run: paused by anna: month end."
    assert dict(one.facts)["paused"] == "since 2026-06-15 10:30:00 UTC, until somebody resumes it"
    assert told.next_fire_at is None
    assert told.next_says == "It is paused by anna, until somebody resumes it."
    ahead = answer(job, noon + HOUR, now=noon + MINUTE)
    assert ahead.says == "It will not run unless the job is resumed before: paused by anna: month end."


def test_it_was_paused_until_somebody_resumed_it(job: Job, noon: datetime) -> None:
    stands_at(job, noon - HOUR)
    definitions.pause(job, reason="month end", by="anna", now=noon - 90 * MINUTE)
    version = Job.objects.get().version
    definitions.change(job, version=version, queue="mail", now=noon - 80 * MINUTE)  # a pause goes on over an edit
    definitions.resume(job, by="ben", now=noon + MINUTE)
    for fire in (noon, noon - HOUR):
        one = answer(job, fire, now=noon + 2 * MINUTE)
        assert (one.verdict, one.says) == (Verdict.PAUSED, "It did not run: paused by anna: month end.")
        assert one.remedy == the_command(fire)
        assert one.execution_id == Execution.objects.get().pk
        assert dict(one.facts)["paused"] == "since 2026-06-15 10:30:00 UTC until 2026-06-15 12:01:00 UTC by ben"


def test_a_pause_that_was_set_to_end_holds_no_fire_after_that(job: Job, noon: datetime) -> None:
    stands_at(job, noon - HOUR)
    definitions.pause(job, reason="", until=noon - MINUTE, now=noon - 90 * MINUTE)
    assert answer(job, noon - HOUR, now=noon + MINUTE).verdict is Verdict.PAUSED
    assert answer(job, noon, now=noon + MINUTE).verdict is Verdict.UNPLANNED  # nobody has come to end it
    assert answer(job, noon + HOUR, now=noon - 30 * MINUTE).verdict is Verdict.NOT_YET


def test_no_beat_has_planned_it_yet(job: Job, noon: datetime) -> None:
    around = Around(beats="no beat ticks: none has ticked yet")
    told = asked(job, now=noon + 2 * MINUTE, around=around)
    (one,) = told.fires
    assert (one.verdict, one.remedy) == (Verdict.UNPLANNED, "./onbeat doctor")
    assert one.says == "It has not run: no beat has planned it. Beats now: no beat ticks: none has ticked yet."
    assert "only the latest runs" in dict(one.facts)["when a beat comes"]
    assert told.next_says == "Its schedule stands at 2026-06-15 09:00:00 UTC, 3 h 2 min ago: no beat has planned that."
    assert dict(answer(job, now=noon + seconds(5)).facts)["when a beat comes"] == "it runs, late"


def test_a_hole_in_the_ledger_is_called_a_fault(job: Job, noon: datetime) -> None:
    succeeded(job, noon - HOUR)
    succeeded(job, noon)
    Execution.objects.filter(fire_time=noon)._raw_delete("default")
    stands_at(job, noon + HOUR)
    one = answer(job, now=noon + MINUTE)
    assert (one.verdict, one.fire_time, one.remedy) == (Verdict.MISSING, noon, the_command(noon))
    assert one.says == (
        "It did not run, and no row says why: its schedule went past it. That is a fault. Beats now: 1 ticking."
    )
    assert answer(job, noon - HOUR, now=noon + MINUTE).verdict is Verdict.RAN


def test_the_row_was_removed_and_the_counts_of_the_hour_are_left(job: Job, noon: datetime, settings: Settings) -> None:
    succeeded(job, noon)
    statistics.roll_up(noon + HOUR)
    stands_at(job, noon + 60 * DAY)
    later = noon + 50 * DAY
    Execution.objects.all()._raw_delete("default")  # as retention does
    one = answer(job, noon, now=later)
    assert (one.verdict, one.remedy) == (Verdict.REMOVED, "")
    assert one.says == "What became of it is no longer known: rows are kept for 30 days."
    assert dict(one.facts)["counted in that hour"] == "1 SUCCEEDED"
    settings.ONBEAT_EXECUTIONS_RETENTION_DAYS = 60
    assert answer(job, noon, now=later).verdict is Verdict.MISSING


def test_there_was_no_such_job_then(job: Job, noon: datetime, eight: datetime) -> None:
    one = answer(job, eight - 2 * HOUR, now=noon)
    assert (one.verdict, one.says) == (
        Verdict.NO_SUCH_JOB_THEN,
        "There was no such job then: it was created at 2026-06-15 08:00:00 UTC.",
    )
    assert answer(job, eight - 90 * MINUTE, now=noon).verdict is Verdict.NO_SUCH_JOB_THEN
    assert answer(job, eight, now=noon).verdict is Verdict.NO_SUCH_JOB_THEN  # no change fires the instant it is made


def test_the_job_was_archived(job: Job, noon: datetime) -> None:
    succeeded(job, noon - HOUR)
    stands_at(job, noon)
    definitions.archive(job, by="anna", reason="moved", now=noon - 30 * MINUTE)
    one = answer(job, noon, now=noon + MINUTE)
    assert (one.verdict, one.remedy) == (Verdict.OVER, "")
    assert one.says == "It did not run: the job was archived at 2026-06-15 11:30:00 UTC by anna: moved."
    told = asked(job, now=noon + MINUTE)
    assert [(one.verdict, one.fire_time) for one in told.fires] == [(Verdict.RAN, noon - HOUR)]
    assert told.next_says == "The job is ARCHIVED: it fires no more."


def test_the_job_was_completed(noon: datetime) -> None:
    job = a_job(now=noon - HOUR, key="once", schedule=Once(noon))
    assert plan(noon) == 1
    row = Execution.objects.get()
    lifecycle.succeed(claimed(row, now=noon), result=None, now=noon)
    definitions.complete_ended(noon + MINUTE)
    assert answer(job, now=noon + HOUR).verdict is Verdict.RAN
    one = answer(job, noon + 10 * MINUTE, now=noon + HOUR)
    assert (one.verdict, one.says) == (
        Verdict.OVER,
        "It did not run: the job was completed at 2026-06-15 12:01:00 UTC, when it had no fire left.",
    )


def test_the_schedule_of_then_was_another(noon: datetime, eight: datetime) -> None:
    job = a_job(now=eight, key="billing", schedule=Cron("30 * * * *"))
    for number in range(4):
        succeeded(job, eight + (number + 0.5) * HOUR)
    stands_at(job, noon + 30 * MINUTE)
    definitions.change(job, version=1, priority=8, by="ben", now=noon - 2 * MINUTE)
    definitions.change(job, version=2, schedule=HOURLY, by="anna", now=noon - MINUTE)
    now = noon + MINUTE
    one = answer(job, noon - HOUR, now=now)
    assert (one.verdict, one.remedy) == (Verdict.NOT_DUE, "")
    assert one.says == (
        'It was not due: its schedule then was "Every hour at minute 30" (30 * * * *). '
        "It was changed at 2026-06-15 11:59:00 UTC by anna."
    )
    ran = answer(job, noon - 30 * MINUTE, now=now)
    assert ran.verdict is Verdict.RAN
    assert dict(ran.facts)["schedule then"] == "Every hour at minute 30 (version 1)"
    day = explain(job, start=eight, end=noon + HOUR, now=now, around=WELL)
    assert [f"{one.fire_time:%H:%M} {one.verdict}" for one in day.fires] == [
        "08:30 RAN",
        "09:30 RAN",
        "10:30 RAN",
        "11:30 RAN",
        "12:00 UNPLANNED",
        "13:00 NOT_YET",
    ]


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ((2 * HOUR, None), "It was not due: its schedule begins at 2026-06-15 14:00:00 UTC."),
        ((None, -90 * MINUTE), "It was not due: its schedule ended at 2026-06-15 10:30:00 UTC."),
    ],
)
def test_it_was_out_of_bounds(
    noon: datetime, eight: datetime, bounds: tuple[timedelta | None, timedelta | None], says: str
) -> None:
    start, end = (None if bound is None else noon + bound for bound in bounds)
    job = a_job(now=eight, schedule=Within(HOURLY, start, end))
    one = answer(job, noon, now=noon + MINUTE)
    assert (one.verdict, one.says) == (Verdict.NOT_DUE, says)


def test_its_fires_were_used_up(noon: datetime, eight: datetime) -> None:
    job = a_job(now=eight, key="billing", schedule=HOURLY, max_fires=2)
    ahead = answer(job, noon - HOUR, now=eight + MINUTE)
    assert ahead.verdict is Verdict.NOT_DUE  # the third
    assert answer(job, noon - 2 * HOUR, now=eight + MINUTE).verdict is Verdict.NOT_YET
    for number in (1, 2, 3):
        plan(eight + number * HOUR)
    assert len(rows.of(job)) == 2
    for row in rows.of(job):
        lifecycle.succeed(claimed(row, now=row.fire_time), result=None, now=row.fire_time)
    one = answer(job, noon - HOUR, now=noon)
    says = "It was not due: its schedule fires 2 times, and had done so."
    assert (one.verdict, one.says) == (Verdict.NOT_DUE, says)
    assert asked(job, now=noon).next_says == "It has no fire left: it has had 2 fires."
    definitions.change(job, version=1, schedule=Cron("30 * * * *"), max_fires=None, now=noon + MINUTE)
    assert answer(job, noon - HOUR, now=noon + 2 * MINUTE).says == says


def test_a_job_without_a_schedule_tells_its_latest_run(noon: datetime, eight: datetime) -> None:
    job = a_job(now=eight)
    one = answer(job, now=noon)
    assert (one.verdict, one.says) == (
        Verdict.NOT_DUE,
        "It was not due: it had no schedule, and runs only when asked.",
    )
    row = job.new_execution(noon, trigger=Trigger.MANUAL, now=noon)
    lifecycle.plan([row])
    told = asked(job, now=noon + MINUTE)
    assert told.fires[0].execution_id == row.pk
    assert told.remark == "It has no schedule; this is the latest run that was asked for."
    assert told.next_says == "It has no schedule, and runs only when asked."


def test_a_schedule_that_nobody_can_read_is_told(job: Job, noon: datetime) -> None:
    Schedule.objects.update(timezone="Mars/Olympus")
    one = answer(job, now=noon)
    assert one.verdict is Verdict.UNPLANNED
    assert "cannot be read, and beats leave it out; give it another one." in one.says


def test_a_job_that_was_made_without_a_history_is_explained(job: Job, noon: datetime) -> None:
    JobVersion.objects.all().delete()
    succeeded(job, noon)
    assert answer(job, now=noon + MINUTE).verdict is Verdict.RAN
