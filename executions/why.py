"""Why an execution is where it is, in a sentence: for whoever asks "why did this not run?".

Owns the words. Invariant: says what its row knows, and guesses nothing.
"""

from datetime import UTC, datetime

from executions.models import Execution
from executions.states import State


def in_words(execution: Execution, *, now: datetime) -> str:
    match State(execution.state):
        case State.SCHEDULED:
            return _scheduled(execution, now)
        case State.QUEUED:
            return (
                f"It is in the queue {execution.queue!r} since {_clock(execution.queued_at)}; no worker has taken it."
            )
        case State.RUNNING:
            asked = " It was asked to stop." if execution.cancel_requested_at else ""
            if execution.awaited_until is not None:
                return (
                    f"Attempt {execution.attempt} was accepted by its receiver, which tells the end until "
                    f"{_clock(execution.awaited_until)}.{asked}"
                )
            return (
                f"Attempt {execution.attempt} runs on {execution.worker} since {_clock(execution.started_at)}.{asked}"
            )
        case State.SUCCEEDED:
            return f"Attempt {execution.attempt} succeeded at {_clock(execution.finished_at)}."
        case State.DEAD:
            handled = f" Handled: {execution.handled_note}." if execution.handled_at else " It waits for a person."
            return f"It was given up after attempt {execution.attempt}{_reason(execution)}.{handled}"
        case State.CANCELLED:
            return f"It was cancelled at {_clock(execution.finished_at)}{_reason(execution)}."
        case State.SKIPPED:
            return f"{_which(execution)} did not run{_reason(execution)}."


def _scheduled(execution: Execution, now: datetime) -> str:
    attempt = f"attempt {execution.attempt}" if execution.attempt > 1 else "it"
    if execution.available_at > now:
        return f"Not yet: {attempt} comes at {_clock(execution.available_at)}{_reason(execution)}."
    return f"It is due since {_clock(execution.available_at)} and waits to be published{_reason(execution)}."


def _which(execution: Execution) -> str:
    if execution.skipped_until is None or execution.skipped_until == execution.fire_time:
        return "It"
    count = "Fires" if execution.skipped_count is None else f"{execution.skipped_count} fires"
    return f"{count} from {_clock(execution.fire_time)} to {_clock(execution.skipped_until)}"


def _reason(execution: Execution) -> str:
    return f": {execution.reason}" if execution.reason else ""


def _clock(moment: datetime | None) -> str:
    return "an unknown time" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
