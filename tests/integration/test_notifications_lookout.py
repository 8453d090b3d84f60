"""What a look of the beats makes of what happened: which notices, how many, and when."""

from datetime import datetime, timedelta

import pytest

from executions import lifecycle
from executions.models import Execution
from executions.states import State
from jobs import definitions, runs
from jobs.models import Schedule
from notifications.kinds import TASK, Kind
from notifications.models import Receiver, Trouble
from tests.making import a_job, claimed, every_minute, planned, seconds, succeeded
from tests.notifying import a_receiver, delivery_of, fails, fails_again, kinds, look

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def test_a_dead_letter_is_told_once_with_the_run_that_delivers_it(noon: datetime) -> None:
    receiver = a_receiver(now=noon)
    execution = fails(a_job(key="daily", now=noon, max_attempts=1), noon + MINUTE)
    (notice,) = look(noon + 2 * MINUTE)
    assert (notice.kind, notice.job_key, notice.about) == (Kind.DEAD_LETTER, "daily", "daily")
    assert notice.said["execution"] == str(execution.pk)
    assert notice.said["error"] == "ValueError: no such row"
    delivery = delivery_of(notice)
    assert (delivery.job_id, delivery.task, delivery.queue) == (receiver.job_id, TASK, "http")
    assert delivery.kwargs == {"notice": notice.pk}  # and nothing else
    assert [look(noon + (3 + n) * MINUTE) for n in range(3)] == [[], [], []]


def test_a_failed_attempt_is_a_failure_and_the_last_one_a_dead_letter(noon: datetime) -> None:
    a_receiver(now=noon)
    execution = fails(a_job(now=noon, max_attempts=2), noon + MINUTE)
    (first,) = look(noon + 2 * MINUTE)
    assert (first.kind, first.said["attempt"], first.said["is_dead"]) == (Kind.FAILURE, 1, False)
    execution.refresh_from_db()
    assert first.said["next_at"] == execution.available_at.isoformat()
    fails_again(execution, noon + 3 * MINUTE)
    (second,) = look(noon + 4 * MINUTE)
    assert (second.kind, second.said["attempt"], second.said["is_dead"]) == (Kind.DEAD_LETTER, 2, True)


def test_who_wants_failures_alone_hears_of_the_last_one_as_well(noon: datetime) -> None:
    a_receiver(now=noon, events=["failure"])
    fails(a_job(now=noon, max_attempts=1), noon + MINUTE)
    (notice,) = look(noon + 2 * MINUTE)
    assert (notice.kind, notice.said["is_dead"]) == (Kind.FAILURE, True)


def test_who_wants_dead_letters_alone_hears_of_no_retries(noon: datetime) -> None:
    a_receiver(now=noon, events=["dead_letter"])
    fails(a_job(now=noon, max_attempts=2), noon + MINUTE)
    assert look(noon + 2 * MINUTE) == []
    assert not Trouble.objects.exists()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("ValueError: no\nand more", "ValueError: no"),
        (
            "Traceback (most recent call last):\n" + '  File "x.py", line 1, in y\n' * 500 + "app.Odd: the last word",
            "app.Odd: the last word",
        ),
        ("connecting to postgres://app:hunter2@db failed", "connecting to postgres://[hidden]@db failed"),
    ],
)
def test_of_an_error_one_line_is_told_without_secrets(noon: datetime, error: str, line: str) -> None:
    a_receiver(now=noon)
    fails(a_job(now=noon, max_attempts=1), noon, error=error)
    (notice,) = look(noon + MINUTE)
    assert notice.said["error"] == line


def test_a_lost_worker_is_a_failure(noon: datetime) -> None:
    a_receiver(now=noon)
    claimed(planned(a_job(now=noon), noon + MINUTE), now=noon + MINUTE)
    lifecycle.rescue(silent_since=noon + 2 * MINUTE, now=noon + 2 * MINUTE)
    (notice,) = look(noon + 3 * MINUTE)
    assert (notice.kind, notice.said["outcome"]) == (Kind.FAILURE, "WORKER_LOST")


