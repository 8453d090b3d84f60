"""The tasks of the load. Each tells the ledger when it begins and how it ends; none touches the product's tables."""

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import shared_task

from chaos import ledger
from workers import context

_PAGE_SECONDS = 0.8


@contextmanager
def told(mark: str = "") -> Iterator[dict[str, str]]:
    """Around the whole of a handler. What it yields is to be returned: the row must hold the same at the end."""
    here, run = context.current(), uuid.uuid4().hex
    token = {"token": run}
    whom = {"execution": str(here.execution_id), "attempt": here.attempt, "job": here.job_key, "mark": mark}
    ledger.note(what="begin", run=run, **whom)
    try:
        yield token
    except context.Cancelled:
        ledger.note(what="end", run=run, how="stopped")
        raise
    except BaseException:
        ledger.note(what="end", run=run, how="failed")
        raise
    ledger.note(what="end", run=run, how="ok", token=run)


@shared_task(name="chaos.work")
def work(seconds: float = 0, mark: str = "") -> dict[str, str]:
    """Works for a while. A mark names whoever asked for it."""
    with told(mark) as token:
        time.sleep(seconds)
    return token


@shared_task(name="chaos.flaky")
def flaky(failures: int, mark: str = "") -> dict[str, str]:
    """Fails so many times."""
    with told(mark) as token:
        if context.current().attempt <= failures:
            raise OSError("the printer is on fire")
    return token


@shared_task(name="chaos.crash")
def crash(times: int) -> dict[str, str]:
    """Takes its process with it, so many times."""
    with told() as token:
        if context.current().attempt <= times:
            os.kill(os.getpid(), signal.SIGKILL)
    return token


@shared_task(name="chaos.pages")
def pages(count: int) -> dict[str, str]:
    """Long work that goes on where the attempt before it stopped."""
    with told() as token:
        here = context.current()
        done: Any = here.last_checkpoint or {"page": 0}
        for page in range(done["page"] + 1, count + 1):
            time.sleep(_PAGE_SECONDS)
            here.checkpoint({"page": page})
    return token
