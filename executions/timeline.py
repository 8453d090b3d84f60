"""What happened to an execution, moment by moment, as far as its rows tell.

Owns the order and the words. Invariant: nothing is told that no row holds; a row keeps when it was last queued and
started, so earlier attempts are told by their own records.
"""

from collections.abc import Iterator
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from executions.models import Attempt, Execution
from executions.states import State


class Moment(NamedTuple):
    at: datetime
    what: str
    became: str = ""  # the state or outcome that it was, if it was one


def moments(execution: Execution, attempts: list[Attempt]) -> list[Moment]:
    """The oldest first; of one instant, in the order in which they follow from one another."""
    return sorted(_moments(execution, attempts), key=attrgetter("at"))


def _moments(execution: Execution, attempts: list[Attempt]) -> Iterator[Moment]:
    yield Moment(execution.created_at, "stored", State.SCHEDULED)
    if execution.queued_at is not None:
        yield Moment(execution.queued_at, f"in the queue {execution.queue}", State.QUEUED)
    for attempt in attempts:
        yield Moment(attempt.started_at, f"attempt {attempt.number} began on {attempt.worker}", State.RUNNING)
        yield Moment(attempt.finished_at, f"attempt {attempt.number}: {attempt.outcome}", attempt.outcome)
        if attempt.refused_at is not None:
            yield Moment(attempt.refused_at, f"attempt {attempt.number} came back late and was refused")
    ended = {attempt.number for attempt in attempts}
    if execution.started_at is not None and execution.attempt not in ended and execution.state == State.RUNNING:
        began = f"attempt {execution.attempt} began on {execution.worker}"
        yield Moment(execution.started_at, began, State.RUNNING)
    if execution.cancel_requested_at is not None:
        yield Moment(execution.cancel_requested_at, "asked to stop")
    if execution.finished_at is not None:
        yield Moment(execution.finished_at, execution.state, execution.state)
    if execution.handled_at is not None:
        yield Moment(execution.handled_at, f"handled: {execution.handled_note}")
