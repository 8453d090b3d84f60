"""One of two beats is frozen, hangs, is killed or told to stop: the other has its work, and nothing is lost or doubled.

The two live through all of these tests; whoever ended is replaced before the next.
"""

import signal
from collections.abc import Iterator

import pytest
import redis
from django.conf import settings

from tests.acceptance.pulses import SHARDS
from tests.acceptance.two_beats import HANGS, OneBeat, TwoBeats
from tests.waiting import wait_until

pytestmark = pytest.mark.full

LOOK_AHEAD_SECONDS = 2
LEASE_SECONDS = 3
PULSES = 16
BURST = 2000
SOON = 6  # seconds until the burst, in which the test gets ready to watch it
STOPPED = "beat stopped"
STOPPED_IN_THE_MIDDLE = "beat stopped in the middle of something: what is left of it is done by the others"
# Due at one instant, spread over the jobs and so over the shards.
ASK_FOR_A_BURST = f"""
from datetime import timedelta
from executions.clock import database_now
from jobs import runs
now = database_now()
wanted = [runs.Wanted(run_at=now + timedelta(seconds={SOON}), kwargs={{"burst": "NAME"}})] * {BURST // PULSES}
for number in range({PULSES}):
    runs.run_many(f"pulse-{{number:02}}", wanted, now=now)
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBeats]:
    with TwoBeats(
        tmp_path_factory.mktemp("handover"),
        count=PULSES,
        ONBEAT_BEAT_LOOK_AHEAD_SECONDS=str(LOOK_AHEAD_SECONDS),
        ONBEAT_BEAT_LEASE_SECONDS=str(LEASE_SECONDS),
        ONBEAT_BEAT_BATCH_SIZE="50",
        ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS="60",
        ONBEAT_EXECUTIONS_CONFIRM_SECONDS="10",
    ) as both:
        yield both


@pytest.fixture
def both(started: TwoBeats) -> Iterator[TwoBeats]:
    started.replace_the_dead()
    with started.beginning_calm():
        yield started


def has_all_shards(both: TwoBeats, beat: OneBeat) -> None:
    wait_until(lambda: both.shards_of(beat.process) == SHARDS, what="the other beat has all shards")


def fires_go_on(both: TwoBeats, *, since: int) -> None:
    """While one beat does nothing, for longer than its leases live and its plans reach."""
    both.pass_seconds(LEASE_SECONDS + 2, since=since)
    both.go_on(since, both.second())


def ask_for_a_burst(both: TwoBeats, name: str, *, slow: OneBeat, answer_seconds: float) -> str:
    """Which rows it is, in SQL. One beat needs a while for its part: so long for each answer of the broker."""
    slow.broker.slow(answer_seconds)
    both.platform.manage("shell", "-c", ASK_FOR_A_BURST.replace("NAME", name))
    rows = f"FROM onbeat_execution WHERE trigger = 'DELAYED' AND kwargs->>'burst' = '{name}'"
    assert both.count(f"SELECT count(*) {rows}") == BURST
    return rows


def is_in_the_middle(both: TwoBeats, beat: OneBeat, burst: str) -> None:
    before = both.sent(by=beat.process).keys()
    ids = {pk for (pk,) in both.rows(f"SELECT id::text {burst}")}
    wait_until(lambda: (both.sent(by=beat.process).keys() - before) & ids, what="it has sent a part of the burst")
    assert both.count(f"SELECT count(*) {burst} AND state = 'SCHEDULED'") > 0


def members(both: TwoBeats) -> set[int]:
    """The process ids of the beats that count as living."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        names = client.zrange(both.queue("members"), 0, -1)
    return {int(name.decode().split("-")[-2]) for name in names}


def is_published(both: TwoBeats, burst: str) -> None:
    wait_until(
        lambda: both.rows(f"SELECT state, count(*) {burst} GROUP BY state") == [("QUEUED", BURST)],
        what="the burst is published",
    )
    sent = both.sent()
    assert [pk for (pk,) in both.rows(f"SELECT id::text {burst}") if pk not in sent] == []


def test_a_beat_that_was_frozen_longer_than_its_lease_comes_back_and_every_second_fires_once(both: TwoBeats) -> None:
    frozen, other = both.beats
    with both.every_second_fires_once():
        since = both.second()
        frozen.process.signal(signal.SIGSTOP)
        has_all_shards(both, other)
        fires_go_on(both, since=since)
        frozen.process.signal(signal.SIGCONT)
        both.calm()
        both.pass_seconds(1)
    assert both.steps_back() == []


def test_a_beat_whose_tick_hangs_loses_its_shards_and_gets_them_back_when_it_goes_on(both: TwoBeats) -> None:
    hung, other = both.beats
    with both.every_second_fires_once():
        since = both.second()
        hung.database.freeze()
        wait_until(lambda: HANGS in hung.said(), what="the beat says that its tick hangs")
        has_all_shards(both, other)
        fires_go_on(both, since=since)
        hung.mend()
        both.calm()
    assert both.steps_back() == []


def test_what_a_beat_leaves_that_is_killed_in_a_burst_is_published_by_the_other(both: TwoBeats) -> None:
    killed, other = both.beats
    with both.every_second_fires_once():
        burst = ask_for_a_burst(both, "killed", slow=killed, answer_seconds=1.0)
        is_in_the_middle(both, killed, burst)
        killed.process.kill_all()
        assert both.count(f"SELECT count(*) {burst} AND state = 'SCHEDULED'") > 0
        has_all_shards(both, other)
        is_published(both, burst)
    assert both.steps_back() == []


def test_a_beat_that_is_told_to_stop_in_a_burst_ends_its_batch_and_hands_over_the_rest(both: TwoBeats) -> None:
    stopped, other = both.beats
    with both.every_second_fires_once():
        burst = ask_for_a_burst(both, "stopped", slow=stopped, answer_seconds=0.25)
        other.process.signal(signal.SIGSTOP)  # so that it marks nothing for the one that stops
        is_in_the_middle(both, stopped, burst)
        assert stopped.process.terminate() == 0
        assert stopped.said()[-1] == STOPPED
        assert stopped.process.pid not in members(both)
        assert both.count(f"SELECT count(*) FROM onbeat_beat WHERE pid = {stopped.process.pid}") == 0
        unmarked = {pk for (pk,) in both.rows(f"SELECT id::text {burst} AND state = 'SCHEDULED'")}
        assert unmarked
        assert unmarked & both.sent(by=stopped.process).keys() == set()
        other.process.signal(signal.SIGCONT)
        has_all_shards(both, other)
        is_published(both, burst)
    assert both.steps_back() == []


def test_a_beat_that_is_told_to_stop_while_its_database_hangs_still_ends(both: TwoBeats) -> None:
    hung, other = both.beats
    with both.every_second_fires_once():
        hung.database.freeze()
        assert hung.process.terminate() == 0
        assert hung.said()[-1] == STOPPED_IN_THE_MIDDLE
        has_all_shards(both, other)
    assert both.steps_back() == []
