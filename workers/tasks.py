"""Small built-in tasks for demos and tests."""

import os
import signal
import time

from celery import Task, shared_task

from workers import context


@shared_task(name="onbeat.echo")
def echo(message: str = "") -> str:
    """Return what it was given."""
    return message


@shared_task(name="onbeat.sleep")
def sleep(seconds: float = 1) -> float:
    """Take a while."""
    time.sleep(seconds)
    return seconds


@shared_task(name="onbeat.fail_until", bind=True)
def fail_until(self: "Task[..., str]", attempt: int = 2) -> str:
    """Fail until the given attempt, which succeeds."""
    current = context.current().attempt or self.request.retries + 1
    if current < attempt:
        raise RuntimeError(f"attempt {current} fails on purpose, attempt {attempt} will succeed")
    return f"succeeded on attempt {current}"


@shared_task(name="onbeat.crash")
def crash(until_attempt: int | None = None) -> str:
    """End its process as the kernel does when memory runs out, until the given attempt; without one, each time.

    In a pool without children that is the worker itself.
    """
    current = context.current().attempt
    if until_attempt is None or current < until_attempt:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"did not crash on attempt {current}"
