"""A cron job goes plan → publish → claim → finish with real processes, embedded and full, and through their deaths."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tests.platform import Platform
from tests.waiting import wait_until

SUCCEEDED = "SELECT count(*) FROM onbeat_execution WHERE state = 'SUCCEEDED'"
UNENDED = "SELECT count(*) FROM onbeat_execution WHERE state IN ('QUEUED', 'RUNNING')"
EVERY_SECOND = 'key="pulse", task="onbeat.echo", schedule=Cron("* * * * * *")'


@pytest.fixture
def pulsing(platform: Platform) -> Platform:
    """A platform with one job that fires every second."""
    platform.migrate()
    create(platform, EVERY_SECOND)
    return platform


def create(platform: Platform, definition: str) -> None:
    platform.manage(
        "shell",
        "-c",
        "from datetime import timedelta; from executions.clock import database_now; from jobs import definitions; "
        f"from jobs.recurrence import *; now = database_now(); definitions.create({definition}, now=now)",
    )


def test_a_demo_job_is_planned_published_claimed_and_finished(platform: Platform) -> None:
    platform.manage("prepare", "--demo", "always")
    platform.beat()
    platform.worker()
    wait_until(lambda: platform.count(SUCCEEDED), what="an execution has succeeded")
    columns = "id, attempt, started_at, finished_at, worker"
    identity, *row = platform.rows(f"SELECT {columns} FROM onbeat_execution WHERE state = 'SUCCEEDED'")[0]
    assert row[0] == 1
    assert all(row[1:])
    of_it = f"SELECT number, outcome FROM onbeat_attempt WHERE execution_id = '{identity}'"
    assert platform.rows(of_it) == [(1, "SUCCEEDED")]  # another of the demo jobs fails on purpose


def test_kill_9_of_everything_loses_nothing_and_doubles_nothing(pulsing: Platform) -> None:
    for round_number in range(3):
        before = pulsing.count(SUCCEEDED)
        beat, worker = pulsing.beat(f"beat-{round_number}"), pulsing.worker(f"worker-{round_number}")
        wait_until(lambda before=before: pulsing.count(SUCCEEDED) > before + 1, what="executions have succeeded")
        beat.kill_all()
        worker.kill_all()
    pulsing.beat("beat-last")
    pulsing.worker("worker-last")
    before = pulsing.count(SUCCEEDED)
    wait_until(lambda: pulsing.count(SUCCEEDED) >= before + 3, what="fires go on after the last restart")
    wait_until(lambda: has_no_gap(pulsing), what="every fire up to the latest success has succeeded once", seconds=60)


def has_no_gap(platform: Platform) -> bool:
    """Whether the successes stand a second apart: one that is missing or doubled shows as another step."""
    succeeded = "SELECT fire_time FROM onbeat_execution WHERE state = 'SUCCEEDED' ORDER BY fire_time"
    times = [second_of(fire_time) for (fire_time,) in platform.rows(succeeded)]
    return {later - earlier for earlier, later in pairwise(times)} == {1}


def second_of(fire_time: object) -> int:
    moment = fire_time if isinstance(fire_time, datetime) else datetime.fromisoformat(str(fire_time))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def test_sigterm_stops_beat_and_worker_with_a_clean_exit(pulsing: Platform) -> None:
    beat, worker = pulsing.beat(), pulsing.worker()
    wait_until(lambda: pulsing.count(SUCCEEDED), what="an execution has succeeded")
    assert beat.terminate() == 0
    wait_until(lambda: pulsing.count(UNENDED) == 0, what="what was published has run")
    assert worker.terminate() == 0
    assert pulsing.count("SELECT count(*) FROM onbeat_beat") == 0
    assert pulsing.count("SELECT count(*) FROM onbeat_worker") == 0


def test_two_beats_and_two_workers_fire_each_second_once(pulsing: Platform) -> None:
    for number in (1, 2):
        pulsing.beat(f"beat-{number}")
        pulsing.worker(f"worker-{number}")
    wait_until(lambda: pulsing.count(SUCCEEDED) >= 5, what="five executions have succeeded")
    wait_until(lambda: pulsing.count("SELECT count(*) FROM onbeat_beat") == 2, what="both beats have signed on")
    wait_until(lambda: has_no_gap(pulsing), what="every second fired once")
    assert pulsing.count("SELECT count(*) FROM onbeat_attempt WHERE number > 1") == 0
