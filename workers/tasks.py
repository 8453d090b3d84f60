"""Small built-in tasks for demos and tests."""

import time

from celery import Task, shared_task


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
    from executions.messages import delivery

    ours = delivery(self.request.headers or {})
    current = ours.attempt if ours else self.request.retries + 1
    if current < attempt:
        raise RuntimeError(f"attempt {current} fails on purpose, attempt {attempt} will succeed")
    return f"succeeded on attempt {current}"
