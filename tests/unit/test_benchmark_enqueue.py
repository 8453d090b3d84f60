"""How a benchmark shares its runs among calls."""

from benchmarks import enqueue
from jobs.runs import MOST_AT_ONCE


def test_runs_are_asked_for_in_calls_as_large_as_one_may_be() -> None:
    assert list(enqueue.calls(25, most=10)) == [(0, 10), (10, 10), (20, 5)]
    assert sum(count for _, count in enqueue.calls(enqueue.RUNS, MOST_AT_ONCE)) == enqueue.RUNS


def test_each_run_has_its_own_delay_and_payload() -> None:
    wanted = enqueue._wanted(9_999, 2)
    assert [one.kwargs for one in wanted] == [{"message": "reminder 9999"}, {"message": "reminder 10000"}]
    assert [one.delay.total_seconds() for one in wanted if one.delay is not None] == [9.999, 0]
