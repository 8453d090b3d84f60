"""The pools of Celery that a worker may have. What each can do: docs/reference/pools.md."""

TESTED = {
    "celery.concurrency.prefork:TaskPool": "prefork",
    "celery.concurrency.thread:TaskPool": "threads",
    "celery.concurrency.solo:TaskPool": "solo",
}

UNTESTED = ("gevent", "eventlet")


def refusal(name: str) -> str:
    return f"The {name} pool is not supported: start the worker with --pool prefork, threads or solo."


def name_of(pool: type) -> str:
    path = f"{pool.__module__}:{pool.__qualname__}"
    return TESTED.get(path, pool.__module__.rpartition(".")[2])


def check(pool: type) -> None:
    """Heartbeats, time limits and cancelling are tried with some pools, and with others nobody knows."""
    name = name_of(pool)
    if name not in TESTED.values():
        raise SystemExit(refusal(name))
