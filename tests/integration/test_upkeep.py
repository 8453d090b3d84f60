"""Duties beside firing."""

import time
import uuid
from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.db import connection, transaction
from redis import Redis

from beat.lease import Leases
from beat.members import Members
from beat.models import Beat
from beat.upkeep import DUTIES, pauses, rescue
from beat.upkeep.duty import Duty
from beat.upkeep.keeper import Upkeep, UpkeepThread
from executions.clock import database_now
from executions.models import Execution
from executions.redis_link import RedisLink
from executions.states import State
from jobs import definitions
from jobs.models import Job, JobState, Schedule
from jobs.recurrence import Once
from tests.making import a_job, claimed, no_leases, planned, seconds
from tests.waiting import wait_until

# With a broker of its own: one of the duties takes what lies in the dead-letter queue.
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker")]


@pytest.fixture
def silent(noon: datetime) -> Execution:
    """RUNNING, and without a heartbeat for an hour."""
    execution = planned(a_job(now=noon), noon - timedelta(hours=1))
    claimed(execution, now=noon - timedelta(hours=1))
    return execution


def state_of(execution: Execution) -> str:
    execution.refresh_from_db()
    return execution.state


def awake() -> Upkeep:
    """One that has looked on for long enough to trust a worker's silence."""
    upkeep = Upkeep(no_leases())
    time_passes(upkeep)
    return upkeep


def time_passes(upkeep: Upkeep) -> None:
    """By both clocks, and long enough for living workers to speak."""
    upkeep._trusts_silence_from -= 20
    upkeep._looked_at = None


def test_the_work_of_a_silent_worker_is_rescued(silent: Execution, noon: datetime) -> None:
    awake().run_due(noon)
    assert state_of(silent) == State.SCHEDULED


def test_a_beat_that_has_just_started_does_not_trust_a_silence_from_before(silent: Execution, noon: datetime) -> None:
    upkeep = Upkeep(no_leases())
    upkeep.run_due(noon)
    assert state_of(silent) == State.RUNNING
    time_passes(upkeep)
    upkeep.run_due(noon)
    assert state_of(silent) == State.SCHEDULED


def test_when_the_database_or_the_machine_stood_still_a_silence_means_nothing_yet(
    silent: Execution, noon: datetime
) -> None:
    upkeep = awake()
    upkeep._looked_at = noon - seconds(6), time.monotonic() - 6
    upkeep.run_due(noon)
    assert state_of(silent) == State.RUNNING


@pytest.mark.parametrize("step", [22, -22])
def test_when_the_databases_clock_was_set_a_silence_means_nothing_yet(
    silent: Execution, noon: datetime, step: int
) -> None:
    """Heartbeats from before were written by the clock as it was."""
    upkeep = awake()
    upkeep._looked_at = noon - seconds(step + 1), time.monotonic() - 1
    upkeep.run_due(noon)
    assert state_of(silent) == State.RUNNING


