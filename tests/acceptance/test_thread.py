"""A demo cron job goes plan → publish → claim → finish, with real processes, embedded and full."""

from datetime import UTC, datetime
from itertools import pairwise

from tests.platform import Platform
from tests.waiting import wait_until

SUCCEEDED = "SELECT count(*) FROM onbeat_execution WHERE state = 'SUCCEEDED'"
PULSES = """
    SELECT e.fire_time FROM onbeat_execution e JOIN onbeat_job j ON j.id = e.job_id
    WHERE j.key = 'demo.pulse' AND e.state = 'SUCCEEDED' ORDER BY e.fire_time
"""
# A fire that is not there, and one that is there twice, both show as a step that is not five seconds.
UNENDED = "SELECT count(*) FROM onbeat_execution WHERE state IN ('QUEUED', 'RUNNING')"


def test_a_demo_job_is_planned_published_claimed_and_finished(platform: Platform) -> None:
    platform.manage("prepare", "--demo", "always")
    platform.beat()
    platform.worker()
    wait_until(lambda: platform.count(SUCCEEDED), what="an execution has succeeded")
    columns = "attempt, started_at, finished_at, worker"
    row = platform.rows(f"SELECT {columns} FROM onbeat_execution WHERE state = 'SUCCEEDED'")[0]
    assert row[0] == 1
    assert all(row[1:])
    assert platform.rows("SELECT number, outcome FROM onbeat_attempt")[0] == (1, "SUCCEEDED")


def test_kill_9_of_everything_loses_nothing(platform: Platform) -> None:
    platform.manage("prepare", "--demo", "always")
    for round_number in range(3):
        before = platform.count(SUCCEEDED)
        beat, worker = platform.beat(f"beat-{round_number}"), platform.worker(f"worker-{round_number}")
        wait_until(lambda before=before: platform.count(SUCCEEDED) > before, what="an execution has succeeded")
        beat.kill_all()
        worker.kill_all()
    platform.beat("beat-last")
    platform.worker("worker-last")
    before = platform.count(SUCCEEDED)
    wait_until(lambda: platform.count(SUCCEEDED) >= before + 2, what="fires go on after the last restart")
    latest = "(SELECT max(fire_time) FROM onbeat_execution WHERE state = 'SUCCEEDED')"
    unended = f"SELECT count(*) FROM onbeat_execution WHERE state <> 'SUCCEEDED' AND fire_time < {latest}"
    demo_pulse = " AND job_id = (SELECT id FROM onbeat_job WHERE key = 'demo.pulse')"
    wait_until(lambda: platform.count(unended + demo_pulse) == 0, what="every earlier fire has succeeded", seconds=60)
    assert steps_between_pulses(platform) == {5}


def steps_between_pulses(platform: Platform) -> set[int]:
    """The seconds from each pulse to the next."""
    seconds = [second_of(fire_time) for (fire_time,) in platform.rows(PULSES)]
    return {later - earlier for earlier, later in pairwise(seconds)}


def second_of(fire_time: object) -> int:
    moment = fire_time if isinstance(fire_time, datetime) else datetime.fromisoformat(str(fire_time))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def test_sigterm_stops_beat_and_worker_with_a_clean_exit(platform: Platform) -> None:
    platform.manage("prepare", "--demo", "always")
    beat, worker = platform.beat(), platform.worker()
    wait_until(lambda: platform.count(SUCCEEDED), what="an execution has succeeded")
    assert beat.terminate() == 0
    assert worker.terminate() == 0
    assert platform.count("SELECT count(*) FROM onbeat_beat") == 0
    assert platform.count("SELECT count(*) FROM onbeat_worker") == 0
    assert platform.count(UNENDED) == 0


def test_a_worker_killed_in_mid_run_is_rescued_and_its_work_done_again(platform: Platform) -> None:
    platform.manage("prepare", "--demo", "always")
    platform.manage("shell", "-c", LONG_JOB)
    platform.beat()
    worker = platform.worker("worker-1")
    running = "SELECT count(*) FROM onbeat_execution WHERE state = 'RUNNING' AND task = 'onbeat.sleep'"
    wait_until(lambda: platform.count(running), what="the long task runs")
    worker.kill_all()
    platform.worker("worker-2")
    lost = "SELECT count(*) FROM onbeat_attempt WHERE outcome = 'WORKER_LOST'"
    wait_until(lambda: platform.count(lost), what="the lost attempt is recorded")
    again = "SELECT count(*) FROM onbeat_execution WHERE attempt = 2 AND lost = 1 AND state = 'SUCCEEDED'"
    wait_until(lambda: platform.count(again), what="the second attempt succeeds")


LONG_JOB = """
from datetime import timedelta
from executions.clock import database_now
from jobs import definitions
from jobs.recurrence import Once
now = database_now()
once = Once(now + timedelta(seconds=1))
definitions.create(key="long", task="onbeat.sleep", kwargs={"seconds": 4}, schedule=once, now=now)
"""
