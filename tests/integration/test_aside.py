"""What a tick does aside is done on connections of its own, and on new ones after an error."""

import threading

import pytest
from django.db import connection

from beat.aside import AsideThreads, AtOnce

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def both(aside: AsideThreads) -> set[int]:
    """The server's processes behind both threads, each of which waits until the other has begun."""
    meet = threading.Barrier(2)

    def look() -> int:
        meet.wait(10)
        return backend()

    return {done.result() for done in [aside.submit(look), aside.submit(look)]}


def leave(aside: AsideThreads) -> None:
    meet = threading.Barrier(2)

    def close() -> None:
        meet.wait(10)
        connection.close()

    for done in [aside.submit(close), aside.submit(close)]:
        done.result()


def test_two_things_are_done_at_once_on_connections_that_stay_until_somebody_says_so() -> None:
    aside = AsideThreads()
    try:
        first = both(aside)
        assert len(first) == 2
        assert backend() not in first
        assert both(aside) == first
        with connection.cursor() as cursor:
            for pid in first:
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        aside.begin_anew()
        assert len(both(aside) - first) == 2
    finally:
        leave(aside)


def test_an_error_aside_is_told_to_whoever_waits_for_it() -> None:
    aside = AsideThreads()
    with pytest.raises(ZeroDivisionError):
        aside.submit(lambda: 1 // 0).result()
    with pytest.raises(ZeroDivisionError):
        AtOnce().submit(lambda: 1 // 0).result()