def test_while_a_clock_is_wrong_no_duty_is_done_and_afterwards_a_silence_means_nothing_yet(
    silent: Execution, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep = awake()
    done: list[datetime] = []
    monkeypatch.setattr(upkeep, "run_due", done.append)
    thread = UpkeepThread(upkeep)
    monkeypatch.setattr(thread._clock, "now", lambda: noon)
    thread._clock.offset = seconds(-100 * 24 * 3600)
    for _ in range(2):
        thread._look()
    assert done == []
    thread._clock.offset = seconds(0)
    thread._look()
    assert done == [noon]
    assert upkeep._must_wait(rescue.DUTY)


@pytest.mark.full
def test_a_statement_that_took_too_long_is_no_outage_and_holds_up_no_other_duty(
    silent: Execution, noon: datetime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def take_too_long(_now: datetime) -> int:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 10")
            cursor.execute("SELECT pg_sleep(5)")
        return 0

    slow = Duty(name="slow", does="takes long", every=timedelta(seconds=5), run=take_too_long)
    monkeypatch.setattr("beat.upkeep.keeper.DUTIES", (slow, *DUTIES))
    awake().run_due(noon)
    assert state_of(silent) == State.SCHEDULED
    assert "a duty of the upkeep failed; it is tried again  duty=slow" in caplog.text


def test_duties_are_not_done_at_every_tick(silent: Execution, noon: datetime) -> None:
    upkeep = Upkeep(no_leases())
    upkeep.run_due(noon - timedelta(hours=2))
    Execution.objects.update(state=State.RUNNING)
    upkeep.run_due(noon - timedelta(hours=2) + seconds(4))
    assert state_of(silent) == State.RUNNING


def test_silence_during_an_outage_of_the_database_means_nothing_yet(silent: Execution, noon: datetime) -> None:
    upkeep = awake()
    upkeep.after_outage()
    upkeep.run_due(noon)
    assert state_of(silent) == State.RUNNING
    time_passes(upkeep)
    upkeep.run_due(noon + seconds(6))
    assert state_of(silent) == State.SCHEDULED


def test_many_pauses_that_end_together_all_end(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beat.upkeep.pauses._AT_ONCE", 2)
    for _ in range(5):
        definitions.pause(a_job(now=noon), reason="quiet", until=noon + seconds(30), now=noon)
    assert pauses.end_pauses(noon + seconds(30)) == 5
    assert set(Job.objects.values_list("state", flat=True)) == {JobState.ACTIVE}


def test_beats_that_were_killed_leave_the_registry_after_an_hour(noon: datetime) -> None:
    for name, ticked_at in {"alive": noon, "killed": noon - timedelta(hours=1, seconds=1)}.items():
        Beat.objects.create(name=name, host="h", pid=1, started_at=ticked_at, ticked_at=ticked_at)
    Upkeep(no_leases()).run_due(noon)
    assert list(Beat.objects.values_list("name", flat=True)) == ["alive"]


def test_a_duty_that_fails_stops_neither_the_others_nor_the_beat(
    noon: datetime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_now: datetime) -> int:
        raise ZeroDivisionError("a surprise")

    broken = Duty(name="broken", does="fails", every=timedelta(seconds=5), run=fail)
    monkeypatch.setattr("beat.upkeep.keeper.DUTIES", (broken, *DUTIES))
    job = a_job(now=noon, schedule=Once(noon + seconds(1)))
    Schedule.objects.filter(job=job).update(next_fire_at=None)
    Upkeep(no_leases()).run_due(noon + seconds(60))
    job.refresh_from_db()
    assert job.state == JobState.COMPLETED
    assert "a duty of the upkeep failed" in caplog.text


def test_an_error_that_nobody_expected_is_told_once_and_the_upkeep_goes_on(
    noon: datetime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    met = ["first", "first", "second"]

    def fail(_now: datetime) -> None:
        if met:
            raise ZeroDivisionError(met.pop(0))

    upkeep = Upkeep(no_leases())
    thread = UpkeepThread(upkeep)
    monkeypatch.setattr("beat.upkeep.keeper._LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(thread._clock, "now", lambda: noon)
    monkeypatch.setattr(upkeep, "run_due", fail)
    thread.start()
    try:
        wait_until(lambda: not met, what="it has met all errors")
        wait_until(lambda: len(caplog.messages) == 2, what="it has told both kinds")
        assert thread._thread.is_alive()
    finally:
        thread.stop()
    assert [message.split("  ")[0] for message in caplog.messages] == ["the upkeep of this beat failed; it goes on"] * 2
    assert ["first" in message for message in caplog.messages] == [True, False]


@pytest.mark.full
def test_two_installations_that_share_their_keys_by_mistake_both_get_their_upkeep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leases last until the next look of whoever holds them, and no longer."""
    link = RedisLink(settings.REDIS_URL, prefix=f"t{uuid.uuid4().hex[:10]}.")
    done: list[str] = []
    keepers = {name: Upkeep(Leases(link, holder=name, life=seconds(10))) for name in ("ours", "theirs")}

    def look(name: str) -> None:
        Members(link, beat=name).renew()
        duty = Duty(name="d", does="", every=seconds(0.2), run=lambda _now: done.append(name) or 0)
        monkeypatch.setattr("beat.upkeep.keeper.DUTIES", (duty,))
        keepers[name].run_due(database_now())

    wait_until(lambda: look("ours") or look("theirs") or {*done} == {*keepers}, what="both did their duty", seconds=5)


# ── Duties that take long ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def takes_four_seconds(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The only duty, once a minute, which rests for 20 times what it took; returns when it was done."""
    done, monotonic = [], [0.0]

    def run(now: datetime) -> int:
        monotonic[0] += 4
        done.append(now)
        return 0

    duty = Duty(name="long", does="takes long", every=seconds(60), run=run, rests_times=20)
    monkeypatch.setattr("beat.upkeep.keeper.DUTIES", (duty,))
    monkeypatch.setattr("beat.upkeep.keeper.time.monotonic", lambda: monotonic[0])
    return done


def test_a_duty_that_took_long_rests_for_a_multiple_of_it(takes_four_seconds: list[datetime], noon: datetime) -> None:
    upkeep = Upkeep(no_leases())
    for number in range(18):
        upkeep.run_due(noon + number * seconds(10))
    assert takes_four_seconds == [noon, noon + seconds(80), noon + seconds(160)]


@pytest.mark.full
def test_what_rests_is_done_by_no_other_beat(takes_four_seconds: list[datetime], noon: datetime) -> None:
    prefix = f"t{uuid.uuid4().hex[:10]}."
    link = RedisLink(settings.REDIS_URL, prefix=prefix)
    Upkeep(Leases(link, holder="ours", life=seconds(10))).run_due(noon)
    with Redis.from_url(settings.REDIS_URL) as redis:
        assert 70_000 < redis.pttl(f"{prefix}lease:duty:long") <= 78_000
        redis.delete(f"{prefix}lease:duty:long")
    assert takes_four_seconds == [noon]


def test_a_duty_that_took_a_short_time_is_done_when_it_is_due(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[datetime] = []
    duty = Duty(name="short", does="", every=seconds(60), run=lambda now: done.append(now) or 0, rests_times=20)
    monkeypatch.setattr("beat.upkeep.keeper.DUTIES", (duty,))
    upkeep = Upkeep(no_leases())
    for number in range(3):
        upkeep.run_due(noon + number * seconds(60))
    assert len(done) == 3
