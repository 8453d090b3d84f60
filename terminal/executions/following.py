"""Wait for executions: until one is over, or for whatever changes.

Owns the pause between two looks. Invariant: a look is one statement; nothing that changed is told twice. Whoever waits
for one learns by the exit code how it ended.
"""

import time
from collections.abc import Callable, Iterator
from uuid import UUID

from api.executions.named import found
from executions.clock import Clock
from executions.finding import Sought
from executions.models import Execution
from executions.states import OPEN, State
from executions.watching import Watch
from terminal.frame import Exit, refuse

ONE_EVERY_SECONDS = 0.2
ALL_EVERY_SECONDS = 0.5


def wait_until_over(
    execution_id: UUID,
    *,
    timeout: float | None = None,
    on_change: Callable[[Execution], None] = lambda _: None,
) -> Execution:
    """The execution when it is over, or as it is after so many seconds. Each state is told as it is met, from the
    present one on."""
    deadline = None if timeout is None else time.monotonic() + timeout
    row = found(execution_id)
    while True:
        on_change(row)
        before = row.state, row.attempt
        while (row.state, row.attempt) == before:
            if row.state not in OPEN or not _pauses(ONE_EVERY_SECONDS, deadline):
                return row
            row = _again(row)


def exit_of(execution: Execution) -> Exit:
    """0 if it succeeded, 1 if it ended otherwise, 3 if it is not over."""
    if execution.state in OPEN:
        return Exit.NOT_YET
    return Exit.DONE if execution.state == State.SUCCEEDED else Exit.FAILED


def follow(sought: Sought, *, seconds: float | None = None, until_over: bool = False) -> Iterator[Execution]:
    """What changes, as it does: for ever, for so many seconds, or until nothing that was seen is still to come."""
    deadline = None if seconds is None else time.monotonic() + seconds
    clock, watch = Clock(), Watch(sought)
    while True:
        yield from watch.look(clock.now())
        if (until_over and watch.are_all_over) or not _pauses(ALL_EVERY_SECONDS, deadline):
            return


def _again(row: Execution) -> Execution:
    now = Execution.objects.with_id(row.pk).select_related("job").first()
    if now is None:
        refuse(f"The execution {row.pk} was taken back, as when its job is paused, changed or archived.")
    return now


def _pauses(seconds: float, deadline: float | None) -> bool:
    """Whether there was time for another look."""
    left = seconds if deadline is None else min(seconds, deadline - time.monotonic())
    if left <= 0:
        return False
    time.sleep(left)
    return True
