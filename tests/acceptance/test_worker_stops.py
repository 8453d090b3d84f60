"""Cancelling and time limits with real workers, at each moment of a run and in each pool."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.crew import Crew, a_crew
from tests.platform import BIN, ROOT
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """With two workers: one of four processes, and one for what has to wait its turn."""
    with a_crew(tmp_path_factory) as started, started.working("many", "-c", "4", "-E"):
        yield started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def test_a_task_that_runs_is_stopped_and_may_clean_up(crew: Crew, path: Path) -> None:
    kept = crew.run("onbeat.sleep", 60, attempts=3, keep_result=True)
    executions = [kept, crew.run("crew.tidy", str(path), 60, attempts=3)]
    for execution in executions:
        crew.reaches(execution, "RUNNING")
        crew.cancel(execution)
    for execution in executions:
        crew.reaches(execution, "CANCELLED")
        assert crew.attempts(execution) == [(1, "CANCELLED")]
        assert crew.row(execution, "reason") == ("cancelled while it ran",)
    assert crew.lines(path) == ["cleaned up True"]
    assert crew.ask(f"AsyncResult('{kept}').state") == "REVOKED"


def test_one_that_does_not_listen_is_killed_after_the_grace_and_not_tried_again(crew: Crew) -> None:
    execution = crew.run("crew.stubborn", 60, attempts=3, stop_grace_seconds=1)
    crew.reaches(execution, "RUNNING")
    crew.cancel(execution)
    crew.reaches(execution, "CANCELLED")
    assert crew.attempts(execution, "number", "outcome", "error") == [
        (1, "CANCELLED", "It was asked to stop, did not, and was killed.")
    ]


def test_a_run_of_the_future_and_a_retry_that_waits_are_cancelled_where_they_wait(crew: Crew) -> None:
    crew.ask("[definitions.create(key='later', task='onbeat.echo')] and None")
    later = crew.ask("str(runs.run('later', delay=timedelta(hours=1)).execution_id)")
    crew.ask(
        "[definitions.create(key='slow-retry', task='onbeat.fail_until', retry=RetryPolicy(initial_seconds=3600))] "
        "and None"
    )
    retry = crew.ask("str(runs.run('slow-retry').execution_id)")
    wait_until(lambda: crew.row(retry, "attempt", "state") == (2, "SCHEDULED"), what="the retry waits for its time")
    assert crew.row(retry, "reason") == ("waits for its retry",)
    for execution in (later, retry):
        crew.cancel(execution)
        assert crew.state(execution) == "CANCELLED"


def test_a_retry_can_be_hurried(crew: Crew) -> None:
    crew.ask(
        "[definitions.create(key='hurried', task='onbeat.fail_until', retry=RetryPolicy(initial_seconds=3600))] "
        "and None"
    )
    execution = crew.ask("str(runs.run('hurried').execution_id)")
    wait_until(lambda: crew.row(execution, "attempt") == (2,), what="the retry waits for its time")
    assert crew.ask(f"lifecycle.hurry([__import__('uuid').UUID('{execution}')], now=database_now())") == 1
    crew.reaches(execution, "SUCCEEDED")


def test_a_soft_time_limit_stops_and_a_hard_one_kills(crew: Crew) -> None:
    soft = crew.run("onbeat.sleep", 60, timeout_seconds=1)
    hard = crew.run("crew.stubborn", 60, attempts=2, timeout_seconds=1, stop_grace_seconds=1)
    own = crew.run("crew.limited")
    for execution in (soft, hard, own):
        crew.reaches(execution, "DEAD")
    assert crew.attempts(own) == [(1, "TIMED_OUT")]
    assert crew.attempts(soft) == [(1, "TIMED_OUT")]
    assert "took longer than 1 s" in crew.row(soft, "error")[0]
    assert crew.attempts(hard) == [(1, "TIMED_OUT"), (2, "TIMED_OUT")]
    assert crew.row(hard, "error", "lost") == ("It took longer than its hard time limit of 2 s.", 0)
    (_, ended), (began, _) = crew.attempts(hard, "started_at", "finished_at")
    if crew.platform.is_full:
        assert (began - ended).total_seconds() >= 2  # the killed process may have lived on for a second


def test_what_waits_in_the_queue_is_cancelled_and_its_message_dropped(crew: Crew, path: Path) -> None:
    running = [crew.run("onbeat.sleep", 2) for _ in range(8)]  # as many as run, and as many as workers take ahead
    queued = crew.run("crew.work", str(path))
    crew.reaches(queued, "QUEUED")
    crew.cancel(queued)
    assert crew.state(queued) == "CANCELLED"
    for execution in running:
        crew.reaches(execution, "SUCCEEDED")
    after = crew.run("onbeat.echo")
    crew.reaches(after, "SUCCEEDED")
    assert crew.lines(path) == []


def test_a_signal_that_comes_a_task_too_late_hits_nobody(crew: Crew, path: Path) -> None:
    with crew.working("late", "-c", "1") as worker:
        (child,) = worker.children()
        executions = [crew.run("crew.work", str(path), 1) for _ in range(6)]  # some of them come to the other worker
        wait_until(lambda: any(line.endswith(f" {child}") for line in crew.lines(path)), what="it runs one of them")
        for _ in range(20):
            os.kill(child, signal.SIGUSR1)  # what was meant for the task before
        for execution in executions:
            crew.reaches(execution, "SUCCEEDED")
            assert crew.attempts(execution) == [(1, "SUCCEEDED")]
        os.kill(child, signal.SIGUSR1)  # and while it is idle
        again = crew.run("onbeat.echo")
        crew.reaches(again, "SUCCEEDED")
        assert worker.children() == [child]


@pytest.mark.full
def test_a_worker_that_is_stopping_still_hears_of_a_cancel(tmp_path_factory: pytest.TempPathFactory) -> None:
    with a_crew(tmp_path_factory) as crew, crew.working("leaving") as worker:
        soft, hard = crew.run("onbeat.sleep", 60), crew.run("crew.stubborn", 60, stop_grace_seconds=1)
        for execution in (soft, hard):
            crew.reaches(execution, "RUNNING")
        worker.process.signal(signal.SIGTERM)
        wait_until(lambda: "Warm shutdown" in worker.process.output(), what="it stops")
        for execution in (soft, hard):
            crew.cancel(execution)
        for execution in (soft, hard):
            crew.reaches(execution, "CANCELLED")
        wait_until(lambda: not worker.process.is_running(), what="it has stopped")


@pytest.mark.full
def test_a_revoke_through_celery_is_a_cancel(crew: Crew) -> None:
    running, future = crew.run("onbeat.sleep", 60), crew.run("onbeat.sleep", 60)
    for execution in (running, future):
        crew.reaches(execution, "RUNNING")
    command = [str(BIN / "celery"), "-A", "scheduler_project", "control", "revoke", running]
    subprocess.run(command, cwd=ROOT, env=crew.platform.environment, check=True, capture_output=True)
    crew.ask(f"app.control.terminate('{future}')")
    for execution in (running, future):
        crew.reaches(execution, "CANCELLED")
        assert crew.attempts(execution) == [(1, "CANCELLED")]


@pytest.mark.full
@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_pools_without_children_run_stop_and_time_out_what_they_can(
    tmp_path_factory: pytest.TempPathFactory, pool: str
) -> None:
    with a_crew(tmp_path_factory) as crew, crew.working(pool, "--pool", pool):
        ran = crew.run("onbeat.fail_until", 2, attempts=2)
        crew.reaches(ran, "SUCCEEDED")
        spinning = crew.run("crew.spin", 60)
        crew.reaches(spinning, "RUNNING")
        crew.cancel(spinning)
        crew.reaches(spinning, "CANCELLED")
        slow = crew.run("crew.spin", 60, timeout_seconds=1)
        crew.reaches(slow, "DEAD")
        assert crew.attempts(slow) == [(1, "TIMED_OUT")]
        again = crew.run("onbeat.echo", "still there")
        crew.reaches(again, "SUCCEEDED")
        assert crew.attempts(ran) == [(1, "FAILED"), (2, "SUCCEEDED")]
        assert crew.platform.rows("SELECT pool FROM onbeat_worker") == [(pool,)]
