"""A real beat that is killed, or frozen, the first time it passes a step: `python -m tests.acceptance.crashing_beat
STEP kill|stop`.

The process sends the signal to itself, so that it is hit exactly there and not a moment later.
"""

import os
import signal
import sys

import django

from chaos import steps
from chaos.plan import BEAT_STEPS as STEPS

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def words_of(step: str) -> str:
    """The last that a beat says before it is hit."""
    return f"this beat is at the step {step}\n"


class Fall:
    """Hits the process once, at one step of its tick."""

    def __init__(self, step: str, number: signal.Signals) -> None:
        self._step = step
        self._signal = number
        self._is_over = False

    def at(self, step: str) -> None:
        if step != self._step or not steps.is_of_a_tick() or self._is_over:
            return
        self._is_over = True
        sys.stderr.write(words_of(step))
        sys.stderr.flush()
        os.kill(os.getpid(), self._signal)


def main(step: str, end: str) -> None:
    assert step in STEPS
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    django.setup()
    from django.core.management import call_command

    steps.watch_beat(Fall(step, SIGNALS[end]).at)
    call_command("run_beat")


if __name__ == "__main__":
    main(*sys.argv[1:])
