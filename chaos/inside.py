"""A real beat or worker that can be hit at a step of its work: `python -m chaos.inside NAME beat|worker [ARG …]`.

It looks for its orders in a folder at each step. Who orders writes a file with the name of the process, the step and
what to do there; who passes the step first takes the file away, so that an order strikes once, and says by its process
group who it is.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import django

from chaos import broken, steps

ORDERS = "CHAOS_ORDERS"
TAKEN = ".taken"


class Orders:
    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / name
        self._name = name

    def at(self, step: str, *, only_in_a_tick: bool) -> None:
        """Obey an order for this step."""
        if not self._file.exists() or (only_in_a_tick and not steps.is_of_a_tick()):
            return
        mine = self._file.with_suffix(f".{os.getpid()}-{threading.get_native_id()}")
        try:
            wanted, deed = self._file.read_text().split()
            if wanted != step:
                return
            self._file.rename(mine)
            mine.write_text(str(os.getpgrp()))
            mine.rename(self._file.with_suffix(TAKEN))  # nobody reads half of it
        except (OSError, ValueError):
            return  # another process of this name was faster
        sys.stderr.write(f"{self._name} is at the step {step}: {deed}\n")
        sys.stderr.flush()
        self._obey(deed)

    def _obey(self, deed: str) -> None:
        match deed:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill-all":
                os.killpg(os.getpgrp(), signal.SIGKILL)
            case "freeze":
                os.kill(os.getpid(), signal.SIGSTOP)


def main(name: str, kind: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")
    orders = Orders(Path(os.environ[ORDERS]), name)
    if kind == "beat":
        django.setup()
        steps.watch_beat(lambda step: orders.at(step, only_in_a_tick=True))
        broken.break_what_is_named()
        from django.core.management import call_command

        call_command("run_beat")
    else:
        from scheduler_project.celery import app

        django.setup()
        steps.watch_worker(lambda step: orders.at(step, only_in_a_tick=False))
        broken.break_what_is_named()
        app.worker_main(["worker", *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
