"""What the verbs count. Invariant: only what is committed counts."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from executions import metrics
from executions.states import Outcome, State

_REASONS = ("misfire", "overlap", "paused")


def attempt_ended(outcome: Outcome, then: State, *, started_at: datetime, now: datetime) -> None:
    """An attempt, and what came of its execution: SCHEDULED is a retry."""

    def count() -> None:
        metrics.ATTEMPTS.add(1, outcome)
        metrics.ATTEMPT.observe((now - started_at).total_seconds())
        if then is State.SCHEDULED:
            metrics.RETRIES.add()
        else:
            _execution_ended(then, 1)

    transaction.on_commit(count)


def cancelled_before_run(number: int) -> None:
    transaction.on_commit(lambda: _execution_ended(State.CANCELLED, number))


def skipped(fires: Iterable[tuple[str, int]]) -> None:
    """Fires by the reason on their row."""
    sums = dict.fromkeys((*_REASONS, "other"), 0)
    for reason, number in fires:
        sums[next((each for each in _REASONS if reason.startswith(each)), "other")] += number

    def count() -> None:
        for reason, number in sums.items():
            metrics.FIRES_SKIPPED.add(number, reason)

    if any(sums.values()):
        transaction.on_commit(count)


def planned(number: int) -> None:
    if number:
        transaction.on_commit(lambda: metrics.FIRES_PLANNED.add(number))


def _execution_ended(state: State, number: int) -> None:
    metrics.EXECUTIONS.add(number, state)
    if state is State.DEAD:
        metrics.DEAD_LETTERS.add(number)
