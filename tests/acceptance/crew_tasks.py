"""Tasks for the tests of real workers; a worker gets them by `--include`. Each note is a line of a file."""

import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Task, chain, chord, shared_task
from django.db import transaction

from workers import context


def note(path: str, *words: object) -> None:
    """One write, so that lines of several processes do not mix."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(" ".join(map(str, words)) + "\n")


@shared_task(name="crew.work")
def work(path: str, seconds: float = 0) -> str:
    """Note the beginning and the end."""
    here = context.current()
    note(path, "begin", here.execution_id, here.attempt, os.getpid())
    time.sleep(seconds)
    note(path, "end", here.execution_id, here.attempt, os.getpid())
    return "done"


@shared_task(name="crew.fails")
def fails() -> None:
    raise ValueError("it always does")


@shared_task(name="crew.wait_for")
def wait_for(path: str) -> None:
    """Until the file is there."""
    while not Path(path).exists():
        time.sleep(0.05)


@shared_task(name="crew.spin")
def spin(seconds: float) -> str:
    """Keep a CPU busy and the interpreter's lock with it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100_000))
    return "done"


@shared_task(name="crew.stubborn")
def stubborn(seconds: float) -> str:
    """Does not let itself be stopped with kind words."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            time.sleep(until - time.monotonic())
        except BaseException:
            continue
    return "done"


@shared_task(name="crew.limited", soft_time_limit=1, time_limit=5)
def limited() -> None:
    """Brings its own time limits."""
    time.sleep(60)


@shared_task(name="crew.tidy")
def tidy(path: str, seconds: float) -> None:
    """Cleans up when it is stopped."""
    try:
        time.sleep(seconds)
    except context.Cancelled:
        note(path, "cleaned up", context.current().cancelled)
        raise


class DiesEarly(Task):
    abstract = True

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@shared_task(name="crew.dies_early", base=DiesEarly)
def dies_early() -> None:
    """Its process is killed before the attempt is claimed."""


@shared_task(name="crew.pages", bind=True)
def pages(self: Any, path: str) -> str:
    """Goes on where the attempt before it was killed."""
    here = context.current()
    first = here.last_checkpoint["page"] + 1 if here.last_checkpoint else 1
    for page in range(first, 4):
        note(path, "page", page, "attempt", here.attempt)
        here.checkpoint({"page": page})
        here.progress(page, 3, note=f"page {page}")
        if page == 2 and here.attempt == 1:
            raise OSError("the printer is on fire")
    return f"{here.attempt} {'the printer is on fire' in here.previous_error} {self.request.id == here.idempotency_key}"


@shared_task(name="crew.child")
def child(number: int) -> int:
    assert not context.current()
    return number + 1


@shared_task(name="crew.add_up")
def add_up(numbers: list[int]) -> int:
    return sum(numbers)


@shared_task(name="crew.note_it")
def note_it(number: int, path: str) -> None:
    note(path, "noted", number, bool(context.current()))


@shared_task(name="crew.parent")
def parent(path: str) -> str:
    """Starts plain Celery tasks: a chain, a chord, and one when its transaction is committed."""
    chain(child.s(1), child.s(), note_it.s(path)).apply_async()
    chord([child.s(n) for n in (10, 20)])(add_up.s() | note_it.s(path))
    with transaction.atomic():
        note_it.delay_on_commit(100, path)
    return "started"


@shared_task(name="crew.say")
def say(words: str) -> str:
    """By a logger of the handler's own."""
    logging.getLogger("billing").warning("%s", words)
    return context.current().request_id