def test_what_was_given_up_without_an_attempt_is_told_too(noon: datetime) -> None:
    a_receiver(now=noon)
    row = planned(a_job(now=noon), noon + MINUTE)
    Execution.objects.filter(pk=row.pk).update(state=State.DEAD, finished_at=noon + MINUTE, error="unregistered")
    (notice,) = look(noon + 2 * MINUTE)
    assert (notice.kind, notice.said["outcome"], notice.said["error"]) == (Kind.DEAD_LETTER, "", "unregistered")
    assert look(noon + 3 * MINUTE) == []


def test_a_failure_that_somebody_asked_for_by_cancelling_is_not_told(noon: datetime) -> None:
    a_receiver(now=noon)
    row = planned(a_job(now=noon), noon + MINUTE)
    claim = claimed(row, now=noon + MINUTE)
    runs.cancel_executions([row.pk], now=noon + MINUTE)
    lifecycle.fail(claim, error="ValueError: broken off", now=noon + MINUTE)
    assert look(noon + 2 * MINUTE) == []


def test_old_failures_are_not_told_to_a_new_receiver(noon: datetime) -> None:
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon + MINUTE)
    a_receiver(now=noon + 2 * MINUTE)
    assert look(noon + 3 * MINUTE) == []
    fails(job, noon + 4 * MINUTE)
    assert kinds(look(noon + 5 * MINUTE)) == [Kind.DEAD_LETTER]


def test_a_second_receiver_hears_of_what_comes_after_it_alone(noon: datetime) -> None:
    a_receiver("first", now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon + MINUTE)
    a_receiver("second", now=noon + 2 * MINUTE)
    assert [notice.receiver.name for notice in look(noon + 3 * MINUTE)] == ["first"]
    fails(a_job(now=noon, max_attempts=1), noon + 4 * MINUTE)
    assert {notice.receiver.name for notice in look(noon + 5 * MINUTE)} == {"first", "second"}


def test_a_job_that_goes_on_failing_is_told_at_most_each_hour_with_the_count(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon)
    assert len(look(noon + MINUTE)) == 1
    for minute in range(1, 60):
        fails(job, noon + minute * MINUTE)
        assert look(noon + (minute + 0.5) * MINUTE) == []
    (again,) = look(noon + 62 * MINUTE)
    assert (again.kind, again.said["count"]) == (Kind.DEAD_LETTER, 59)
    assert again.said["told_before_at"] == (noon + MINUTE).isoformat()


