"""Which runs a crashed PostgreSQL may have forgotten, and which it may not."""

from chaos.faults import STRIKES
from chaos.forgotten import CRASHES, remembered
from chaos.ledger import Run

CRASH = (100.0, 103.0)


def a_run(began_at: float, *, execution: str = "one", job: str = "tick") -> Run:
    return Run(execution=execution, attempt=1, job=job, began_at=began_at)


def left(*runs: Run, recorded: dict[tuple[str, int], float] | None = None, limited: tuple[str, ...] = ()) -> list[Run]:
    return remembered(runs, recorded=recorded or {}, limited=limited, crashes=[CRASH])


def test_a_run_just_before_a_crash_is_forgotten_if_another_one_is_recorded() -> None:
    first, second = a_run(99.8), a_run(104.2)
    assert left(first, second, recorded={("one", 1): 104.1}) == [second]


def test_a_run_just_before_a_crash_is_forgotten_if_none_is_recorded() -> None:
    assert left(a_run(99.8)) == []


def test_a_run_just_before_a_crash_that_is_recorded_was_not_forgotten() -> None:
    run = a_run(99.8)
    assert left(run, recorded={("one", 1): 99.7}) == [run]


def test_what_began_well_before_a_crash_or_after_it_is_not_forgotten() -> None:
    runs = [a_run(98.9), a_run(103.1)]
    assert left(*runs) == runs


def test_runs_of_a_job_with_a_limit_are_never_forgotten() -> None:
    run = a_run(99.8, job="limited")
    assert left(run, limited=("limited",)) == [run]


def test_crashes_are_called_as_the_faults_are() -> None:
    assert set(CRASHES) <= set(STRIKES)
