"""Real workers that are killed, frozen or made to crash: nothing is lost, nothing finished twice, and all is told."""

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.crew import Crew, a_crew
from tests.tiers import once_full
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory) as started:
        yield started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def child_of(line: str) -> int:
    """The process that noted it."""
    return int(line.split()[-1])


@once_full
def test_a_killed_child_is_recorded_at_once_and_its_work_done_again(crew: Crew, path: Path) -> None:
    with crew.working("w1"):
        execution = crew.run("crew.work", str(path), 2)
        os.kill(child_of(crew.begins(path)[0]), signal.SIGKILL)
        crew.reaches(execution, "SUCCEEDED")
    (first, second) = crew.attempts(execution, "number", "outcome", "error")
    assert first[:2] == (1, "WORKER_LOST")
    # Its parent told it; a beat that finds it silent would say something else.
    assert first[2] == "The process that ran this attempt ended: Worker exited prematurely: signal 9 (SIGKILL)"
    assert second[:2] == (2, "SUCCEEDED")
    assert crew.row(execution, "lost") == (1,)


@once_full
def test_a_killed_parent_is_noticed_by_its_silence(crew: Crew, path: Path) -> None:
    with crew.working("w2") as worker:
        execution = crew.run("crew.work", str(path), 2)
        crew.begins(path)
        os.kill(worker.process.pid, signal.SIGKILL)
    with crew.working("w3"):
        crew.reaches(execution, "SUCCEEDED")
    assert crew.attempts(execution) == [(1, "WORKER_LOST"), (2, "SUCCEEDED")]
    assert "no heartbeat" in crew.attempts(execution, "error")[0][0]


@once_full
def test_after_kill_9_of_all_workers_everything_is_done_once_by_the_next(crew: Crew, path: Path) -> None:
    with crew.working("w4"), crew.working("w5"):
        executions = [crew.run("crew.work", str(path), 0.5) for _ in range(8)]
        crew.begins(path, 3)
    with crew.working("w6"):
        for execution in executions:
            crew.reaches(execution, "SUCCEEDED")
    outcomes = [outcome for execution in executions for _, outcome in crew.attempts(execution)]
    assert outcomes.count("SUCCEEDED") == 8
    assert set(outcomes) <= {"SUCCEEDED", "WORKER_LOST"}


@once_full
@pytest.mark.parametrize("task", ["onbeat.crash", "crew.dies_early"])
def test_a_crash_loop_ends_in_a_dead_letter_also_when_the_crash_comes_before_the_claim(crew: Crew, task: str) -> None:
    with crew.working(f"loop-{task[-5:]}") as worker:
        execution = crew.run(task, max_lost=2, attempts=5)
        innocent = crew.run("onbeat.echo", "hello")
        crew.reaches(execution, "DEAD")
        crew.reaches(innocent, "SUCCEEDED")
        assert worker.process.is_running()
    assert crew.attempts(execution) == [(1, "WORKER_LOST"), (2, "WORKER_LOST")]
    assert crew.row(execution, "lost", "attempt") == (2, 2)
    assert "SIGKILL" in crew.row(execution, "error")[0]


@pytest.mark.full
def test_a_worker_that_was_frozen_past_its_heartbeat_cannot_finish_what_another_has_done(
    crew: Crew, path: Path
) -> None:
    with crew.working("frozen", "-c", "1") as frozen:
        execution = crew.run("crew.work", str(path), 3)
        crew.begins(path)
        # Not in the middle of one: its transaction would hold the row for as long as it is frozen.
        crew.gives_a_sign_of_life(execution)
        frozen.freeze()
        with crew.working("awake", "-c", "1"):
            crew.reaches(execution, "SUCCEEDED")
            frozen.thaw()
            refused = "refused_outcome"
            wait_until(lambda: crew.attempts(execution, refused)[0][0], what="the refused finish is recorded")
    assert crew.attempts(execution, "outcome", refused) == [("WORKER_LOST", "SUCCEEDED"), ("SUCCEEDED", "")]
    name = crew.row(execution, "worker")[0]
    assert name.startswith("awake-")
    assert "finish refused: another attempt holds this execution" in frozen.process.output()