def test_a_burst_is_told_once_with_its_count(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    for second in range(5):
        fails(job, noon + seconds(second))
    (notice,) = look(noon + MINUTE)
    assert notice.said["count"] == 5


def test_the_first_success_after_it_is_a_recovery(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(key="daily", now=noon, max_attempts=1)
    fails(job, noon + MINUTE)
    look(noon + 2 * MINUTE)
    well = succeeded(job, noon + 3 * MINUTE)
    succeeded(job, noon + 3.5 * MINUTE)
    (notice,) = look(noon + 4 * MINUTE)
    assert (notice.kind, notice.about, notice.said["execution"]) == (Kind.RECOVERY, "daily", str(well.pk))
    assert notice.said["after"] == [Kind.DEAD_LETTER]
    assert not Trouble.objects.exists()
    succeeded(job, noon + 5 * MINUTE)
    assert look(noon + 6 * MINUTE) == []


def test_the_retry_that_succeeds_is_a_recovery(noon: datetime) -> None:
    a_receiver(now=noon)
    execution = fails(a_job(now=noon), noon + MINUTE)
    look(noon + 2 * MINUTE)
    lifecycle.succeed(claimed(execution, now=noon + 3 * MINUTE), result=None, now=noon + 4 * MINUTE)
    (notice,) = look(noon + 5 * MINUTE)
    assert (notice.kind, notice.said["execution"], notice.said["attempt"]) == (Kind.RECOVERY, str(execution.pk), 2)


def test_a_success_before_the_failure_is_no_recovery(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    succeeded(job, noon + MINUTE, ran=10)
    fails(job, noon + MINUTE + seconds(20))
    assert kinds(look(noon + 2 * MINUTE)) == [Kind.DEAD_LETTER]


def test_failure_and_recovery_between_two_looks_are_both_told_in_their_order(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon + MINUTE)
    succeeded(job, noon + MINUTE + seconds(2))
    assert kinds(look(noon + 2 * MINUTE)) == [Kind.DEAD_LETTER, Kind.RECOVERY]


def test_a_failure_after_a_recovery_is_told_at_once(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon + MINUTE)
    succeeded(job, noon + 2 * MINUTE)
    look(noon + 3 * MINUTE)
    fails(job, noon + 4 * MINUTE)
    assert kinds(look(noon + 5 * MINUTE)) == [Kind.DEAD_LETTER]


def test_a_recovery_is_found_among_many_runs_that_wait_and_many_that_fail(noon: datetime) -> None:
    a_receiver(now=noon)
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon)
    look(noon + MINUTE)
    for second in range(150):
        planned(job, noon + 3 * MINUTE + seconds(second))  # newer, and not begun
    succeeded(job, noon + 2 * MINUTE)
    assert kinds(look(noon + 6 * MINUTE)) == [Kind.RECOVERY]


def test_to_whom_no_recovery_is_told_none_is_and_the_trouble_is_over_all_the_same(noon: datetime) -> None:
    a_receiver(now=noon, events=["dead_letter"])
    job = a_job(now=noon, max_attempts=1)
    fails(job, noon + MINUTE)
    look(noon + 2 * MINUTE)
    succeeded(job, noon + 3 * MINUTE)
    assert look(noon + 4 * MINUTE) == []
    fails(job, noon + 5 * MINUTE)
    assert kinds(look(noon + 6 * MINUTE)) == [Kind.DEAD_LETTER]


@pytest.mark.parametrize(("pattern", "is_told"), [("billing.daily", True), ("billing.*", True), ("bill", False)])
def test_a_receiver_hears_of_the_jobs_that_it_names(noon: datetime, pattern: str, is_told: bool) -> None:
    job = a_job(key="billing.daily", now=noon, max_attempts=1)
    a_job(key="bill", now=noon)
    a_receiver(now=noon, jobs=[pattern])
    fails(job, noon + MINUTE)
    assert bool(look(noon + 2 * MINUTE)) is is_told


# ── The limit ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_above_the_limit_is_counted_and_told_when_there_is_room(noon: datetime) -> None:
    a_receiver(now=noon, most_per_hour=3)
    for n in range(5):
        fails(a_job(key=f"job-{n}", now=noon, max_attempts=1), noon + seconds(n))
    first = look(noon + MINUTE)
    assert [notice.job_key for notice in first] == ["job-0", "job-1", "job-2"]
    assert [notice.said.get("more") for notice in first] == [None, None, 2]
    assert look(noon + 2 * MINUTE) == []
    rest = look(noon + 62 * MINUTE)
    assert [notice.job_key for notice in rest] == ["job-3", "job-4"]
    assert [notice.said.get("more") for notice in rest] == [None, None]


def test_what_is_over_before_it_could_be_told_is_counted_in_the_next(noon: datetime) -> None:
    a_receiver(now=noon, most_per_hour=1)
    jobs = [a_job(key=f"job-{n}", now=noon, max_attempts=1) for n in range(3)]
    for job in jobs:
        fails(job, noon)
    (told,) = look(noon + MINUTE)
    assert told.said["more"] == 2
    for job in jobs:
        succeeded(job, noon + 2 * MINUTE)
    assert kinds(look(noon + 3 * MINUTE)) == [Kind.RECOVERY]  # of the one that was told; no limit holds it back
    fails(jobs[0], noon + 70 * MINUTE)
    (later,) = look(noon + 71 * MINUTE)
    assert later.said["more"] == 2
    assert Receiver.objects.get().passed_over == 0


def test_dead_letters_come_before_failures_where_not_all_can(noon: datetime) -> None:
    a_receiver(now=noon, most_per_hour=1)
    fails(a_job(now=noon, max_attempts=2), noon)
    fails(a_job(key="worse", now=noon, max_attempts=1), noon + seconds(5))
    (notice,) = look(noon + MINUTE)
    assert (notice.kind, notice.job_key) == (Kind.DEAD_LETTER, "worse")


# ── The loop ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_notification_that_cannot_be_delivered_is_no_news(noon: datetime) -> None:
    a_receiver(now=noon)
    fails(a_job(now=noon, max_attempts=1), noon)
    (notice,) = look(noon + MINUTE)
    delivery = delivery_of(notice)
    lifecycle.fail(claimed(delivery, now=noon + MINUTE), error="Unanswered: …", now=noon + MINUTE)
    assert look(noon + 2 * MINUTE) == []
    Execution.objects.filter(pk=delivery.pk).update(state=State.DEAD, finished_at=noon + 3 * MINUTE)
    assert look(noon + 4 * MINUTE) == []


def test_a_notification_that_waits_makes_nothing_late(noon: datetime) -> None:
    a_receiver(now=noon)
    fails(a_job(now=noon, max_attempts=1), noon)
    look(noon + MINUTE)
    assert look(noon + 60 * MINUTE) == []


# ── Lateness ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_schedule_that_no_beat_plans_is_late_once_and_on_time_again(noon: datetime) -> None:
    a_receiver(now=noon, late_after_seconds=120)
    job = a_job(key="minutely", now=noon, schedule=every_minute(noon))
    assert look(noon + 2 * MINUTE) == []
    (late,) = look(noon + 4 * MINUTE)
    assert (late.kind, late.about, late.said["why"]) == (Kind.LATENESS, "late minutely", "no beat has planned it")
    assert late.said["since"] == (noon + MINUTE).isoformat()
    assert look(noon + 90 * MINUTE) == []
    Schedule.objects.filter(job=job).update(next_fire_at=noon + 91 * MINUTE)
    (over,) = look(noon + 91 * MINUTE)
    assert (over.kind, over.about, over.said["after"]) == (Kind.RECOVERY, "late minutely", [Kind.LATENESS])
    assert look(noon + 91.5 * MINUTE) == []


def test_what_nobody_publishes_or_takes_is_late(noon: datetime) -> None:
    a_receiver(now=noon, late_after_seconds=120)
    planned(a_job(key="unpublished", now=noon), noon)
    waiting = planned(a_job(key="waiting", now=noon), noon)
    lifecycle.mark_queued([waiting], now=noon)
    found = {notice.job_key: notice.said["why"] for notice in look(noon + 3 * MINUTE)}
    assert found == {"unpublished": "it is not published", "waiting": "no worker has taken it"}
    claimed(waiting, now=noon + 4 * MINUTE)
    assert [(n.kind, n.job_key) for n in look(noon + 5 * MINUTE)] == [(Kind.RECOVERY, "waiting")]


def test_lateness_does_not_come_and_go_around_its_threshold(noon: datetime) -> None:
    a_receiver(now=noon, late_after_seconds=120)
    job = a_job(now=noon, schedule=every_minute(noon))
    assert kinds(look(noon + 4 * MINUTE)) == [Kind.LATENESS]
    Schedule.objects.filter(job=job).update(next_fire_at=noon + 2.5 * MINUTE)  # late by a minute and a half
    assert look(noon + 4 * MINUTE) == []
    Schedule.objects.filter(job=job).update(next_fire_at=noon + 3.5 * MINUTE)
    assert kinds(look(noon + 4 * MINUTE)) == [Kind.RECOVERY]


def test_nothing_is_on_time_again_while_not_all_that_is_late_could_be_read(
    noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_receiver(now=noon, late_after_seconds=120)
    for n in range(3):
        a_job(key=f"job-{n}", now=noon, schedule=every_minute(noon))
    assert len(look(noon + 4 * MINUTE)) == 3
    monkeypatch.setattr("notifications.lateness.AT_MOST", 2)
    assert look(noon + 5 * MINUTE) == []


def test_a_paused_job_is_not_late(noon: datetime) -> None:
    a_receiver(now=noon, late_after_seconds=120)
    job = a_job(now=noon, schedule=every_minute(noon))
    definitions.pause(job, reason="", now=noon)
    assert look(noon + 10 * MINUTE) == []
