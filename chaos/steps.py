"""Where in its work a beat or a worker is, told from outside: the product's functions are wrapped, and know nothing.

`watch_beat` and `watch_worker` call back at each step of `chaos.plan.BEAT_STEPS` and `WORKER_STEPS`, in the very
process and thread that passes it, so that whoever is told can hit it exactly there and not a moment later.
"""

import threading
from collections.abc import Callable
from typing import Any

At = Callable[[str], None]
_MANY = 4  # messages, so that half of their bytes are some whole ones


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Let calls of a function go through another one, which gets the function as its first argument."""
    wrapped = getattr(owner, name)
    setattr(owner, name, lambda *args, **options: around(wrapped, *args, **options))


def is_of_a_tick() -> bool:
    """Whether this thread does the work of a beat's tick: other threads take leases as well, for their duties."""
    from beat.aside import NAME

    thread = threading.current_thread()
    return thread is threading.main_thread() or thread.name.startswith(NAME)


def watch_beat(at: At) -> None:
    from amqp.transport import TCPTransport

    from beat.lease import Leases
    from beat.planning import Planner
    from executions import lifecycle, queues

    planning: set[int] = set()  # the threads that plan: a beat does it aside, too
    exchange = queues.exchange().name.encode()

    def plan_due(wrapped: Callable[..., Any], *args: Any, **options: Any) -> Any:
        planning.add(threading.get_ident())
        try:
            planned = wrapped(*args, **options)
        finally:
            planning.discard(threading.get_ident())
        if planned.fires:
            at("planned")
        return planned

    def take(wrapped: Callable[..., list[bool]], *args: Any, **options: Any) -> list[bool]:
        taken = wrapped(*args, **options)
        if any(taken):
            at("leased-to-plan" if threading.get_ident() in planning else "leased-to-publish")
        return taken

    def plan_fires(wrapped: Callable[..., None], fires: Any, *args: Any, **options: Any) -> None:
        if fires:
            at("within-the-plan")
        wrapped(fires, *args, **options)

    def mark_queued(wrapped: Callable[..., int], executions: Any, **options: Any) -> int:
        confirmed = list(executions)
        if confirmed:
            at("confirmed")
        marked = wrapped(confirmed, **options)
        if marked:
            at("marked")
        return marked

    def write(wrapped: Callable[..., None], transport: Any, data: bytes | memoryview) -> None:
        half = len(data) // 2 if bytes(data).count(exchange) >= _MANY else 0
        if half:
            wrapped(transport, data[:half])
            at("within-the-batch")
        wrapped(transport, data[half:])

    wrap(Planner, "plan_due", plan_due)
    wrap(Leases, "take", take)
    wrap(lifecycle, "plan_fires", plan_fires)
    wrap(lifecycle, "mark_queued", mark_queued)
    wrap(TCPTransport, "write", write)


def watch_worker(at: At) -> None:
    from executions import concurrency, lifecycle
    from executions.outcomes import Finish
    from workers import runner, stopping

    def lock(wrapped: Callable[..., None], *args: Any) -> None:
        wrapped(*args)
        at("locked")

    def claim(wrapped: Callable[..., Any], *args: Any) -> Any:
        claimed = wrapped(*args)
        if claimed is not None:
            at("claimed")
        return claimed

    def call_step(wrapped: Callable[..., Any], *args: Any) -> Any:
        try:
            return wrapped(*args)
        finally:
            at("worked")

    def ended(wrapped: Callable[..., Finish], *args: Any, **options: Any) -> Finish:
        finish = wrapped(*args, **options)
        if finish is Finish.RETRY:
            at("retry-stored")
        if finish is not Finish.REFUSED:
            at("finished")
        return finish

    wrap(concurrency, "lock", lock)
    wrap(runner, "_claim", claim)
    wrap(stopping, "call_step", call_step)
    for verb in ("succeed", "fail", "stop"):
        wrap(lifecycle, verb, ended)
