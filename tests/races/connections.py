"""Several connections to PostgreSQL: one after the other, at once, and one that waits for the other's commit."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from django.db import connection

from tests.waiting import wait_until

T = TypeVar("T")
_PATIENCE_SECONDS = 60  # only ends a test that hangs


@contextmanager
def _own_connection() -> Iterator[None]:
    """For the thread it is called in. A step that would wait for ever fails instead."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")
        yield
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
    finally:
        connection.close()


def elsewhere(act: Callable[[], T]) -> T:
    """Do something on a connection of its own and close it."""

    def with_own_connection() -> T:
        with _own_connection():
            return act()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(with_own_connection).result(timeout=_PATIENCE_SECONDS)


@contextmanager
def several(count: int) -> Iterator[Callable[..., list[Any]]]:
    """A function that starts that many acts at the same moment, each on a connection of its own, round after round."""
    gate = threading.Barrier(count)

    def act_at_gate(act: Callable[[], T]) -> T:
        gate.wait(timeout=_PATIENCE_SECONDS)
        return act()

    with ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(count)]

        def start_all(*acts: Callable[[], T]) -> list[T]:
            futures = [pool.submit(act_at_gate, act) for pool, act in zip(pools, acts, strict=True)]
            return [future.result(timeout=_PATIENCE_SECONDS) for future in futures]

        try:
            yield start_all
        finally:
            for pool in pools:
                pool.submit(lambda: connection.close()).result(timeout=_PATIENCE_SECONDS)


def at_once(*acts: Callable[[], T]) -> list[T]:
    """Start all at the same moment, once."""
    with several(len(acts)) as start_all:
        return start_all(*acts)


def waits_for_us(act: Callable[[], T]) -> Future[T]:
    """Start an act elsewhere, and go on when it waits for a lock of our open transaction. Its answer comes later."""
    outcome: Future[T] = Future()
    other: Future[int] = Future()

    def act_elsewhere() -> None:
        try:
            with _own_connection():
                other.set_result(_process_of_connection())
                outcome.set_result(act())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=act_elsewhere, daemon=True).start()
    theirs, ours = other.result(timeout=_PATIENCE_SECONDS), _process_of_connection()

    def is_blocked() -> bool:
        assert not outcome.done(), f"it did not wait: {outcome.exception() or outcome.result()!r}"
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s = ANY(pg_blocking_pids(%s))", [ours, theirs])
            return bool(cursor.fetchone()[0])

    wait_until(is_blocked, what="the other connection waits for our lock")
    return outcome


def _process_of_connection() -> int:
    connection.ensure_connection()
    number: int = connection.connection.info.backend_pid
    return number
