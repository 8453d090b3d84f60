"""Run one beat until it is told to stop."""

import signal
from types import FrameType
from typing import Any

from beat import starting
from beat.process import BeatProcess
from executions import events, surroundings
from executions.checks import TAG
from executions.commands import ExampledCommand


class Command(ExampledCommand):
    examples = ("run_beat",)
    help = "Run a beat. Start as many as you like: each fire happens once. SIGTERM ends it after the batch in hand."
    requires_system_checks = [TAG]

    def handle(self, *_args: Any, **_options: Any) -> None:
        beat = BeatProcess()

        def stop(_signal: int, _frame: FrameType | None) -> None:
            beat.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        events.emit("beat started", beat=beat.name, **surroundings.in_words())
        starting.begin(beat.stopping)
        beat.run()
        events.emit("beat stopped", beat=beat.name)
