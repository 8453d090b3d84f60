"""The loop of one beat: what it tells of itself, and what it does about trouble."""

import os
import socket
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import OperationalError
from pytest_django import Settings

from beat.aside import AtOnce
from beat.health import ticking
from beat.heartbeat import Heartbeat
from beat.models import Beat
from beat.process import BeatProcess
from beat.tick import TickReport
from beat.upkeep.keeper import UpkeepThread
from executions.clock import database_now
from executions.models import Execution
from executions.states import State
from executions.version import VERSION
from tests.integration.conftest import Queues
from tests.making import a_job, planned, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def beat(broker: Queues, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> BeatProcess:
    """A beat whose steps are asked for, without threads: they would not see what a test has not committed."""
    monkeypatch.setattr(Heartbeat, "start", lambda heartbeat: heartbeat._beat())
    monkeypatch.setattr(Heartbeat, "stop", lambda heartbeat: heartbeat._members.leave())
    monkeypatch.setattr("beat.aside.suitable", AtOnce)
    monkeypatch.setattr(UpkeepThread, "start", lambda upkeep: None)
    monkeypatch.setattr(UpkeepThread, "stop", lambda upkeep: None)
    monkeypatch.setattr("beat.process.connection.close", lambda: None)  # it is the test's as well
    caplog.set_level("INFO", logger="onbeat")
    return BeatProcess()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "onbeat"]


def fails(*errors: Exception) -> Callable[[datetime], TickReport]:
    """A tick that fails in these ways one after the other, and then is well."""
    left = list(errors)

    def tick(_now: datetime) -> TickReport:
        if left:
            raise left.pop(0)
        return TickReport()

    return tick


def test_a_beat_tells_who_it_is_and_how_it_does(beat: BeatProcess) -> None:
    due_at = database_now() - seconds(30)
    planned(a_job(now=due_at), due_at)
    beat._try_step()
    row = Beat.objects.get()
    assert (row.name, row.host, row.pid, row.version) == (beat.name, socket.gethostname(), os.getpid(), VERSION)
    assert row.started_at <= row.ticked_at == row.seen_at
    assert abs(database_now() - row.ticked_at) < timedelta(minutes=1)
    assert (row.shards, row.refusal, row.is_broker_away, row.is_redis_away) == (64, "", False, False)
    assert row.lateness_seconds is not None
    assert 30 <= row.lateness_seconds < 90
    assert row.clock_offset_seconds is not None
    assert abs(row.clock_offset_seconds) < 30
    assert Execution.objects.get().state == State.QUEUED


def test_two_beats_of_one_machine_have_names_of_their_own(beat: BeatProcess) -> None:
    assert beat.name != BeatProcess().name
    assert str(os.getpid()) in beat.name


