"""What a child process of the prefork pool does when it begins."""

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Any

from billiard import current_process
from billiard.util import set_pdeathsig  # type: ignore[attr-defined]  # the stubs do not know it
from celery import signals
from django.conf import settings

_LOOK_EVERY_SECONDS = 1.0


def connect() -> None:
    signals.worker_process_init.connect(_begin)


def _begin(**_kwargs: Any) -> None:
    """Celery lets the kernel kill a child when its parent ends; for the kernel that is the thread that forked it.

    Without an event loop, as with the folder broker, a child that replaces a dead one is forked by a thread that ends
    when the worker begins to stop. So such children look for themselves whether their parent still lives.
    """
    if settings.IS_FOLDER_BROKER and current_process().name != "MainProcess":  # the solo pool sends this signal as well
        with suppress(OSError):  # a kernel that kills no child with its parent
            set_pdeathsig(0)
        threading.Thread(target=_die_with, args=(os.getppid(),), name="onbeat-orphan", daemon=True).start()


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
