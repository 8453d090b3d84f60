"""A real beat that is killed, or frozen, the first time it passes a step: `python -m tests.acceptance.crashing_beat
STEP kill|stop`.

The product knows nothing of it: its functions are wrapped from outside. The process sends the signal to itself, so that
it is hit exactly there and not a moment later.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import django

STEPS = (
    "leased-to-plan",  # the leases of the plan are taken
    "within-the-plan",  # the schedules are advanced, the executions not yet inserted, nothing is committed
    "planned",  # the plan is committed
    "leased-to-publish",  # the leases of a batch are taken
    "within-the-batch",  # the broker has half of the bytes of a batch
    "confirmed",  # the broker has confirmed the batch, no row tells it yet
    "marked",  # the rows are QUEUED, the leases are still held
)
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_MANY = 4  # messages, so that half of their bytes are some whole ones


def words_of(step: str) -> str:
    """The last that a beat says before it is hit."""
    return f"this beat is at the step {step}\n"


class Fall:
    """Hits the process once, at one step of its tick. Other threads of a beat take leases as well, for their duties."""

    def __init__(self, step: str, number: signal.Signals) -> None:
        self._step = step
        self._signal = number
        self._is_over = False

    def at(self, step: str, *, is_passed: bool) -> None:
        is_tick = threading.current_thread() is threading.main_thread()
        if step != self._step or not is_passed or not is_tick or self._is_over:
            return
        self._is_over = True
        sys.stderr.write(words_of(step))
        sys.stderr.flush()
        os.kill(os.getpid(), self._signal)


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Let calls of a function go through another one, which gets the function as its first argument."""
    wrapped = getattr(owner, name)
    setattr(owner, name, lambda *args, **options: around(wrapped, *args, **options))


def prepare(fall: Fall) -> None:
    from amqp.transport import TCPTransport

    from beat.lease import Leases
    from beat.planning import Planner
    from executions import lifecycle, queues

    is_planning = False
    exchange = queues.exchange().name.encode()

    def plan_due(wrapped: Callable[..., Any], *args: Any, **options: Any) -> Any:
        nonlocal is_planning
        is_planning = True
        planned = wrapped(*args, **options)
        is_planning = False
        fall.at("planned", is_passed=planned.fires > 0)
        return planned

    def take(wrapped: Callable[..., list[bool]], *args: Any, **options: Any) -> list[bool]:
        taken = wrapped(*args, **options)
        fall.at("leased-to-plan" if is_planning else "leased-to-publish", is_passed=any(taken))
        return taken

    def plan_fires(wrapped: Callable[..., None], fires: Any, *args: Any, **options: Any) -> None:
        fall.at("within-the-plan", is_passed=bool(fires))
        wrapped(fires, *args, **options)

    def mark_queued(wrapped: Callable[..., int], executions: Any, **options: Any) -> int:
        confirmed = list(executions)
        fall.at("confirmed", is_passed=bool(confirmed))
        marked = wrapped(confirmed, **options)
        fall.at("marked", is_passed=marked > 0)
        return marked

    def write(wrapped: Callable[..., None], transport: Any, data: bytes | memoryview) -> None:
        half = len(data) // 2 if bytes(data).count(exchange) >= _MANY else 0
        if half:
            wrapped(transport, data[:half])
            fall.at("within-the-batch", is_passed=True)
        wrapped(transport, data[half:])

    wrap(Planner, "plan_due", plan_due)
    wrap(Leases, "take", take)
    wrap(lifecycle, "plan_fires", plan_fires)
    wrap(lifecycle, "mark_queued", mark_queued)
    wrap(TCPTransport, "write", write)


def main(step: str, end: str) -> None:
    assert step in STEPS
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    django.setup()
    from django.core.management import call_command

    prepare(Fall(step, SIGNALS[end]))
    call_command("run_beat")


if __name__ == "__main__":
    main(*sys.argv[1:])
