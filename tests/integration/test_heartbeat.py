"""A beat says that it lives only while it gets its work done."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest
from django.db import OperationalError

from beat.heartbeat import Heartbeat, Progress
from beat.members import Members
from beat.models import Beat
from beat.shards import ALL, Shards, share_of
from executions.redis_link import RedisLink
from tests.making import seconds
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

HANGS = "this beat's tick hangs: its shards go to the others"


class Beating:
    """A heartbeat whose thread is not started: each beat is asked for."""

    def __init__(self, *, stuck_after_seconds: float = 60) -> None:
        self.members = Members(RedisLink("", prefix=""), beat="me")
        self.shards = Shards("me", linger=seconds(10))
        self.progress = Progress(stuck_after_seconds=stuck_after_seconds)
        self.woken = 0
        self.heartbeat = Heartbeat(self.members, self.shards, self.progress, on_new_shards=self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def beat(self) -> None:
        self.heartbeat._beat()

    def lives(self) -> bool:
        return "me" in self.members.look()


@pytest.fixture(autouse=True)
def _registered(noon: datetime) -> None:
    for name in ("me", "other"):
        Beat.objects.create(name=name, host="h", pid=1, started_at=noon, ticked_at=noon)


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", logger="onbeat")
    return caplog


def another_lives() -> None:
    Members(RedisLink("", prefix=""), beat="other").renew()


def test_a_beat_that_is_fit_says_that_it_lives_and_shares_with_the_others(said: pytest.LogCaptureFixture) -> None:
    one = Beating()
    one.beat()
    assert one.lives()
    assert one.shards.planning == ALL
    another_lives()
    one.beat()
    assert one.shards.planning == share_of("me", {"me", "other"})
    assert said.messages == [f"shards are shared anew  beats=2 ours='{len(one.shards.planning)} of 64'"]


def test_a_beat_that_gets_other_shards_is_woken_to_look_after_them() -> None:
    one = Beating()
    one.beat()
    assert one.woken == 0
    another_lives()
    for _ in range(2):
        one.beat()
    assert one.woken == 1


def test_a_beat_whose_tick_hangs_steps_back_and_says_so_once(said: pytest.LogCaptureFixture) -> None:
    one = Beating(stuck_after_seconds=0)
    one.beat()
    assert one.lives()
    one.progress.made()
    wait_until(one.progress.is_stuck, what="the tick is held to be stuck")
    one.beat()
    one.beat()
    assert not one.lives()
    assert said.messages == [HANGS]


def test_a_beat_whose_tick_goes_on_after_all_is_a_member_again(said: pytest.LogCaptureFixture) -> None:
    one = Beating(stuck_after_seconds=0)
    for _ in range(2):
        one.progress.made()
        wait_until(one.progress.is_stuck, what="the tick is held to be stuck")
        one.beat()
        assert not one.lives()
        one.progress.rest()
        one.beat()
        assert one.lives()
    assert said.messages == [HANGS, HANGS]


def test_a_beat_that_rests_between_two_ticks_is_not_stuck() -> None:
    progress = Progress(stuck_after_seconds=0)
    assert not progress.is_stuck()
    progress.made()
    progress.rest()
    assert not progress.is_stuck()


def test_a_tick_that_is_slow_and_gets_on_is_not_stuck() -> None:
    progress = Progress(stuck_after_seconds=60)
    progress.made()
    assert not progress.is_stuck()


def test_a_beat_that_cannot_do_its_work_leaves_and_comes_back_when_it_can(said: pytest.LogCaptureFixture) -> None:
    one = Beating()
    one.beat()
    one.heartbeat.is_fit = False
    one.beat()
    assert not one.lives()
    one.heartbeat.is_fit = True
    one.beat()
    assert one.lives()
    assert said.messages == []  # why it was unfit was said by who found out


def test_a_tick_that_hangs_is_told_also_while_the_database_does_not_answer(
    said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise OperationalError("the database is away")

    one = Beating(stuck_after_seconds=0)
    one.beat()
    monkeypatch.setattr(one.members, "leave", away)
    one.progress.made()
    wait_until(one.progress.is_stuck, what="the tick is held to be stuck")
    with pytest.raises(OperationalError):
        one.beat()
    assert said.messages == [HANGS]


@contextmanager
def surprised(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A heartbeat in its thread, and what it meets each time: a surprise, until the list has no more.

    Not a fixture: what is said while those are set up does not count as said in the test.
    """
    surprises = ["first", "first", "second"]
    monkeypatch.setattr("beat.heartbeat.EVERY", seconds(0.01))
    one = Beating()

    def renew() -> frozenset[str]:
        if surprises:
            raise ZeroDivisionError(surprises.pop(0))
        return frozenset({"me"})

    monkeypatch.setattr(one.members, "renew", renew)
    monkeypatch.setattr(one.members, "leave", lambda: None)
    one.heartbeat._thread.start()
    yield surprises
    assert one.heartbeat._thread.is_alive()
    one.heartbeat.stop()


def test_an_error_that_nobody_expected_is_told_once_and_the_heart_goes_on(
    said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with surprised(monkeypatch) as surprises:
        wait_until(lambda: not surprises, what="it has met all surprises")
        wait_until(lambda: len(said.messages) == 2, what="it has told both kinds")
    told = "the heartbeat of this beat failed; it goes on"
    assert [message.split("  ")[0] for message in said.messages] == [told, told]
    assert ["first" in message for message in said.messages] == [True, False]