def test_an_error_that_nobody_expected_is_told_once_and_does_not_end_the_beat(
    beat: BeatProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    surprise = ZeroDivisionError("a surprise")
    monkeypatch.setattr(beat._ticker, "tick", fails(surprise, surprise, surprise))
    pauses = [beat._try_step() for _ in range(5)]
    assert pauses[:3] == [seconds(1)] * 3  # it does not spin
    failed, over = said(caplog)
    assert failed.startswith("a tick failed; it is tried again  error=")
    assert "a surprise" in failed
    assert over == "ticks go on: the trouble is over  after='a tick failed; it is tried again'"


def test_a_beat_in_trouble_is_no_member_and_says_nothing_of_being_well(
    beat: BeatProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat._try_step()
    ticked_at = Beat.objects.get().ticked_at
    assert beat._heartbeat.is_fit
    monkeypatch.setattr("beat.process._SAY_WELL_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(beat._ticker, "tick", fails(ZeroDivisionError()))
    beat._try_step()
    assert not beat._heartbeat.is_fit
    assert Beat.objects.get().ticked_at == ticked_at
    beat._try_step()
    assert beat._heartbeat.is_fit
    assert Beat.objects.get().ticked_at > ticked_at


def test_a_database_that_is_away_is_told_without_its_address(
    beat: BeatProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = OperationalError("connection to 10.0.0.1 as secret-user failed")
    monkeypatch.setattr(beat._ticker, "tick", fails(away, away))
    for _ in range(3):
        beat._try_step()
    assert said(caplog) == [
        "the database is away: nothing is planned until it answers  error=OperationalError",
        "ticks go on: the trouble is over  after='the database is away: nothing is planned until it answers'",
    ]


def test_a_second_error_of_another_kind_is_told_too(
    beat: BeatProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = ZeroDivisionError("a surprise"), KeyError("another")
    monkeypatch.setattr(beat._ticker, "tick", fails(first, first, second))
    for _ in range(3):
        beat._try_step()
    assert said(caplog) == [
        "a tick failed; it is tried again  error='ZeroDivisionError: a surprise'",
        "a tick failed; it is tried again  error=\"KeyError: 'another'\"",
    ]


def test_one_trouble_after_the_other_is_told_each(
    beat: BeatProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(beat._ticker, "tick", fails(OperationalError(), ZeroDivisionError("a surprise")))
    for _ in range(3):
        beat._try_step()
    assert [line.split("  ")[0] for line in said(caplog)] == [
        "the database is away: nothing is planned until it answers",
        "a tick failed; it is tried again",
        "ticks go on: the trouble is over",
    ]


@pytest.mark.parametrize(("wrong", "direction"), [(-3600, "ahead of"), (3600, "behind")])
def test_a_beat_whose_clock_is_wrong_does_not_fire_and_says_what_to_do(
    beat: BeatProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wrong: int, direction: str
) -> None:
    due_at = database_now() - timedelta(days=1)
    planned(a_job(now=due_at), due_at)
    real = database_now
    monkeypatch.setattr("executions.clock.database_now", lambda: real() + seconds(wrong))
    for _ in range(2):
        beat._try_step()
    refusal = f"this machine's clock is 3600 s {direction} the database's: set one of them right"
    assert said(caplog) == [f"this beat does not fire  error={refusal!r}"]
    assert Execution.objects.get().state == State.SCHEDULED
    row = Beat.objects.get()
    assert row.refusal == refusal
    assert row.clock_offset_seconds == pytest.approx(-wrong, abs=5)
    assert not beat._heartbeat.is_fit  # the others take its shards


def test_a_beat_whose_clock_was_set_right_fires_again(beat: BeatProcess, settings: Settings) -> None:
    settings.ONBEAT_BEAT_CLOCK_OFFSET_SECONDS = -1  # no clock is that right
    beat._try_step()
    assert Beat.objects.get().refusal
    settings.ONBEAT_BEAT_CLOCK_OFFSET_SECONDS = 30
    beat._try_step()
    assert (Beat.objects.get().refusal, beat._heartbeat.is_fit) == ("", True)


def test_a_beat_that_was_taken_off_the_registry_signs_on_again(
    beat: BeatProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beat.process._SAY_WELL_EVERY_SECONDS", 0.0)
    beat._try_step()
    Beat.objects.all().delete()
    beat._try_step()
    beat._try_step()
    assert Beat.objects.get().name == beat.name


def test_a_beat_without_a_broker_is_no_member_and_ticks_on(
    beat: BeatProcess, no_broker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beat.process._SAY_WELL_EVERY_SECONDS", 0.0)
    due_at = database_now() - seconds(1)
    planned(a_job(now=due_at), due_at)
    beat._try_step()
    first = Beat.objects.get()
    assert (first.is_broker_away, beat._heartbeat.is_fit) == (True, False)
    beat._try_step()
    assert Beat.objects.get().ticked_at > first.ticked_at
    assert Execution.objects.get().state == State.SCHEDULED


def test_a_beat_sleeps_until_the_next_fire_and_no_longer_than_a_poll(beat: BeatProcess) -> None:
    assert beat._try_step() == seconds(1)
    soon = beat._clock.now() + seconds(0.6)  # its own, which lags by as long as the database took to answer
    planned(a_job(now=soon), soon)
    assert timedelta(0) <= beat._try_step() <= seconds(0.6)


def test_a_beat_that_ends_signs_off(beat: BeatProcess) -> None:
    beat._try_step()
    beat.stopping.set()
    beat.run()
    assert not Beat.objects.exists()


def test_a_beat_that_never_ended_a_tick_does_not_count_as_ticking(beat: BeatProcess) -> None:
    beat._ticker.tick = fails(*[ZeroDivisionError("a surprise")] * 3)  # type: ignore[method-assign]
    for _ in range(3):
        beat._try_step()
    assert Beat.objects.get().ticked_at is None
    assert "none has ticked yet" in ticking(database_now()).says


def test_a_beat_waits_for_the_migrations_and_says_once_what_to_do(
    beat: BeatProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as before:
        before.setattr("beat.process.missing_migrations", lambda: 2)
        beat._try_step()
        beat._try_step()
    assert not Beat.objects.exists()
    beat._try_step()
    assert Beat.objects.get().ticked_at is not None
    assert [line.split("  ")[0] for line in said(caplog)] == [
        "the database is not migrated: nothing is planned",
        "ticks go on: the trouble is over",
    ]