@pytest.mark.full
def test_a_task_that_keeps_its_cpu_busy_is_not_taken_for_dead(crew: Crew) -> None:
    with crew.working("busy", "-c", "1"):
        execution = crew.run("crew.spin", 5)  # a silence of 3 s would count as death
        crew.reaches(execution, "SUCCEEDED")
    assert crew.attempts(execution) == [(1, "SUCCEEDED")]


@pytest.mark.embedded
def test_a_child_that_replaced_another_ends_its_task_when_its_worker_stops(crew: Crew, path: Path) -> None:
    with crew.working("replaced", "-c", "1") as worker:
        execution = crew.run("crew.work", str(path), 6)
        os.kill(child_of(crew.begins(path)[0]), signal.SIGKILL)
        crew.begins(path, 2)
        assert worker.process.terminate() == 0
    assert crew.attempts(execution) == [(1, "WORKER_LOST"), (2, "SUCCEEDED")]


@pytest.mark.embedded
def test_a_worker_whose_idle_child_was_killed_ends_if_none_takes_a_task_any_more(crew: Crew) -> None:
    with crew.working("idle", "-c", "1", ONBEAT_WORKERS_HEARTBEAT_SECONDS="0.1") as worker:
        os.kill(worker.children()[0], signal.SIGKILL)
        execution = crew.run("onbeat.echo")
        wait_until(lambda: not worker.process.is_running() or crew.state(execution) == "SUCCEEDED", what="either way")
    with crew.working("next"):
        crew.reaches(execution, "SUCCEEDED")
    assert crew.attempts(execution) == [(1, "SUCCEEDED")]


@pytest.mark.embedded
def test_children_die_with_their_parent(crew: Crew, path: Path) -> None:
    with crew.working("orphaned", "-c", "1") as worker:
        crew.run("crew.work", str(path), 60, max_lost=1)
        child = child_of(crew.begins(path)[0])
        os.kill(worker.process.pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{child}").exists(), what="the child is gone")


@pytest.mark.full
def test_a_stopping_worker_still_gives_signs_of_life_for_what_it_runs(crew: Crew, path: Path) -> None:
    with crew.working("leaving") as worker:
        execution = crew.run("crew.work", str(path), 5)
        crew.begins(path)
        assert worker.process.terminate() == 0
    assert crew.state(execution) == "SUCCEEDED"
    assert crew.attempts(execution) == [(1, "SUCCEEDED")]


@once_full
def test_a_message_that_comes_again_while_its_first_copy_runs_is_dropped(crew: Crew, path: Path) -> None:
    with crew.working("twice") as worker:
        execution = crew.run("crew.work", str(path), 2)
        crew.begins(path)
        identity = uuid.UUID(execution)
        crew.ask(f"Publisher().publish(outbox.outgoing([uuid.UUID({str(identity)!r})])).error")
        wait_until(lambda: "its attempt is taken or over" in worker.process.output(), what="the copy is dropped")
        assert crew.state(execution) == "RUNNING"
        crew.reaches(execution, "SUCCEEDED")
    assert [line.split()[0] for line in crew.lines(path)] == ["begin", "end"]


@pytest.mark.full
def test_rolling_restarts_under_load_lose_nothing_and_double_nothing(crew: Crew, path: Path) -> None:
    workers = [crew.worker("roll-1"), crew.worker("roll-2")]
    executions = crew.ask(
        "[str(one.execution_id) for one in [definitions.create(key='load', task='crew.work', "
        f"kwargs={{'path': {str(path)!r}, 'seconds': 0.05}}), runs.run_many('load', [runs.Wanted()] * 120)][1]]"
    )
    for number, worker in enumerate(workers, start=3):
        crew.begins(path, 20 * number)
        assert worker.process.terminate() == 0
        workers.append(crew.worker(f"roll-{number}")) if number < 5 else None
    is_open = "state IN ('SCHEDULED', 'QUEUED', 'RUNNING')"
    ended = f"SELECT count(*) FROM onbeat_execution WHERE {is_open}"
    wait_until(lambda: crew.platform.count(ended) == 0, what="all are over", seconds=60)
    begun = [line.split()[1] for line in crew.lines(path) if line.startswith("begin")]
    assert sorted(begun) == sorted(executions)
    assert {outcome for execution in executions[:5] for _, outcome in crew.attempts(execution)} == {"SUCCEEDED"}
    for worker in workers:
        worker.process.kill_all()
